"""What moves and computation cost on this body, measured on the empty arena; nothing is left behind."""

import math
import time
from collections.abc import Callable

import numpy as np
import torch

from engine.backends.base import StepPlan, Work
from engine.backends.torch.arena import Arena
from engine.backends.torch.executor import Executor
from engine.backends.torch.hostpool import HostPool, unit_bytes
from engine.backends.torch.stepper import run_step
from engine.backends.torch.turns import OpenTurn
from engine.costs import Costs
from engine.errors import IntegrityError
from engine.turn import Sampling, TurnId

CHUNK = 256
BATCH = 4
CONTEXT = 768
"""Tokens of an average turn: what a decode step costs beside a swarm, not on empty contexts."""
TRIES = 3
COPY_BYTES = 8 << 20
LONG_S = 0.5
"""A measurement this long is steady enough without a second one."""


def measure_costs(executor: Executor, arena: Arena, scratch: torch.Tensor) -> Costs:
    """Best of a few tries each. The arena must be empty and is given back empty."""
    room = arena.blocks * arena.layout.block_size
    chunk = max(1, min(CHUNK, room, executor.config.max_context))
    batch = max(1, min(BATCH, arena.blocks))
    room_each = arena.blocks // batch * arena.layout.block_size
    context = max(1, min(CONTEXT, room_each - TRIES - 1, executor.config.max_context - TRIES - 1))
    out, back = _copy_rates(executor, arena, scratch)
    try:
        prefill = _prefill_seconds(executor, arena, chunk)
        one = _decode_seconds(executor, arena, 1, context)
        many = _decode_seconds(executor, arena, batch, context) if batch > 1 else one
    finally:
        for turn in range(batch):
            arena.give(TurnId(turn))
    slope = max(0.0, (many - one) / (batch - 1)) if batch > 1 else 0.0
    return Costs(
        swap_out_bytes_per_s=out,
        swap_in_bytes_per_s=back,
        prefill_tokens_per_s=chunk / prefill,
        decode_base_s=max(one - slope, 0.0),
        decode_per_turn_s=slope,
    )


def _copy_rates(executor: Executor, arena: Arena, scratch: torch.Tensor) -> tuple[float, float]:
    layout = arena.layout
    count = max(1, min(arena.blocks, COPY_BYTES // layout.nbytes))
    unit = unit_bytes(layout.geometry, layout.block_size)
    pool = HostPool(count * layout.nbytes + unit, unit, executor.device)
    blocks = range(count)
    try:
        out, back = [], []
        for _ in range(TRIES):
            started = time.perf_counter()
            parked = pool.store(arena.memory, layout, blocks)
            stored = time.perf_counter()
            if parked is None:
                raise IntegrityError("the pool made for calibration has no room for its copy")
            pool.load(parked, arena.memory, layout, blocks, scratch)
            out.append(stored - started)
            back.append(time.perf_counter() - stored)
            pool.release(parked)
    finally:
        pool.close()
    return count * layout.nbytes / min(out), count * layout.nbytes / min(back)


def _open(executor: Executor, turn: int, tokens: int) -> OpenTurn:
    drawn = np.random.default_rng(turn).integers(0, executor.config.vocab_size, tokens)
    return OpenTurn(TurnId(turn), drawn.tolist(), Sampling(), seed=0)


def _prefill_seconds(executor: Executor, arena: Arena, chunk: int) -> float:
    def once() -> None:
        turn = _open(executor, 0, chunk)
        _step({turn.id: turn}, chunk, arena, executor)
        arena.give(turn.id)

    return _best(once, tries=2, enough_s=LONG_S)


def _decode_seconds(executor: Executor, arena: Arena, batch: int, context: int) -> float:
    turns = {TurnId(turn): _open(executor, turn, context) for turn in range(batch)}
    for opened in turns.values():
        _pretend_context(opened, arena)
    _step(turns, 1, arena, executor)
    seconds = _best(lambda: _step(turns, 1, arena, executor), tries=TRIES)
    for turn in turns:
        arena.give(turn)
    return seconds


def _pretend_context(turn: OpenTurn, arena: Arena) -> None:
    """Blocks of zeros instead of a prefill: a step reads as many bytes."""
    layout = arena.layout
    turn.kv_tokens = len(turn.tokens) - 1
    if not arena.take(turn.id, layout.blocks_for(turn.kv_tokens)):
        raise IntegrityError(f"the empty arena has no room for a context of {turn.kv_tokens} tokens")
    for block in arena.table(turn.id):
        arena.memory[block * layout.nbytes : (block + 1) * layout.nbytes].zero_()


def _step(turns: dict[TurnId, OpenTurn], budget: int, arena: Arena, executor: Executor) -> None:
    result = run_step(StepPlan(tuple(Work(turn, budget) for turn in turns)), turns, arena, executor)
    for step in result.turns:
        if step.error is not None:
            raise RuntimeError(f"the engine could not be measured: {step.error}")


def _best(once: Callable[[], object], tries: int, enough_s: float = math.inf) -> float:
    """Seconds of the fastest of `tries`; no more tries after one that took `enough_s`."""
    seen: list[float] = []
    for _ in range(tries):
        started = time.perf_counter()
        once()
        seen.append(time.perf_counter() - started)
        if seen[-1] >= enough_s:
            break
    return min(seen)
