"""Converted GGUF models, kept as safetensors in the user's cache so that a warm start maps them and is done.

An entry is a directory `models/<key>/` of model.safetensors, tokenizer.json, model.json, and config.json, with which it
can be read by whatever reads Hugging Face's directories. It is written beside its
place and renamed into it, so an entry is whole or absent, whatever is killed when, and two processes may convert at
once: the second finds the first one's entry and takes it. The key holds the format's version, the file's path, size
and time, and a hash of its header, so a warm start never reads the whole file.
"""

import hashlib
import json
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import platformdirs
import psutil
import xxhash

from engine.errors import ModelError
from engine.models.config import ModelConfig, RopeConfig, hugging_face_config
from engine.models.loaded import LoadedModel
from engine.models.progress import Progress, Report
from engine.models.safetensors_file import map_tensors, read_header
from engine.models.shapes import check_config, check_shapes
from engine.models.stated import json_object
from engine.models.template import ChatTemplate
from engine.models.tokenizer import TextTokenizer, load_tokenizer

FORMAT = 2
_HEADER_BYTES = 4 << 20
_CHUNK = 1 << 20
_WEIGHTS, _TOKENIZER, _MODEL = "model.safetensors", "tokenizer.json", "model.json"


def cache_dir() -> Path:
    """PARKDECK_CACHE_DIR, or the user's cache directory of this platform."""
    override = os.environ.get("PARKDECK_CACHE_DIR")
    return (
        Path(os.path.expanduser(override))
        if override
        else Path(platformdirs.user_cache_dir("parkdeck", appauthor=False))
    )


@contextmanager
def in_cache() -> Iterator[None]:
    """A cache that cannot be read or written leaves as one ModelError that says how to have another."""
    root = str(cache_dir())
    try:
        yield
    except OSError as error:
        if isinstance(error.filename, str) and not error.filename.startswith(root):
            raise
        raise ModelError(
            f"{root}: the model cache cannot be used ({error.strerror or error}); make room and check its permissions, "
            "or point PARKDECK_CACHE_DIR to another directory."
        ) from error


@dataclass(frozen=True, slots=True)
class CachedModel:
    """What the cache holds of one model. `kind`: a converted model, or a file as it was fetched."""

    name: str
    nbytes: int
    source: str
    kind: str
    path: Path


def file_key(path: Path) -> str:
    """Tells this version of a file from all others, from its path, size, time and first 4 MiB. In the cache the path is
    the one there, so that a cache may be copied or mounted elsewhere, also where nothing can be written."""
    stat = path.stat()
    with path.open("rb") as file:
        head = hashlib.sha256(file.read(_HEADER_BYTES)).hexdigest()
    place, root = path.resolve(), cache_dir().resolve()
    place = place.relative_to(root) if place.is_relative_to(root) else place
    stated = json.dumps([FORMAT, str(place), stat.st_size, stat.st_mtime_ns, head])
    return hashlib.sha256(stated.encode()).hexdigest()[:16]


def entry_path(path: Path) -> Path:
    """Where the conversion of this file is, or will be."""
    return cache_dir() / "models" / file_key(path)


def load_gguf(path: Path, source: str, report: Report) -> LoadedModel:
    """The model of a GGUF file, converted on first sight. Raises ModelError for a file that cannot be served."""
    entry = entry_path(path)
    report(Progress("load", None, f"looking for {path.name} in the cache"))
    with in_cache():
        loaded = _whole(entry)
        if loaded is None:
            _convert_into(entry, path, source, report)
            loaded = load_entry(entry)
    report(Progress("load", 1.0, f"{loaded.config.name}: {loaded.note}"))
    return loaded


