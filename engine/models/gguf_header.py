"""The header of a GGUF file that is to be run: each tensor is checked before a byte of the weights is touched."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, dequantize

from engine.errors import ModelError
from engine.models.gguf_records import Record, read_records

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
    records = read_records(path)
    tensors = [_tensor(path, record, records.start, size) for record in records.tensors]
    _check_apart(path, tensors)
    return GGUFHeader(path, records.metadata, {tensor.name: tensor for tensor in tensors})


def _tensor(path: Path, record: Record, start: int, file_size: int) -> GGUFTensor:
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


def _type(path: Path, record: Record) -> GGMLQuantizationType:
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
