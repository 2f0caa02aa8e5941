"""GGUF weights to safetensors, tensor by tensor, in dtypes that lose nothing that the file knows."""

import shutil
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType

from engine.errors import ModelError
from engine.models.gguf_reader import GGUFModel, GGUFWeight, weight_rows
from engine.models.progress import Progress, Report
from engine.models.safetensors_file import Entry, encoded_header

# Up to this size dequantized values are kept in fp32, which holds them exactly. Beyond it fp16 halves the disk and
# the memory; its rounding is at most 2^-11 of a value (above 2^-14), far below a quantization step.
EXACT_BYTES = 4 << 30
_PLAIN = {
    GGMLQuantizationType.F32: "F32",
    GGMLQuantizationType.F16: "F16",
    GGMLQuantizationType.BF16: "BF16",
}
_FP16_MAX = 65504.0


def write_weights(model: GGUFModel, path: Path, report: Report, exact_bytes: int = EXACT_BYTES) -> str:
    """Writes the safetensors file and returns one line on its dtypes and why.

    BF16, F16 and F32 tensors keep their dtype. Raises ModelError when the disk is too small or a value is not finite.
    """
    quantized = [weight for weight in model.weights if weight.tensor.quantized]
    exact = 4 * sum(_elements(weight) for weight in quantized) <= exact_bytes
    half = not exact and _fits_fp16(model, quantized, report)
    entries = {weight.name: _entry(weight, "F16" if half else "F32") for weight in model.weights}
    total = sum(entry.nbytes for entry in entries.values())
    _check_room(path, total)
    done = 0
    with path.open("wb") as file:
        file.write(encoded_header(entries.values()))
        for weight in model.weights:
            for rows in weight_rows(model.path, weight, model.config.head_dim):
                stored = rows.astype(np.float16) if entries[weight.name].dtype == "F16" else rows
                file.write(np.ascontiguousarray(stored).data)
                done += stored.nbytes
                report(Progress("convert", done / total, f"{model.config.name}: {weight.name}"))
    return _note(quantized, half)


def _entry(weight: GGUFWeight, dequantized: str) -> Entry:
    return Entry(weight.name, _PLAIN.get(weight.tensor.type, dequantized), weight.tensor.shape)


def _elements(weight: GGUFWeight) -> int:
    return int(np.prod(weight.tensor.shape, dtype=np.int64))


def _fits_fp16(model: GGUFModel, quantized: list[GGUFWeight], report: Report) -> bool:
    for at, weight in enumerate(quantized):
        report(Progress("check", at / len(quantized), f"{model.config.name}: range of {weight.name}"))
        for rows in weight_rows(model.path, weight, model.config.head_dim):
            if float(np.abs(rows).max()) > _FP16_MAX:
                return False
    return True


def _check_room(path: Path, total: int) -> None:
    free = shutil.disk_usage(path.parent).free
    if free < total:
        raise ModelError(
            f"{path.parent.parent}: the converted model needs {total / 2**30:.2f} GiB but the disk has "
            f"{free / 2**30:.2f} GiB free; make room or point PARKDECK_CACHE_DIR elsewhere."
        )


def _note(quantized: list[GGUFWeight], half: bool) -> str:
    if not quantized:
        return "weights in the dtypes of the GGUF file"
    kinds = ", ".join(sorted({weight.tensor.type.name for weight in quantized}))
    if half:
        return (
            f"{kinds} dequantized to fp16, within 2^-11 of each value, as fp32 would take over {EXACT_BYTES >> 30} GiB"
        )
    return f"{kinds} dequantized to fp32, which holds its values exactly"
