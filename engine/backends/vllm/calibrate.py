"""What moves and computation cost on vLLM, measured through its own verbs on the empty arena."""

import random
import time
from typing import TYPE_CHECKING

from engine.backends.base import StepPlan, Work
from engine.costs import Costs
from engine.errors import IntegrityError
from engine.turn import Sampling, TurnId

if TYPE_CHECKING:
    from engine.backends.vllm.backend import VllmBackend

CHUNK = 256
BATCH = 4
CONTEXT = 768
TRIES = 3
CALIBRATION_UNITS = 8
"""Units that the host pool must have while copies are measured."""
_FIRST = 1 << 40
"""Ids of the turns measured with; no host numbers its own so high."""


def measure_costs(backend: "VllmBackend") -> Costs:
    """Best of a few tries each. No turn may be open, and none is left."""
    memory = backend.memory()
    room = memory.blocks_total * backend.block_size
    chunk = max(1, min(CHUNK, room, backend.max_context))
    batch = max(1, min(BATCH, memory.blocks_total))
    each = memory.blocks_total // batch * backend.block_size
    context = max(1, min(CONTEXT, each - TRIES - 2, backend.max_context - TRIES - 2))
    out, back = _copy_rates(backend, chunk)
    prefill = min(_prefill_seconds(backend, chunk) for _ in range(2))
    one = _decode_seconds(backend, 1, context)
    many = _decode_seconds(backend, batch, context) if batch > 1 else one
    slope = max(0.0, (many - one) / (batch - 1)) if batch > 1 else 0.0
    return Costs(out, back, chunk / prefill, max(one - slope, 0.0), slope)


def _copy_rates(backend: "VllmBackend", tokens: int) -> tuple[float, float]:
    """Bytes per second out and back."""
    memory = backend.memory()
    units = min(memory.host_total_bytes // memory.block_bytes, memory.blocks_total)
    tokens = min(tokens, units * backend.block_size)
    turn = _open(backend, 0, tokens + 1)
    backend.pretend(turn, tokens)
    out, back = [], []
    for _ in range(TRIES):
        moved = backend.swap_out(turn)
        returned = backend.swap_in(turn) if moved else None
        if moved is None or returned is None:
            raise IntegrityError("the empty host pool or arena had no room for a copy")
        out.append(moved.nbytes / moved.seconds)
        back.append(returned.nbytes / returned.seconds)
    backend.close(turn)
    return max(out), max(back)


def _prefill_seconds(backend: "VllmBackend", chunk: int) -> float:
    turn = _open(backend, 0, chunk)
    started = time.perf_counter()
    while not any(step.sampled is not None for step in backend.step(StepPlan((Work(turn, chunk),))).turns):
        pass
    seconds = time.perf_counter() - started
    backend.close(turn)
    return seconds


def _decode_seconds(backend: "VllmBackend", batch: int, context: int) -> float:
    turns = [_open(backend, number, context) for number in range(batch)]
    for turn in turns:
        backend.pretend(turn, context - 1)
    plan = StepPlan(tuple(Work(turn, 1) for turn in turns))
    backend.step(plan)
    seconds = min(backend.step(plan).seconds for _ in range(TRIES))
    for turn in turns:
        backend.close(turn)
    return seconds


def _open(backend: "VllmBackend", number: int, tokens: int) -> TurnId:
    turn = TurnId(_FIRST + number)
    drawn = random.Random(number)
    backend.open(turn, [drawn.randrange(backend.vocab_size) for _ in range(tokens)], Sampling())
    return turn
