"""The header of a GGUF file, read and checked in full before a byte of its weights is touched.

Layout (little endian): magic, version, tensor count, key count; keys with typed values; one record per tensor (name,
dimensions innermost first, type, offset); padding to `general.alignment`; data. Strings and arrays carry 64-bit
lengths. Written to be strict about bounds and quick about long token lists.
"""

import mmap
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, dequantize

from engine.errors import ModelError
from engine.models.file_kind import GGUF_MAGIC, looks_like
from engine.models.stated import shown

_Item = TypeVar("_Item")
_VERSIONS = (2, 3)
_ALIGNMENT = 32
_DEEPEST = 4
_STRING, _ARRAY = 8, 9
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
# Types that once had these numbers and that the `gguf` package has forgotten.
_RETIRED = {4: "Q4_2", 5: "Q4_3", 31: "Q4_0_4_4", 32: "Q4_0_4_8", 33: "Q4_0_8_8", 36: "IQ4_NL_4_4", 37: "IQ4_NL_4_8"}
_PLAIN = frozenset({GGMLQuantizationType.F32, GGMLQuantizationType.F16, GGMLQuantizationType.BF16})


@dataclass(frozen=True, slots=True)
class GGUFTensor:
    """`shape` outermost first, `offset` from the start of the file, both in the units of `type` and bytes."""

    name: str
    type: GGMLQuantizationType
    shape: tuple[int, ...]
    offset: int
    nbytes: int

    @property
    def quantized(self) -> bool:
        return self.type not in _PLAIN


@dataclass(frozen=True, slots=True)
class GGUFHeader:
    path: Path
    metadata: Mapping[str, Any]
    tensors: Mapping[str, GGUFTensor]


