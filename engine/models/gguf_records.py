"""What a GGUF header says, taken from a file or from its first bytes; nothing here judges whether it can be run.

Layout (little endian): magic, version, tensor count, key count; keys with typed values; one record per tensor (name,
dimensions innermost first, type, offset); padding to `general.alignment`; data. Strings and arrays carry 64-bit
lengths. Written to be strict about bounds and quick about long token lists.
"""

import mmap
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

from engine.errors import ModelError
from engine.models.file_kind import GGUF_MAGIC, not_gguf
from engine.models.stated import shown

_Item = TypeVar("_Item")
_VERSIONS = (2, 3)
_ALIGNMENT = 32
_DEEPEST = 4
_STRING, _ARRAY = 8, 9
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


class CutShort(Exception):
    """The header goes on behind the bytes at hand: at least `needed` of the file's are wanted."""

    def __init__(self, needed: int) -> None:
        super().__init__(f"the header needs {needed:,} bytes")
        self.needed = needed


@dataclass(frozen=True, slots=True)
class Record:
    """A tensor as the header records it: `dimensions` outermost first, `offset` from the start of the data."""

    name: str
    dimensions: tuple[int, ...]
    type_number: int
    offset: int


@dataclass(frozen=True, slots=True)
class Records:
    """`start`: where the data of the tensors begins in the file."""

    metadata: Mapping[str, Any]
    tensors: tuple[Record, ...]
    start: int

    @property
    def tensor_bytes(self) -> int | None:
        """Of all tensors as they are stored; None where one is of a type whose size is not known."""
        sizes = [_stored_bytes(record) for record in self.tensors]
        known = [size for size in sizes if size is not None]
        return sum(known) if len(known) == len(sizes) else None


def read_records(path: Path) -> Records:
    """Of a whole file. Raises ModelError for one that is not GGUF or whose header is cut off or corrupt."""
    size = path.stat().st_size
    if size == 0:
        raise ModelError(f"{path}: the file is empty; download it again.")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return parse_records(str(path), data, size)


def parse_records(path: str, data: "mmap.mmap | bytes", size: int) -> Records:
    """From the first bytes of a file of `size` bytes that is called `path`.

    Raises CutShort where they hold only part of the header, ModelError as `read_records`.
    """
    _check_magic(path, data[:512])
    cursor = _Cursor(path, data, len(GGUF_MAGIC), size)
    version = cursor.scalar("I")
    if version not in _VERSIONS:
        raise ModelError(f"{path}: GGUF version {version} is not readable, versions 2 and 3 are; convert it anew.")
    tensor_count, key_count = cursor.scalar("Q"), cursor.scalar("Q")
    metadata = _distinct(path, "key", (cursor.key() for _ in range(key_count)))
    named = ((record.name, record) for record in (cursor.record() for _ in range(tensor_count)))
    records = tuple(_distinct(path, "tensor", named).values())
    alignment = metadata.get("general.alignment", _ALIGNMENT)
    if not isinstance(alignment, int) or alignment < 8 or alignment & (alignment - 1):
        raise ModelError(f"{path}: general.alignment is {shown(alignment)}, not a power of two; the header is corrupt.")
    return Records(metadata, records, -(-cursor.at // alignment) * alignment)


def _stored_bytes(record: Record) -> int | None:
    try:
        block, block_bytes = GGML_QUANT_SIZES[GGMLQuantizationType(record.type_number)]
    except (ValueError, KeyError):
        return None
    elements = 1
    for length in record.dimensions:
        elements *= length
    return elements // block * block_bytes


class _Cursor:
    """Reads forward through the header; running past the end is the file's fault and says so."""

    def __init__(self, path: str, data: "mmap.mmap | bytes", at: int, size: int) -> None:
        self.path, self.data, self.at, self.size = path, data, at, size

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

    def record(self) -> Record:
        name = self.text()
        rank = self.scalar("I")
        if not 1 <= rank <= 4:
            raise ModelError(
                f"{self.path}: tensor {name} has {rank} dimensions; the file is corrupt, download it again."
            )
        dimensions = tuple(self.scalar("Q") for _ in range(rank))
        return Record(name, dimensions[::-1], self.scalar("I"), self.scalar("Q"))

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
        if self.at + size > self.size:
            raise ModelError(
                f"{self.path}: the file ends inside its header, at byte {self.size:,}; it is cut off or corrupt, "
                "download it again."
            )
        if self.at + size > len(self.data):
            raise CutShort(self.at + size)


def _distinct(path: str, what: str, named: Iterable[tuple[str, _Item]]) -> dict[str, _Item]:
    """Names come once; so a run of zeros under a mad count ends at the second one."""
    found: dict[str, _Item] = {}
    for name, item in named:
        if name in found:
            raise ModelError(f"{path}: {what} {shown(name)!r} is there twice; the header is corrupt.")
        found[name] = item
    return found


def _check_magic(path: str, head: bytes) -> None:
    if head.startswith(GGUF_MAGIC):
        if len(head) >= 8 and struct.unpack_from("<I", head, 4)[0] > 0xFFFF:
            raise ModelError(f"{path}: a big-endian GGUF file; little-endian files are readable, convert it anew.")
        return
    raise not_gguf(path, head)
