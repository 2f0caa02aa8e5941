"""From what a person wrote as the model to a model that is ready: the one way in."""

import os
from pathlib import Path

from engine.errors import ModelError
from engine.models.cache import CachedModel, cache_dir, in_cache, list_entries, load_gguf
from engine.models.fetch import DEFAULT_FILE, DEFAULT_REQUIREMENT, default_model_file
from engine.models.file_kind import GGUF_MAGIC, PICKLES, looks_like, not_gguf, pickle_refused
from engine.models.hub import fetch_from_hub, is_hub_id
from engine.models.loaded import LoadedModel, ServedModel
from engine.models.progress import Progress, Report, silent
from engine.models.safetensors_reader import check_directory, read_directory, read_served
from engine.models.stated import one_sentence, printable, shown

__all__ = [
    "DEFAULT_MODEL",
    "CachedModel",
    "Progress",
    "Report",
    "check_choice",
    "check_gguf",
    "find_model",
    "list_models",
    "load_model",
    "local_path",
]

DEFAULT_MODEL = "default"


def load_model(choice: str | None = None, progress: Report = silent) -> LoadedModel:
    """The model to serve.

    `choice`: a GGUF file, a directory of safetensors, a Hugging Face id (`org/name` or `org/name:file.gguf`), or
    "default"; None takes PARKDECK_MODEL and else the default model. Raises ModelError, one sentence, for anything
    that cannot be served.
    """
    wanted = _wanted(choice)
    with one_sentence(wanted):
        if wanted == DEFAULT_MODEL:
            return load_gguf(default_model_file(progress), f"PyPI package {DEFAULT_REQUIREMENT}", progress)
        path = local_path(wanted)
        if path is not None:
            return _from_path(path, printable(str(path.resolve())), None, progress)
        name = wanted.partition(":")[0].split("/")[1]
        return _from_path(fetch_from_hub(wanted, progress), f"Hugging Face {wanted}", name, progress)


def check_choice(choice: str) -> None:
    """Raises ModelError, one sentence, for what can be seen not to be a model without loading or fetching it."""
    if choice == DEFAULT_MODEL:
        return
    with one_sentence(choice):
        path = local_path(choice)
        if path is None:
            return
        if path.is_dir():
            check_directory(path)
        else:
            check_gguf(path)


def find_model(choice: str | None = None, progress: Report = silent) -> tuple[Path, ServedModel]:
    """A model for a backend that reads weights by itself: its directory as Hugging Face lays it out, and its text side.

    As `load_model`, but a directory may hold any architecture and quantization. Raises ModelError.
    """
    wanted = _wanted(choice)
    with one_sentence(wanted):
        path = None if wanted == DEFAULT_MODEL else local_path(wanted)
        if path is not None and path.is_dir():
            return path, read_served(path, printable(str(path.resolve())))
        if wanted != DEFAULT_MODEL and path is None and ":" not in wanted:
            path = fetch_from_hub(wanted, progress)
            return path, read_served(path, f"Hugging Face {wanted}", wanted.split("/")[1])
    loaded = load_model(choice, progress)
    return loaded.path, loaded.served


def list_models() -> list[CachedModel]:
    """What the cache holds: converted models, then the default model's file as it was fetched."""
    with in_cache():
        kept = cache_dir() / DEFAULT_FILE
        source = f"PyPI package {DEFAULT_REQUIREMENT}"
        fetched = [CachedModel(kept.stem, kept.stat().st_size, source, "file", kept)] if kept.is_file() else []
        return list_entries() + fetched


def _wanted(choice: str | None) -> str:
    return (choice or os.environ.get("PARKDECK_MODEL") or DEFAULT_MODEL).strip() or DEFAULT_MODEL


def local_path(wanted: str) -> Path | None:
    """What is at that path; None: a Hugging Face id. Raises ModelError when it is neither, or a pickle file."""
    path = Path(wanted)
    try:
        path = path.expanduser()
        there = path.exists()
    except (OSError, RuntimeError):
        there = False
    if there:
        return path
    if path.suffix in PICKLES:
        raise pickle_refused(path)
    if is_hub_id(wanted):
        return None
    raise ModelError(
        f"{shown(wanted, 120)}: no such file or directory, and not a Hugging Face id; give a GGUF file, a directory of "
        f"safetensors or an id as org/name, or {DEFAULT_MODEL!r}."
    )


def _from_path(path: Path, source: str, name: str | None, progress: Report) -> LoadedModel:
    if path.is_dir():
        progress(Progress("load", None, f"mapping the weights in {path}"))
        return read_directory(path, source, name)
    check_gguf(path)
    return load_gguf(path, source, progress)


def check_gguf(path: Path) -> None:
    """Raises ModelError, which says what the file is instead."""
    if path.suffix in PICKLES:
        raise pickle_refused(path)
    # Opening a pipe or a device may wait forever.
    if not path.is_file():
        raise ModelError(f"{path}: neither a file nor a directory; give a GGUF file or a directory of safetensors.")
    try:
        with path.open("rb") as file:
            head = file.read(512)
    except OSError as error:
        raise ModelError(f"{path}: cannot be read ({error.strerror}); check its permissions.") from error
    if head.startswith(GGUF_MAGIC):
        return
    if path.suffix == ".gguf":
        raise not_gguf(path, head)
    if path.suffix == ".safetensors":
        raise ModelError(f"{path}: one file of a model; give its directory {path.parent}, which holds config.json too.")
    raise ModelError(
        f"{path}: not a model file but {looks_like(head)}; give a GGUF file or a directory of safetensors."
    )
