"""A whole calibration: probes asked for one by one, so that the engine publishes and stops between two of them."""

import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from engine.backends.base import Backend
from engine.calibration.fit import DecodeFit, fit_decode
from engine.calibration.plan import Depth, batches, chunks
from engine.calibration.probes import CopyProbe, DecodeProbe, EngineFacts, FactsProbe, PrefillProbe, Probe
from engine.cards.profile import CopyPoint, DecodePoint, PrefillPoint
from engine.errors import Refused

T = TypeVar("T")

LONGEST_PROBE_S = 2.5
"""A chunk that would take longer is left out: the engine could not stop in the middle of it."""
LOOK_EVERY_S = 0.1


class Asker(Protocol):
    """The part of Control that a calibration uses."""

    def probe(self, probe: Probe[T], session: str) -> "Future[T]": ...


@dataclass(frozen=True, slots=True)
class Progress:
    """`fraction` from 0 to 1, never falling; `note`: what is measured now."""

    fraction: float
    note: str


@dataclass(frozen=True, slots=True)
class Measured:
    """What came out. `seconds`: how long all of it took."""

    facts: EngineFacts
    copies: tuple[CopyPoint, ...]
    prefills: tuple[PrefillPoint, ...]
    decodes: tuple[DecodePoint, ...]
    fit: DecodeFit
    seconds: float


def calibrate(
    asker: Asker,
    session: str,
    depth: Depth,
    slots: int,
    report: Callable[[Progress], None] = lambda progress: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Measured:
    """Measure the engine of `session` at `depth` with up to `slots` turns at once. Waits for each answer on the
    caller's thread. Raises Refused when the engine refuses or stops (a turn is open, it was restarted), when it is
    changed on the way (KV precision, host pool), or when `cancelled` says so."""
    return _Calibration(asker, session, depth, slots, report, cancelled).run()


@dataclass(frozen=True, slots=True)
class _OnSame(Generic[T]):
    """`probe` on an engine that still is what `facts` say: points of two precisions do not make one card."""

    facts: EngineFacts
    probe: Probe[T]

    def run(self, backend: Backend) -> T:
        if not FactsProbe().run(backend).same_engine(self.facts):
            raise Refused("the engine was changed while it was measured (KV precision, host pool); measure it again")
        return self.probe.run(backend)


@dataclass(slots=True)
class _Calibration:
    asker: Asker
    session: str
    depth: Depth
    slots: int
    report: Callable[[Progress], None]
    cancelled: Callable[[], bool]
    copies: dict[int, CopyPoint] = field(default_factory=dict)
    prefills: dict[int, PrefillPoint] = field(default_factory=dict)
    decodes: dict[tuple[int, int], DecodePoint] = field(default_factory=dict)

    def run(self) -> Measured:
        started = time.monotonic()
        facts = self._ask(FactsProbe())
        rounds = 0
        while rounds < self.depth.passes and (not rounds or time.monotonic() - started < self.depth.seconds):
            self._round(facts, rounds)
            rounds += 1
        decodes = tuple(self.decodes.values())
        return Measured(
            facts,
            tuple(self.copies[size] for size in sorted(self.copies)),
            tuple(self.prefills[chunk] for chunk in sorted(self.prefills)),
            decodes,
            fit_decode(decodes),
            time.monotonic() - started,
        )

    def _round(self, facts: EngineFacts, number: int) -> None:
        """Every point once more. A later round is one that may be cut short by nothing but a cancel."""
        decodes = batches(facts, self.depth, self.slots)
        prefills = list(chunks(facts, self.depth))
        total = len(facts.copy_sizes) + len(prefills) + len(decodes)

        def tell(done: int, note: str) -> None:
            again = f", round {number + 1} of up to {self.depth.passes}" if self.depth.passes > 1 else ""
            self.report(Progress((number + done / total) / self.depth.passes, note + again))

        for done, size in enumerate(facts.copy_sizes):
            tell(done, f"copies in blocks of {size / 1024:,.0f} KiB")
            self._keep_copy(self._ask(_OnSame(facts, CopyProbe(size, self.depth.copy_bytes))))
        for done, (chunk, start) in enumerate(self._bearable(prefills), len(facts.copy_sizes)):
            tell(done, f"prefill in chunks of {chunk:,} tokens")
            self._keep_prefill(self._ask(_OnSame(facts, PrefillProbe(chunk, start))))
        for done, (turns, context) in enumerate(decodes, total - len(decodes)):
            tell(done, f"decode of {turns} x {context:,} tokens")
            self._keep_decode(self._ask(_OnSame(facts, DecodeProbe(turns, context))))

    def _bearable(self, planned: Iterable[tuple[int, int]]) -> Iterable[tuple[int, int]]:
        """Up to the first chunk that would take too long, going by the largest one before it."""
        for chunk, start in planned:
            known = self.prefills.get(max(self.prefills, default=0))
            if known is not None and chunk / known.tokens_per_s > LONGEST_PROBE_S:
                return
            yield chunk, start

    def _keep_copy(self, point: CopyPoint) -> None:
        known = self.copies.get(point.block_bytes, point)
        self.copies[point.block_bytes] = CopyPoint(
            point.block_bytes,
            max(point.out_bytes_per_s, known.out_bytes_per_s),
            max(point.back_bytes_per_s, known.back_bytes_per_s),
        )

    def _keep_prefill(self, point: PrefillPoint) -> None:
        known = self.prefills.get(point.chunk, point)
        self.prefills[point.chunk] = max(point, known, key=lambda one: one.tokens_per_s)

    def _keep_decode(self, point: DecodePoint) -> None:
        known = self.decodes.get((point.turns, point.context), point)
        self.decodes[point.turns, point.context] = min(point, known, key=lambda one: one.seconds)

    def _ask(self, probe: Probe[T]) -> T:
        """The answer. A cancel is looked at while the engine measures; what it still measures then is nobody's."""
        if self.cancelled():
            raise called_off()
        future = self.asker.probe(probe, self.session)
        while True:
            try:
                return future.result(timeout=LOOK_EVERY_S)
            except TimeoutError:
                if self.cancelled():
                    future.cancel()
                    raise called_off() from None


def called_off() -> Refused:
    """What a cancelled calibration ends with."""
    return Refused("the measurement was called off; nothing was written")
