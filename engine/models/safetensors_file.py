"""The safetensors container: header checked before use, tensors memory mapped, written as a stream.

Layout: 8 bytes little-endian header length, a JSON header (name -> dtype, shape, data_offsets), data without gaps.
"""

import json
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import ModelError
from engine.models.file_kind import looks_like
from engine.models.stated import shown

if TYPE_CHECKING:
    from torch import Tensor

_MAX_HEADER = 100_000_000
_ITEM_BYTES = {"F32": 4, "F16": 2, "BF16": 2}


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """`offset` from the start of the file, in bytes; `dtype` as the format spells it: F32, F16 or BF16."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int

    @property
    def nbytes(self) -> int:
        return elements(self.shape) * _ITEM_BYTES[self.dtype]


def elements(shape: Iterable[int]) -> int:
    count = 1
    for length in shape:
        count *= length
    return count


def read_header(path: Path) -> dict[str, StoredTensor]:
    """Raises ModelError for a file that is cut off, is something else, or holds a tensor of another dtype."""
    if not path.is_file():
        raise ModelError(f"{path}: the weights file is missing; download the model again.")
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(8)
        if not head:
            raise ModelError(f"{path}: the file is empty; download it again.")
        length = struct.unpack("<Q", head)[0] if len(head) == 8 else _MAX_HEADER + 1
        if length > _MAX_HEADER:
            file.seek(0)
            raise ModelError(f"{path}: not a safetensors file but {looks_like(file.read(512))}; download it again.")
        text = file.read(length)
    if len(text) < length:
        raise ModelError(
            f"{path}: the file ends inside its header, at byte {size:,}; it is cut off, download it again."
        )
    start = 8 + length
    tensors = [_stored(path, name, entry, start, size) for name, entry in _entries(path, text).items()]
    _check_apart(path, tensors)
    end = max((tensor.offset + tensor.nbytes for tensor in tensors), default=start)
    if end != size:
        raise ModelError(f"{path}: the file has {size:,} bytes but its header describes {end:,}; it is corrupt.")
    return {tensor.name: tensor for tensor in tensors}


def map_tensors(path: Path, stored: Mapping[str, StoredTensor]) -> "dict[str, Tensor]":
    """Tensors over the mapped file: nothing is read until it is used, and writing to them never reaches the file."""
    import torch

    dtypes = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
    data = torch.from_file(str(path), shared=False, size=path.stat().st_size, dtype=torch.uint8)
    mapped = {}
    for name, tensor in stored.items():
        raw = data[tensor.offset : tensor.offset + tensor.nbytes]
        if tensor.offset % _ITEM_BYTES[tensor.dtype]:
            raw = raw.clone()
        mapped[name] = raw.view(dtypes[tensor.dtype]).view(tensor.shape)
    return mapped


@dataclass(frozen=True, slots=True)
class Entry:
    """A tensor to be written."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return elements(self.shape) * _ITEM_BYTES[self.dtype]


def encoded_header(entries: Iterable[Entry]) -> bytes:
    """The first bytes of a file that will hold these tensors, in this order; the data follows without gaps."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for entry in entries:
        header[entry.name] = {"dtype": entry.dtype, "shape": entry.shape, "data_offsets": [at, at + entry.nbytes]}
        at += entry.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % 64)
    return struct.pack("<Q", len(text)) + text


def _entries(path: Path, text: bytes) -> dict[str, Any]:
    try:
        header = json.loads(text)
        if not isinstance(header, dict):
            raise ValueError("not an object")
    except (ValueError, RecursionError) as error:
        raise ModelError(
            f"{path}: the header is not JSON ({shown(error, 150)}); the file is corrupt, download it again."
        ) from error
    return {name: entry for name, entry in header.items() if name != "__metadata__"}


def _stored(path: Path, name: str, entry: Any, start: int, size: int) -> StoredTensor:
    try:
        dtype, shape, (begin, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
    except (KeyError, TypeError, ValueError) as error:
        raise _broken(path, name) from error
    if not isinstance(dtype, str) or any(type(count) is not int or count < 0 for count in (*shape, begin, end)):
        raise _broken(path, name)
    if dtype not in _ITEM_BYTES:
        raise ModelError(
            f"{path}: tensor {name} is of type {shown(dtype)}; BF16, F16 and F32 are served, so run it on the "
            "vLLM backend."
        )
    tensor = StoredTensor(name, dtype, shape, start + begin)
    if end - begin != tensor.nbytes:
        raise ModelError(f"{path}: tensor {name} has offsets that do not fit its shape; the file is corrupt.")
    if start + end > size:
        raise ModelError(
            f"{path}: tensor {name} ends at byte {start + end:,} but the file has {size:,}; it is cut off or corrupt, "
            "download it again."
        )
    return tensor


def _broken(path: Path, name: str) -> ModelError:
    return ModelError(f"{path}: tensor {name} has a broken header entry; the file is corrupt, download it again.")


def _check_apart(path: Path, tensors: list[StoredTensor]) -> None:
    ordered = sorted((tensor for tensor in tensors if tensor.nbytes), key=lambda tensor: tensor.offset)
    for first, second in pairwise(ordered):
        if first.offset + first.nbytes > second.offset:
            raise ModelError(
                f"{path}: tensors {first.name} and {second.name} overlap; the file is corrupt, download it again."
            )
