"""Compiles every kernel for NVIDIA's and AMD's cards, which needs none of them. A process of its own, because Triton is
interpreted in the tests' own.

python -m tests.engine.kernels.gpu.compiling
"""

from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from engine.kernels.gpu import attend, linear, move

TARGETS = (
    GPUTarget("cuda", 80, 32),
    GPUTarget("cuda", 120, 32),
    GPUTarget("hip", "gfx1100", 32),
    GPUTarget("hip", "gfx1201", 32),
)
MATRIX = ("mma.sync", "wmma")
SIXTEEN_BYTES = ("ld.global.v4.b32", "global_load_b128")
FREE = {"rows", "columns", "parts", "count", "lines"}
"""Arguments of which nothing is known; all others are multiples of 16."""

WEIGHTS = {"TILE": 32, "IN": tl.float16}
HEADS = {"HEADS": 3, "GROUP": 3, "DIM": 80, "PART": 256, "DIM_TILE": 128}
PARTS = HEADS | {"BLOCK": 16, "TILE": 64, "GROUP_TILE": 16, "IN": tl.float16}
KERNELS: tuple[tuple[str, Any, dict[str, str], dict[str, Any], tuple[str, ...]], ...] = (
    ("int8", linear._int8, {"x": "*fp16", "values": "*i8"}, WEIGHTS | {"STEP": 128}, MATRIX),
    (
        "int4",
        linear._int4,
        {"x": "*fp16", "packed": "*u8", "scale": "*fp16", "offset": "*fp16"},
        WEIGHTS | {"STEP": 64},
        MATRIX,
    ),
    ("add up", linear._add_up, {"parts": "*fp32"}, {"TILE": 512}, ()),
    ("attend fp16", attend._parts, {"q": "*fp16", "values": "*fp16"}, PARTS | {"Q8": False}, MATRIX),
    ("attend q8", attend._parts, {"q": "*fp16", "values": "*i8"}, PARTS | {"Q8": True}, MATRIX),
    ("together", attend._together, {"out": "*fp16"}, HEADS, ()),
    ("gather", move._move, {}, {"OUT": True, "CHUNK": 2048}, SIXTEEN_BYTES),
    ("scatter", move._move, {}, {"OUT": False, "CHUNK": 2048}, SIXTEEN_BYTES),
)
KINDS = dict.fromkeys(("scale", "out", "scales", "top_out", "total_out", "sums", "tops", "totals"), "*fp32") | {
    "table": "*i32", "lengths": "*i32", "memory": "*i32", "staging": "*i32", "lines": "*i64", "factor": "fp32",
    "begin": "i64", "end": "i64",
}  # fmt: skip


def compiled(kernel: Any, own: dict[str, str], constants: dict[str, Any], target: GPUTarget) -> str:
    """The kernel in the target's assembler."""
    names = kernel.arg_names
    kinds = {name: "constexpr" if name in constants else own.get(name, KINDS.get(name, "i32")) for name in names}
    known = {
        (at,): [["tt.divisibility", 16]]
        for at, name in enumerate(names)
        if kinds[name] not in ("constexpr", "fp32") and name not in FREE
    }
    source = ASTSource(kernel, kinds, {(names.index(name),): value for name, value in constants.items()}, known)
    made = triton.compile(source, target=target).asm
    return made["ptx"] if target.backend == "cuda" else made["amdgcn"]


def main() -> None:
    for target in TARGETS:
        for name, kernel, own, constants, wanted in KERNELS:
            text = compiled(kernel, own, constants, target)
            if wanted and not any(instruction in text for instruction in wanted):
                raise SystemExit(f"{name} for {target.arch} has none of {', '.join(wanted)}")
            print(f"{name} for {target.arch}")


if __name__ == "__main__":
    main()
