"""Whether Triton's kernels run on a device and are right there: each against plain torch on random input.

A card on which one does not compile, or is wrong, is served by torch operations, and the log says why.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

import torch

from engine.backends.torch.executor import ArenaView
from engine.backends.torch.ops import ROWS, Contexts, Ops, TorchOps, TritonOps
from engine.backends.torch.planes import KVPlanes
from engine.backends.torch.quantised import Weight, to_int4, to_int8
from engine.geometry import BlockLayout, KVDtype, KVGeometry

log = logging.getLogger(__name__)

Quantise = Callable[[torch.Tensor], Weight]
Move = Callable[[torch.Tensor, Sequence[int], int, torch.Tensor, int, int], None]
"""memory, starts, block_bytes, staging, begin, end: see engine/kernels/gpu/move.py."""

LIMIT = 5e-3
"""Largest error, relative to the reference's length: fp16 operands give about 5e-4."""


@dataclass(frozen=True, slots=True)
class Mover:
    """Between scattered blocks and one contiguous run of bytes on the device."""

    gather: Move
    scatter: Move


@dataclass(frozen=True, slots=True)
class Heads:
    """What the kernels are compiled for."""

    heads: int
    kv_heads: int
    head_dim: int
    block_size: int


def has_triton() -> bool:
    """torch's own builds for CUDA and ROCm bring it."""
    return find_spec("triton") is not None


def triton_mover() -> Mover:
    from engine.kernels.gpu.move import gather, scatter

    return Mover(gather, scatter)


def ops_for(device: torch.device, heads: Heads) -> Ops:
    """Triton's where they pass every check on `device`, else torch's."""
    ops = TritonOps()
    checks = {
        "int8 weights": lambda: linear_error(ops, to_int8, device),
        "int4 weights": lambda: linear_error(ops, to_int4, device),
        "fp16 attention": lambda: attend_error(ops, KVDtype.FP16, heads, device),
        "q8 attention": lambda: attend_error(ops, KVDtype.Q8, heads, device),
    }
    return ops if _pass(device, checks) else TorchOps()


def mover_for(device: torch.device) -> Mover | None:
    """None where blocks cannot be gathered on `device`."""
    return triton_mover() if _pass(device, {"gather of blocks": lambda: move_error(triton_mover(), device)}) else None


def _pass(device: torch.device, checks: dict[str, Callable[[], float]]) -> bool:
    if _is_cpu(device) or not has_triton():
        return False
    for name, check in checks.items():
        try:
            error = check()
        except Exception:
            log.warning("Triton's kernel for %s does not run here, torch does its work", name, exc_info=True)
            return False
        if not error <= LIMIT:
            log.warning("Triton's kernel for %s is wrong here by %.2g, torch does its work", name, error)
            return False
    return True


def _is_cpu(device: torch.device) -> bool:
    return device.type == "cpu"


def linear_error(ops: Ops, quantise: Quantise, device: torch.device, outputs: int = 96, inputs: int = 1056) -> float:
    weight = quantise(_normal((outputs, inputs), device))
    x = _normal((ROWS, inputs), device).to(_compute(device))
    return relative(ops.linear(x, weight), x.double() @ weight.dense(torch.float64).T)


def attend_error(
    ops: Ops, dtype: KVDtype, heads: Heads, device: torch.device, tokens: tuple[int, ...] = (1, 17, 300)
) -> float:
    planes, contexts = random_contexts(dtype, heads, device, tokens)
    q = _normal((len(tokens), heads.heads, heads.head_dim), device).to(_compute(device))
    return relative(ops.attend(q, 1, contexts, planes), TorchOps().attend(q.float(), 1, contexts, planes))


def move_error(mover: Mover, device: torch.device, blocks: int = 5, block_bytes: int = 9280) -> float:
    """Bytes that are wrong after a gather of the middle of scattered blocks and its scatter elsewhere."""
    memory = torch.randint(0, 256, (2 * blocks * block_bytes,), dtype=torch.uint8, device=device)
    here = [2 * block * block_bytes for block in reversed(range(blocks))]
    stream = torch.cat([memory[start : start + block_bytes] for start in here])
    begin, end = 64, blocks * block_bytes - 128
    staging = torch.zeros(end - begin, dtype=torch.uint8, device=device)
    mover.gather(memory, here, block_bytes, staging, begin, end)
    there = torch.zeros_like(memory)
    mover.scatter(there, here, block_bytes, staging, begin, end)
    back = torch.cat([there[start : start + block_bytes] for start in here])
    wanted = stream.clone()
    wanted[:begin] = wanted[end:] = 0
    return float((staging != stream[begin:end]).sum() + (back != wanted).sum())


def random_contexts(
    dtype: KVDtype, heads: Heads, device: torch.device, tokens: tuple[int, ...], layers: int = 2
) -> tuple[KVPlanes, Contexts]:
    """An arena with one turn per row, of these many tokens in scattered blocks, whose layer 1 is random."""
    layout = BlockLayout(KVGeometry(layers, heads.kv_heads, heads.head_dim), dtype, heads.block_size)
    counts = [layout.blocks_for(count) for count in tokens]
    order = torch.randperm(sum(counts), generator=torch.Generator().manual_seed(0)).to(device, torch.int32)
    memory = torch.zeros(sum(counts) * layout.nbytes, dtype=torch.uint8, device=device)
    planes = KVPlanes(ArenaView(memory, layout, sum(counts)))
    table = torch.zeros(len(tokens), max(counts), dtype=torch.int32, device=device)
    for row, (count, own) in enumerate(zip(tokens, order.split(counts), strict=True)):
        table[row, : own.numel()] = own
        places = torch.arange(count, device=device)
        k, v = (_normal((count, heads.kv_heads, heads.head_dim), device) for _ in range(2))
        planes.write(1, own.long()[places // heads.block_size], places % heads.block_size, k, v)
    return planes, Contexts(table, torch.tensor(tokens, dtype=torch.int32, device=device), tokens)


def relative(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """Length of the difference over the reference's; not a number where something is."""
    difference = (found.double() - wanted.double()).norm() / wanted.double().norm()
    return float(difference)


def _normal(shape: tuple[int, ...], device: torch.device) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))).to(device)


def _compute(device: torch.device) -> torch.dtype:
    return torch.float32 if device.type == "cpu" else torch.float16
