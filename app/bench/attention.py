"""Attention over the arena: one decode step's reading of the KV cache against reading those bytes once, and what a long
prompt costs in chunks against in one piece.

Blocks lie scattered; fp16, q8 and the plain reading alternate, so a slow moment of the machine meets all three.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median

import numba
import numpy as np
import torch

from app.bench.report import Bench
from app.bench.rig import default_model
from engine.backends.torch.arena import aligned_bytes
from engine.backends.torch.cpu import PIECE, CpuExecutor, arena_blocks
from engine.backends.torch.executor import ArenaView
from engine.backends.torch.weights import shape_of
from engine.backends.torch.work import share_out
from engine.errors import Refused
from engine.geometry import BLOCK_SIZE, BlockLayout, KVDtype, KVGeometry
from engine.kernels.attend import attend, join_spans, scratch_floats
from engine.kernels.forward import attention_sizes
from engine.models.config import ModelConfig

CASES = ((1, 1024), (1, 4096), (8, 128), (8, 1024), (8, 4096))
JUDGED = (8, 4096)
CHUNK = 512
PROMPT_ROUNDS = 2


@dataclass(frozen=True, slots=True)
class Step:
    """Attention of one decode step over all layers of an arena; `nbytes` of KV are read by it."""

    run: Callable[[], None]
    nbytes: int


def decode_step(config: ModelConfig, layers: int, turns: int, context: int, dtype: KVDtype) -> Step:
    """`turns` rows at the end of contexts of `context` tokens. Only `layers` layers are laid out, to bound memory."""
    shape = shape_of(config, BLOCK_SIZE)
    layout = BlockLayout(KVGeometry(layers, config.kv_heads, config.head_dim), dtype)
    each = layout.blocks_for(context)
    view = ArenaView(_filled(turns * each * layout.nbytes), layout, turns * each)
    blocks = arena_blocks(view)
    table = np.random.default_rng(0).permutation(view.blocks).astype(np.int64).reshape(turns, each)
    positions = np.full(turns, context - 1, np.int64)
    work = share_out(positions, np.arange(turns), turns, shape)
    width = (shape.heads + 2 * shape.kv_heads) * shape.padded
    qkv = torch.full((turns * width,), 0.01).numpy()
    out = torch.zeros(turns * shape.heads * shape.padded).numpy()
    floats = scratch_floats(shape.heads // shape.kv_heads, shape.padded)
    scratch = torch.zeros(numba.get_num_threads(), floats).numpy()
    counters = np.zeros(layers, np.int64)
    sizes = attention_sizes(shape)

    def run() -> None:
        counters[:] = 0
        for layer in range(layers):
            attend(
                qkv, width, work.units, positions, table, shape.kv_heads, layer, sizes, blocks.values,
                blocks.values_stride, blocks.scales, blocks.scales_offset, blocks.scales_stride, scratch, work.slots,
                out, counters, layer,
            )  # fmt: skip
            join_spans(work.splits, shape.heads, shape.padded, work.slots, out)

    return Step(run, turns * context * layout.geometry.bytes_per_token(dtype))


def _filled(nbytes: int) -> torch.Tensor:
    """Bytes that are small finite numbers at either precision, every page of them touched."""
    memory = aligned_bytes(nbytes, torch.device("cpu"))
    return memory.fill_(0x11)


def seconds(run: Callable[[], None]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def run(bench: Bench) -> None:
    """One row per case and precision, then the long prompt's."""
    if bench.backend not in ("auto", "torch"):
        raise Refused(f"{bench.backend} has kernels of its own; run this bench on torch")
    layers, rounds, prompt = {"quick": (4, 9, 1024), "default": (10, 15, 8192), "full": (30, 25, 8192)}[bench.depth]
    model = default_model()
    for turns, context in CASES:
        _decode_rows(bench, model.config, layers, rounds, turns, context)
    bench.note(f"Decode: {layers} of {model.config.layers} layers; ms is for one layer, the median of {rounds} rounds.")
    _prefill_rows(bench, CpuExecutor(model, exact=False), min(prompt, model.config.max_context))


def _decode_rows(bench: Bench, config: ModelConfig, layers: int, rounds: int, turns: int, context: int) -> None:
    steps = {dtype: decode_step(config, layers, turns, context, dtype) for dtype in (KVDtype.FP16, KVDtype.Q8)}
    plain = _filled(max(step.nbytes for step in steps.values())).view(torch.int64)

    def read() -> None:
        plain.sum()

    seen: dict[KVDtype, list[float]] = {dtype: [] for dtype in steps}
    reads: list[float] = []
    for _ in range(rounds + 1):
        for dtype, step in steps.items():
            seen[dtype].append(seconds(step.run))
            reads.append(seconds(read))
    read_gb_s = plain.nbytes / median(reads[2:]) / 1e9
    took = {dtype: median(times[1:]) for dtype, times in seen.items()}
    for dtype, step in steps.items():
        once = step.nbytes / read_gb_s / 1e9
        bench.row(
            what="decode",
            turns=turns,
            context=context,
            precision=str(dtype),
            ms=round(took[dtype] / layers * 1e3, 3),
            gb_per_s=round(step.nbytes / took[dtype] / 1e9, 2),
            read_gb_per_s=round(read_gb_s, 2),
            times_one_read=round(took[dtype] / once, 2),
        )
        if (turns, context) == JUDGED and dtype is KVDtype.FP16:
            bench.target("fp16 at 8 x 4,096 / one read of its bytes", round(took[dtype] / once, 2), "<=", 3.0)
    if (turns, context) == JUDGED:
        bench.target("q8 / fp16 at 8 x 4,096", round(took[KVDtype.Q8] / took[KVDtype.FP16], 3), "<=", 1.0)


def _prefill_rows(bench: Bench, executor: CpuExecutor, tokens: int) -> None:
    """A prompt in chunks and in one piece, in alternation; whole model, fp16."""
    layout = BlockLayout(executor.config.geometry, KVDtype.FP16)
    count = layout.blocks_for(tokens)
    view = ArenaView(_filled(count * layout.nbytes), layout, count)
    table = np.random.default_rng(1).permutation(count).astype(np.int32)
    prompt = (np.arange(tokens) % executor.config.vocab_size).astype(np.int32)

    def prefill(chunk: int) -> None:
        for start in range(0, tokens, chunk):
            part = prompt[start : start + chunk]
            executor.prefill(part, start, table, view, last=start + chunk >= tokens)

    executor.prefill(prompt[:CHUNK], 0, table, view, last=True)
    rounds = [(seconds(partial(prefill, CHUNK)), seconds(partial(prefill, tokens))) for _ in range(PROMPT_ROUNDS)]
    took = {CHUNK: median([chunks for chunks, _ in rounds]), tokens: median([whole for _, whole in rounds])}
    for chunk, name in ((CHUNK, f"prompt in chunks of {CHUNK}"), (tokens, "prompt in one piece")):
        bench.row(
            what=name, turns=1, context=tokens, precision=str(KVDtype.FP16), ms=round(took[chunk] * 1e3, 1),
            tok_per_s=round(tokens / took[chunk], 1),
        )  # fmt: skip
    ratio = median([chunks / whole for chunks, whole in rounds])
    bench.target(f"{tokens:,}-token prompt in chunks / in one piece", round(ratio, 3), "<=", 1.3)
    bench.note(f"Prompts: medians of {PROMPT_ROUNDS} rounds; also in one piece the layers take {PIECE} rows at a time.")
