"""Numba's files of compiled kernels may be damaged or impossible to write; both cost a compilation, never the start.

Kernels are declared with this `njit`, which is numba's own: numba looks for its files by the class that is set here.
"""

import logging
from contextlib import suppress
from pathlib import Path
from typing import Any

from numba import njit
from numba.core import caching

__all__ = ["njit"]

log = logging.getLogger(__name__)


class _Forgiving(caching.IndexDataCacheFile):
    """One function's index and code: what cannot be read is dropped, what cannot be written is left out."""

    def load(self, key: Any) -> Any:
        try:
            return super().load(key)
        except Exception:  # noqa: BLE001 -- pickles fail in every way; the function is compiled anew
            log.warning("the compiled kernel %s is damaged and made anew", self._index_path)
            with suppress(OSError):
                Path(self._index_path).unlink()
            return None

    def save(self, key: Any, data: Any) -> None:
        try:
            super().save(key, data)
        except OSError as error:
            log.warning("the compiled kernel %s cannot be kept (%s)", self._index_path, error.strerror)


caching.IndexDataCacheFile = _Forgiving
