"""Numba's files of compiled kernels may be damaged or impossible to write; both cost a compilation, never the start.

Kernels are declared with this `njit`, which is numba's own: numba looks for its files by the classes that are set here.
Each file ends with a digest of itself, since flipped bytes may still be read, and run as other code. A kernel's code is
kept with what it is for, since a full disk may leave a new index beside an old file.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

from numba import njit
from numba.core import caching, dispatcher

__all__ = ["njit"]

DIGEST_BYTES = sha256().digest_size
log = logging.getLogger(__name__)


class _Files(caching.IndexDataCacheFile):
    """One function's index and code: what is damaged is dropped, what cannot be written is left out."""

    def load(self, key: Any) -> Any:
        made_for, code = super().load(key) or (None, None)
        return code if made_for == (self._source_stamp, key) else None

    def save(self, key: Any, data: Any) -> None:
        try:
            super().save(key, ((self._source_stamp, key), data))
        except OSError as error:
            _tell_unkept(self._cache_path, error.strerror)

    def forget(self, key: Any) -> None:
        """Drop the code for this key, which numba could not load."""
        if name := self._load_index().get(key):
            _drop(self._data_path(name))

    def _load_index(self) -> dict[Any, str]:
        return self._read(self._index_path, super()._load_index) or {}

    def _load_data(self, name: str) -> Any:
        load = super()._load_data
        return self._read(self._data_path(name), lambda: load(name))

    def _read(self, path: str, read: Callable[[], Any]) -> Any:
        """None for what is not there. Unpickling ignores the digest behind its end."""
        try:
            kept = Path(path).read_bytes()
            if sha256(kept[:-DIGEST_BYTES]).digest() == kept[-DIGEST_BYTES:]:
                return read()
        except OSError:
            return None
        except Exception:
            # Pickles fail in every way.
            log.debug("%s cannot be unpickled", path, exc_info=True)
        _drop(path)
        return None

    @contextmanager
    def _open_for_write(self, filepath: str) -> Iterator[BytesIO]:
        with super()._open_for_write(filepath) as file:
            written = BytesIO()
            yield written
            file.write(written.getvalue() + sha256(written.getbuffer()).digest())


class _Kernels(caching.FunctionCache):
    """One function's kept code; where numba cannot load it, the function is compiled anew."""

    def _load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super()._load_overload(sig, target_context)
        except Exception:
            # LLVM fails in every way.
            log.debug("%s cannot be loaded", self._name, exc_info=True)
            self._cache_file.forget(self._index_key(sig, target_context.codegen()))
            return None


class _KernelFolder(caching.UserProvidedCacheLocator):
    """NUMBA_CACHE_DIR, also where nothing can be written: numba would write into the source tree instead."""

    def ensure_cache_path(self) -> None:
        with suppress(OSError):
            super().ensure_cache_path()


def _drop(path: str) -> None:
    log.warning("the compiled kernel %s is damaged and made anew", path)
    with suppress(OSError):
        Path(path).unlink()


@cache
def _tell_unkept(folder: str, why: str) -> None:
    """Once, not for each kernel."""
    log.warning(
        "compiled kernels cannot be kept in %s (%s), so each start compiles them; make room and check its permissions, "
        "or point PARKDECK_CACHE_DIR to another directory",
        folder,
        why,
    )


caching.IndexDataCacheFile = _Files
caching.CacheImpl._locator_classes = [_KernelFolder, *caching.CacheImpl._locator_classes[1:]]
dispatcher.FunctionCache = _Kernels