def load_entry(entry: Path) -> LoadedModel:
    """A converted model, memory mapped. Raises ModelError when the entry is not whole."""
    try:
        stated = json_object(entry / _MODEL)
        if stated.pop("seal") != _seal(entry, stated):
            raise ValueError("a file was changed")
        config = check_config(_config(stated["config"]), str(entry / _MODEL))
        template = ChatTemplate(**stated["template"]) if stated["template"] else None
        add_bos, source, note = bool(stated["add_bos"]), str(stated["source"]), str(stated["note"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"{entry}: the cached model is not whole ({error}); delete this directory.") from error
    stored = read_header(entry / _WEIGHTS)
    check_shapes(config, {name: tensor.shape for name, tensor in stored.items()}, str(entry / _WEIGHTS))
    tokenizer = TextTokenizer(
        load_tokenizer(entry / _TOKENIZER),
        vocab_size=config.vocab_size,
        eos_ids=config.eos_ids,
        bos_id=config.bos_id,
        add_bos=add_bos,
    )
    return LoadedModel(
        config=config,
        weights=map_tensors(entry / _WEIGHTS, stored),
        tokenizer=tokenizer,
        template=template,
        path=entry,
        source=source,
        revision=entry.name,
        note=note,
    )


def list_entries() -> list[CachedModel]:
    """The converted models in the cache, by name."""
    root = cache_dir() / "models"
    found = []
    for entry in sorted(root.iterdir()) if root.is_dir() else []:
        if (entry / _MODEL).is_file() and not entry.name.startswith("."):
            try:
                stated = json_object(entry / _MODEL)
                name, source = str(stated["config"]["name"]), str(stated["source"])
                nbytes = sum(file.stat().st_size for file in entry.iterdir())
            except (ModelError, OSError, KeyError, TypeError):
                # Damaged, or removed at this moment; it is made anew when its model is loaded.
                continue
            found.append(CachedModel(name, nbytes, source, "converted", entry))
    return sorted(found, key=lambda model: model.name)


def publish(entry: Path, write: Callable[[Path], None]) -> None:
    """Fills a directory beside `entry` and renames it into place; whoever comes first wins, the other's is dropped."""
    entry.parent.mkdir(parents=True, exist_ok=True)
    drop_abandoned(entry.parent)
    drop_outdated(entry.parent)
    draft = entry.parent / f".draft-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    draft.mkdir()
    try:
        write(draft)
        try:
            draft.rename(entry)
        except OSError:
            # Renaming onto a directory that is not empty fails: another process was first, and its entry is as good.
            if not (entry / _MODEL).is_file():
                raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def drop_abandoned(root: Path, older_than_s: float = 3600.0) -> None:
    """Removes drafts whose process was killed. Age decides with the process id, as caches may be shared by machines."""
    for draft in root.glob(".draft-*"):
        owner = draft.name.split("-")[1]
        try:
            inside = list(draft.iterdir()) if draft.is_dir() else []
            newest = max(file.stat().st_mtime for file in (draft, *inside))
        except OSError:
            continue
        if time.time() - newest > older_than_s and not (
            owner.isdecimal() and len(owner) < 10 and psutil.pid_exists(int(owner))
        ):
            _remove(draft)


def drop_outdated(root: Path) -> None:
    """Removes entries of an earlier format: nothing reads them any more."""
    for stated in root.glob("*/" + _MODEL):
        try:
            outdated = json_object(stated)["format"] != FORMAT
        except (ModelError, KeyError):
            continue
        if outdated:
            shutil.rmtree(stated.parent, ignore_errors=True)


def _whole(entry: Path) -> LoadedModel | None:
    """The entry if it can be used; one that was damaged from outside is moved away and made anew."""
    if not entry.exists():
        return None
    try:
        return load_entry(entry)
    except ModelError:
        away = entry.parent / f".draft-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        try:
            entry.rename(away)
        except FileNotFoundError:
            return None
        _remove(away)
        return None


def _remove(path: Path) -> None:
    """What is there, a directory or a stray file, as far as it can be removed."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
        return
    with suppress(OSError):
        path.unlink()


def _seal(entry: Path, stated: dict[str, Any]) -> str:
    """Over all that is loaded, against damage and not against forgery; reading the weights warms the mapped pages."""
    seal = xxhash.xxh3_128(json.dumps(stated, sort_keys=True).encode())
    chunk = memoryview(bytearray(_CHUNK))
    for part in (_TOKENIZER, _WEIGHTS):
        with (entry / part).open("rb", buffering=0) as file:
            while count := file.readinto(chunk):
                seal.update(chunk[:count])
    return str(seal.hexdigest())


def _convert_into(entry: Path, path: Path, source: str, report: Report) -> None:
    from engine.models.convert import write_weights
    from engine.models.gguf_reader import read_gguf

    report(Progress("check", None, f"checking {path}"))
    model = read_gguf(path)

    def write(draft: Path) -> None:
        note = write_weights(model, draft / _WEIGHTS, report)
        model.tokenizer.save(draft / _TOKENIZER)
        stated = {
            "format": FORMAT,
            "config": asdict(model.config) | {"eos_ids": sorted(model.config.eos_ids)},
            "template": asdict(model.template) if model.template else None,
            "add_bos": model.tokenizer.add_bos,
            "source": source,
            "note": note,
        }
        hugging_face = json.dumps(hugging_face_config(model.config), indent=1)
        (draft / "config.json").write_text(hugging_face, encoding="utf-8")
        sealed = stated | {"seal": _seal(draft, stated)}
        (draft / _MODEL).write_text(json.dumps(sealed, ensure_ascii=False, indent=1), encoding="utf-8")

    publish(entry, write)


def _config(stated: dict[str, Any]) -> ModelConfig:
    return ModelConfig(**stated | {"rope": RopeConfig(**stated["rope"]), "eos_ids": frozenset(stated["eos_ids"])})
