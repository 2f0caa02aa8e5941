"""Single measurements, each small enough to fit between two steps and made of a backend's own verbs. They open turns of
their own, close them, and leave nothing behind."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from engine.backends.base import Backend, DeviceMemory, StepPlan, StepResult, Work
from engine.cards.profile import CopyPoint, DecodePoint, PrefillPoint
from engine.errors import CorruptCopy, Refused
from engine.geometry import KVDtype, KVGeometry
from engine.turn import Sampling, TurnId

R_co = TypeVar("R_co", covariant=True)

TRIES = 3
LONG_S = 0.5
"""A measurement this long is steady enough without another one."""
GROWTH = TRIES + 2
"""Tokens that a turn may grow by while its decode step is measured."""
_FIRST = 1 << 40
"""Ids of the turns measured with; no host numbers its own so high."""


class Probe(Protocol[R_co]):
    """`Control.probe` runs it on the engine's thread, at a token boundary, with no other turn open."""

    def run(self, backend: Backend) -> R_co:
        """Raises Refused when the backend could not do what was to be measured."""
        ...


@dataclass(frozen=True, slots=True)
class CopyProbe:
    """`nbytes` out to the host and back in blocks of `block_bytes`, one of the backend's `copy_sizes`."""

    block_bytes: int
    nbytes: int

    def run(self, backend: Backend) -> CopyPoint:
        try:
            copies = [backend.probe_copy(self.block_bytes, self.nbytes) for _ in range(TRIES)]
        except (CorruptCopy, MemoryError) as error:
            raise Refused(f"Copies could not be measured: {error}") from error
        out, back = min(copy.out_s for copy in copies), min(copy.back_s for copy in copies)
        return CopyPoint(self.block_bytes, _rate(copies[0].nbytes, out), _rate(copies[0].nbytes, back))


@dataclass(frozen=True, slots=True)
class PrefillProbe:
    """`chunk` prompt tokens in one step, behind a context of `start` tokens. Where the backend's steps are smaller, the
    point has the size that one really had."""

    chunk: int
    start: int = 0
    tries: int = TRIES

    def run(self, backend: Backend) -> PrefillPoint:
        def once() -> tuple[float, int]:
            with _opened(backend, 1, self.start + self.chunk, self.start) as plan:
                result = _step(backend, plan(self.chunk))
            return result.seconds, result.turns[0].computed

        seconds, computed = _best(once, self.tries)
        return PrefillPoint(computed, _rate(computed, seconds))


@dataclass(frozen=True, slots=True)
class DecodeProbe:
    """One decode step of `turns` turns of `context` tokens each."""

    turns: int
    context: int

    def run(self, backend: Backend) -> DecodePoint:
        with _opened(backend, self.turns, self.context, self.context - 1) as plan:
            # The first step places the turns; it counts only where steps are so long that it makes no difference.
            first = _step(backend, plan(1)).seconds
            best = first if first >= LONG_S else _best(lambda: (_step(backend, plan(1)).seconds, 0), TRIES)[0]
        kv_bytes = self.turns * self.context * backend.geometry.bytes_per_token(backend.kv_dtype)
        return DecodePoint(self.turns, self.context, kv_bytes, best)


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """What is measured on: the sizes that bound a calibration and become a card's."""

    backend: str
    geometry: KVGeometry
    kv_dtype: KVDtype
    block_size: int
    max_context: int
    copy_sizes: tuple[int, ...]
    memory: DeviceMemory

    def room_each(self, turns: int) -> int:
        """Tokens of whole blocks that each of so many turns can have, within the model's context."""
        return min(self.memory.blocks_total // turns * self.block_size, self.max_context)

    def same_engine(self, other: "EngineFacts") -> bool:
        """Equal but for what is in use, which may change from step to step."""
        return self._lasting() == other._lasting()

    def _lasting(self) -> tuple[object, ...]:
        made = (self.backend, self.geometry, self.kv_dtype, self.block_size, self.max_context, self.copy_sizes)
        return made, self.memory.arena_bytes, self.memory.blocks_total, self.memory.host_total_bytes


@dataclass(frozen=True, slots=True)
class FactsProbe:
    def run(self, backend: Backend) -> EngineFacts:
        return EngineFacts(
            backend=backend.name,
            geometry=backend.geometry,
            kv_dtype=backend.kv_dtype,
            block_size=backend.block_size,
            max_context=backend.max_context,
            copy_sizes=backend.copy_sizes,
            memory=backend.memory(),
        )


@contextlib.contextmanager
def _opened(backend: Backend, count: int, tokens: int, kv_tokens: int) -> Iterator[Callable[[int], StepPlan]]:
    """`count` turns of `tokens` tokens, the first `kv_tokens` of them as if computed; gives the plan for a budget."""
    turns = [TurnId(_FIRST + number) for number in range(count)]
    opened: list[TurnId] = []
    try:
        for turn in turns:
            drawn = np.random.default_rng(turn).integers(0, backend.vocab_size, tokens)
            backend.open(turn, drawn.tolist(), Sampling(seed=0))
            opened.append(turn)
            if kv_tokens:
                backend.pretend(turn, kv_tokens)
        yield lambda budget: StepPlan(tuple(Work(turn, budget) for turn in turns))
    finally:
        for turn in opened:
            backend.close(turn)


def _step(backend: Backend, plan: StepPlan) -> StepResult:
    result = backend.step(plan)
    for step in result.turns:
        if step.error is not None:
            raise Refused(f"The engine could not be measured: {step.error}")
    if len(result.turns) < len(plan.work) or not all(step.computed for step in result.turns):
        raise Refused("The engine could not be measured: it ran fewer turns than it was given.")
    return result


def _best(once: Callable[[], tuple[float, int]], tries: int) -> tuple[float, int]:
    """The fastest of `tries`; no more after a long one."""
    seen: list[tuple[float, int]] = []
    while len(seen) < tries and not (seen and seen[-1][0] >= LONG_S):
        seen.append(once())
    return min(seen)


def _rate(amount: int, seconds: float) -> float:
    """Per second; a clock too coarse to see it pass gives the rate of its smallest tick."""
    return amount / max(seconds, 1e-9)