def read_header(path: Path) -> GGUFHeader:
    """Raises ModelError for a file that is not GGUF, is cut off, or holds a tensor that cannot be read."""
    size = path.stat().st_size
    if size == 0:
        raise ModelError(f"{path}: the file is empty; download it again.")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        _check_magic(path, data[:512])
        cursor = _Cursor(path, data, len(GGUF_MAGIC))
        version = cursor.scalar("I")
        if version not in _VERSIONS:
            raise ModelError(f"{path}: GGUF version {version} is not readable, versions 2 and 3 are; convert it anew.")
        tensor_count, key_count = cursor.scalar("Q"), cursor.scalar("Q")
        metadata = _distinct(path, "key", (cursor.key() for _ in range(key_count)))
        named = ((record.name, record) for record in (cursor.record() for _ in range(tensor_count)))
        records = list(_distinct(path, "tensor", named).values())
        alignment = metadata.get("general.alignment", _ALIGNMENT)
        if not isinstance(alignment, int) or alignment < 8 or alignment & (alignment - 1):
            raise ModelError(
                f"{path}: general.alignment is {shown(alignment)}, not a power of two; the header is corrupt."
            )
        start = -(-cursor.at // alignment) * alignment
    tensors = [_tensor(path, record, start, size) for record in records]
    _check_apart(path, tensors)
    return GGUFHeader(path, metadata, {tensor.name: tensor for tensor in tensors})


@dataclass(frozen=True, slots=True)
class _Record:
    name: str
    dimensions: tuple[int, ...]
    type_number: int
    offset: int


class _Cursor:
    """Reads forward through the header; running past the end is the file's fault and says so."""

    def __init__(self, path: Path, data: mmap.mmap, at: int) -> None:
        self.path, self.data, self.at = path, data, at

    def scalar(self, code: str) -> Any:
        size = struct.calcsize(code)
        self._need(size)
        (value,) = struct.unpack_from("<" + code, self.data, self.at)
        self.at += size
        return value

    def text(self) -> str:
        length = self.scalar("Q")
        self._need(length)
        raw = self.data[self.at : self.at + length]
        self.at += length
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ModelError(
                f"{self.path}: a text at byte {self.at - length} of the header is not UTF-8; "
                "the file is corrupt, download it again."
            ) from error

    def key(self) -> tuple[str, Any]:
        name = self.text()
        return name, self._value(self.scalar("I"), name)

    def record(self) -> _Record:
        name = self.text()
        rank = self.scalar("I")
        if not 1 <= rank <= 4:
            raise ModelError(
                f"{self.path}: tensor {name} has {rank} dimensions; the file is corrupt, download it again."
            )
        dimensions = tuple(self.scalar("Q") for _ in range(rank))
        return _Record(name, dimensions[::-1], self.scalar("I"), self.scalar("Q"))

    def _value(self, kind: int, name: str, depth: int = 0) -> Any:
        if kind == _STRING:
            return self.text()
        if kind == _ARRAY:
            return self._array(name, depth)
        if kind not in _SCALARS:
            raise ModelError(f"{self.path}: key {name} has the unknown value type {kind}; the header is corrupt.")
        return self.scalar(_SCALARS[kind])

    def _array(self, name: str, depth: int) -> list[Any]:
        if depth >= _DEEPEST:
            raise ModelError(f"{self.path}: key {shown(name)} nests its arrays too deep; the header is corrupt.")
        kind, length = self.scalar("I"), self.scalar("Q")
        if kind in _SCALARS:
            item = np.dtype(_SCALARS[kind]).newbyteorder("<")
            self._need(length * item.itemsize)
            values = np.frombuffer(self.data, item, length, self.at).tolist()
            self.at += length * item.itemsize
            return values
        # Every element takes at least its own length field, so a mad count is seen before it is walked.
        self._need(length * 8)
        return [self._value(kind, name, depth + 1) for _ in range(length)]

    def _need(self, size: int) -> None:
        if self.at + size > len(self.data):
            raise ModelError(
                f"{self.path}: the file ends inside its header, at byte {len(self.data):,}; it is cut off or corrupt, "
                "download it again."
            )


def _distinct(path: Path, what: str, named: Iterable[tuple[str, _Item]]) -> dict[str, _Item]:
    """Names come once; so a run of zeros under a mad count ends at the second one."""
    found: dict[str, _Item] = {}
    for name, item in named:
        if name in found:
            raise ModelError(f"{path}: {what} {shown(name)!r} is there twice; the header is corrupt.")
        found[name] = item
    return found


def _check_magic(path: Path, head: bytes) -> None:
    if head.startswith(GGUF_MAGIC):
        if len(head) >= 8 and struct.unpack_from("<I", head, 4)[0] > 0xFFFF:
            raise ModelError(f"{path}: a big-endian GGUF file; little-endian files are readable, convert it anew.")
        return
    raise ModelError(f"{path}: not a GGUF file but {looks_like(head)}; download the model file itself.")


def _tensor(path: Path, record: _Record, start: int, file_size: int) -> GGUFTensor:
    kind = _type(path, record)
    block, block_bytes = GGML_QUANT_SIZES[kind]
    elements = 1
    for length in record.dimensions:
        elements *= length
    if elements == 0 or record.dimensions[-1] % block:
        raise ModelError(
            f"{path}: tensor {record.name} has shape {list(record.dimensions)}, which does not divide into {kind.name} "
            f"blocks of {block}; the file is corrupt, download it again."
        )
    nbytes = elements // block * block_bytes
    offset = start + record.offset
    if offset + nbytes > file_size:
        raise ModelError(
            f"{path}: tensor {record.name} ends at byte {offset + nbytes:,} but the file has {file_size:,}; "
            "it is cut off or corrupt, download it again."
        )
    return GGUFTensor(record.name, kind, record.dimensions, offset, nbytes)


def _type(path: Path, record: _Record) -> GGMLQuantizationType:
    try:
        kind = GGMLQuantizationType(record.type_number)
    except ValueError:
        name = _RETIRED.get(record.type_number, f"number {record.type_number}")
        raise _unreadable(path, record.name, name) from None
    if not _dequantizable(kind):
        raise _unreadable(path, record.name, kind.name)
    return kind


def _unreadable(path: Path, tensor: str, kind: str) -> ModelError:
    return ModelError(
        f"{path}: tensor {tensor} is of type {kind}, which cannot be dequantized here; choose a file in another "
        "quantization, as Q4_K_M or Q8_0."
    )


def _dequantizable(kind: GGMLQuantizationType) -> bool:
    """Whether the `gguf` package can read this type: asked by giving it one block of zeros."""
    if kind in _PLAIN:
        return True
    try:
        dequantize(np.zeros(GGML_QUANT_SIZES[kind][1], np.uint8), kind)
    except NotImplementedError:
        return False
    return True


def _check_apart(path: Path, tensors: list[GGUFTensor]) -> None:
    ordered = sorted(tensors, key=lambda tensor: tensor.offset)
    for first, second in pairwise(ordered):
        if first.offset + first.nbytes > second.offset:
            raise ModelError(
                f"{path}: tensors {first.name} and {second.name} overlap; the file is corrupt, download it again."
            )
