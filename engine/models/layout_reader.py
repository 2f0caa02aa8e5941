"""A model on paper: what a turn of it would hold and what its weights take, without loading them."""

import struct
from dataclasses import dataclass, replace
from pathlib import Path

from engine.errors import ModelError
from engine.layout import TurnLayout
from engine.models.fetch import default_model_file
from engine.models.file_kind import GGUF_MAGIC
from engine.models.gguf_records import Records, read_records
from engine.models.hub_peek import config_of, gguf_records_of, index_of, single_file_start
from engine.models.layouts.config_json import layout_of_config
from engine.models.layouts.gguf_keys import layout_of_gguf
from engine.models.progress import silent
from engine.models.resolve import DEFAULT_MODEL, check_gguf, local_path
from engine.models.stated import integer, json_object, one_sentence, printable, shown

_CONFIG = "config.json"
_INDEX = "model.safetensors.index.json"
_MOST_WEIGHTS = 1 << 44
_LONGEST_NAME = 120


@dataclass(frozen=True, slots=True)
class ModelOnPaper:
    """`weights_bytes`: of all tensors as they are stored, None where only the config is known. `source`: where the
    layout was read, a phrase for the page."""

    layout: TurnLayout
    weights_bytes: int | None
    source: str


def read_layout(choice: str) -> ModelOnPaper:
    """Reads what a model states of itself.

    `choice`: a config.json, a directory that holds one, a GGUF file (its header), a Hugging Face id as `org/name` (its
    config.json) or `org/name:file.gguf` (its header), or "default". Raises ModelError, one sentence, for anything that
    cannot be had, is badly stated, or has a layout that is not known.
    """
    wanted = choice.strip()
    if not wanted:
        raise ModelError(f"No model is named; give a path, a Hugging Face id or {DEFAULT_MODEL!r}.")
    with one_sentence(wanted):
        read = _of(wanted)
        if not read.layout.groups and not read.layout.state_bytes:
            raise ModelError(
                f"{wanted}: states that a turn holds nothing, neither KV nor a state; choose another model."
            )
        if read.weights_bytes is not None and not 0 < read.weights_bytes <= _MOST_WEIGHTS:
            raise ModelError(
                f"{wanted}: its files state {shown(read.weights_bytes, 40)} bytes of weights, which no model has; "
                "download it again."
            )
        return read


def _of(wanted: str) -> ModelOnPaper:
    if wanted == DEFAULT_MODEL:
        file = default_model_file(silent)
        return _of_gguf(read_records(file), str(file), file.stem, "GGUF header of the default model")
    path = local_path(wanted)
    if path is not None:
        return _of_path(path)
    repository, _, name = wanted.partition(":")
    if name:
        return _of_gguf(gguf_records_of(repository, name), wanted, Path(name).stem, f"GGUF header of {wanted}")
    return _of_repository(repository)


def _of_path(path: Path) -> ModelOnPaper:
    if path.is_dir():
        file = path / _CONFIG
        if not file.is_file():
            ggufs = sorted(found.name for found in path.glob("*.gguf"))
            more = f"; give one of its GGUF files, as {path / ggufs[0]}" if ggufs else "; give a model's own directory"
            raise ModelError(f"{path}: holds no {_CONFIG}{more}.")
        name = path.resolve().name
        return ModelOnPaper(_of_config(file, name), _stored_bytes(path), f"{_CONFIG} in {printable(str(path))}")
    if path.suffix == ".json":
        # Opening a pipe or a device may wait forever.
        if not path.is_file():
            raise ModelError(f"{path}: not a file; give a {_CONFIG} or the directory that holds it.")
        name = path.resolve().parent.name if path.name == _CONFIG else path.stem
        return ModelOnPaper(_of_config(path, name), None, printable(str(path)))
    check_gguf(path)
    return _of_gguf(read_records(path), str(path), path.stem, f"GGUF header of {printable(path.name)}")


def _of_repository(repository: str) -> ModelOnPaper:
    layout = _of_config(config_of(repository), repository.split("/")[1], f"{repository}: {_CONFIG}")
    try:
        index = index_of(repository)
        start = single_file_start(repository) if index is None else None
    except ModelError:
        # The layout is known all the same, as without network from a cache that holds the config alone.
        index = start = None
    if index is not None:
        weights = _indexed_bytes(index)
    else:
        weights = None if start is None else _data_bytes(f"{repository}: model.safetensors", *start)
    return ModelOnPaper(layout, weights, f"{_CONFIG} of {repository}")


def _of_config(file: Path, name: str, shown_as: str | None = None) -> TurnLayout:
    return layout_of_config(json_object(file), shown_as or str(file), printable(name))


def _of_gguf(records: Records, file: str, stem: str, source: str) -> ModelOnPaper:
    stated = records.metadata.get("general.name")
    name = stated if isinstance(stated, str) and stated.strip() else stem
    layout = layout_of_gguf(records.metadata, file, shown(name.strip(), _LONGEST_NAME))
    parts = integer(records.metadata, "split.count", file, 1)
    if parts > 1:
        note = f"The model is split over {parts} files of which one was read, so its weights are not counted."
        return ModelOnPaper(replace(layout, notes=(*layout.notes, note)), None, source)
    return ModelOnPaper(layout, records.tensor_bytes, source)


def _stored_bytes(directory: Path) -> int | None:
    """Of the safetensors files that lie there; what their list says where one that it names is missing."""
    index = directory / _INDEX
    files = [file for file in directory.glob("*.safetensors") if not file.name.startswith("consolidated")]
    if index.is_file() and (not files or _listed(index) - {file.name for file in files}):
        return _indexed_bytes(index)
    total = 0
    for file in files:
        # Opening a pipe may wait forever.
        if not file.is_file():
            raise ModelError(f"{file}: not a file; download the model again.")
        with file.open("rb") as opened:
            total += _data_bytes(str(file), opened.read(8), file.stat().st_size)
    return total if files else None


def _listed(index: Path) -> set[str]:
    """The names of the files that the list names."""
    files = json_object(index).get("weight_map")
    return {name for name in files.values() if isinstance(name, str)} if isinstance(files, dict) else set()


def _data_bytes(file: str, head: bytes, size: int) -> int:
    """What follows the header of a safetensors file."""
    length = struct.unpack("<Q", head)[0] if len(head) == 8 else size
    if head.startswith(GGUF_MAGIC) or 8 + length > size:
        raise ModelError(f"{file}: not a whole safetensors file; download it again.")
    return int(size - 8 - length)


def _indexed_bytes(index: Path) -> int | None:
    """The list's own sum; None where it states none."""
    metadata = json_object(index).get("metadata")
    if not isinstance(metadata, dict) or metadata.get("total_size") is None:
        return None
    total = metadata["total_size"]
    # Some writers state it as a float.
    if isinstance(total, float) and total.is_integer():
        total = int(total)
    if type(total) is not int or total < 1:
        raise ModelError(f"{index}: total_size is {shown(total, 40)}, not a number of bytes; download it again.")
    return total
