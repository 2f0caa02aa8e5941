"""Preemption: what a foreground turn pays when eight background turns hold all slots.

On one running engine, in alternation: a foreground turn arrives while all eight slots decode (one turn must leave),
and the same turn arrives at a free slot beside seven decoding (the eighth is paused by hand).
"""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import pairwise

from app.bench.report import Bench
from app.bench.rig import AUTHOR, quiet_body
from engine.body import Body
from engine.errors import Refused
from engine.host import Host, HostConfig
from engine.stats import quantile
from engine.turn import Phase, Priority, TurnId, TurnRequest, TurnUpdate
from engine.workload.text import PromptSource

SLOTS = 8
LONG_PROMPT = 1024
FOREGROUND_PROMPT = 200
FOREGROUND_TOKENS = 6
ARENA_TOKENS = 28_672
WAIT_S = 120.0


@dataclass(slots=True)
class Ear:
    """Times at which each turn's tokens came, and who has ended. Filled on the engine thread, read by the bench."""

    times: dict[TurnId, list[float]] = field(default_factory=dict)
    ended: dict[TurnId, str | None] = field(default_factory=dict)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def __call__(self, update: TurnUpdate) -> None:
        now = time.perf_counter()
        with self.changed:
            self.times.setdefault(update.turn, []).extend(now for _ in update.tokens)
            if update.phase.ended:
                self.ended[update.turn] = update.error
            self.changed.notify_all()

    def wait(self, ready: Callable[[], bool]) -> None:
        """Raises Refused if it does not come true in time."""
        with self.changed:
            if not self.changed.wait_for(ready, WAIT_S):
                raise Refused(f"the engine did not get there within {WAIT_S:g} s; is the machine overloaded?")

    def wait_for_more(self, turns: Sequence[TurnId], tokens: int) -> None:
        """Until each of the turns has had `tokens` more."""
        marks = {turn: self.tokens(turn) + tokens for turn in turns}
        self.wait(lambda: all(self.tokens(turn) >= mark for turn, mark in marks.items()))

    def tokens(self, turn: TurnId) -> int:
        return len(self.times.get(turn, ()))


@dataclass(frozen=True, slots=True)
class Arrival:
    """One foreground turn: seconds to its first token, and the gaps of the mates' tokens that fell into that time."""

    ttft: float
    mate_gaps: tuple[float, ...]


class Deck:
    """A host with eight long background turns decoding."""

    def __init__(self, body: Body, source: PromptSource) -> None:
        self.host = Host(HostConfig(), open_body=lambda config, report: body)
        self.ear = Ear()
        self._source = source
        self._arrivals = 0
        self.host.start()
        self.host.wait_ready()
        self.background = [self._submit(LONG_PROMPT, 10_000, Priority.BACKGROUND, f"long {i}") for i in range(SLOTS)]
        self.ear.wait(lambda: all(self.ear.tokens(t) >= 2 for t in self.background))

    def arrive(self) -> Arrival:
        """Submit the foreground turn, wait for its end."""
        self._arrivals += 1
        asked = time.perf_counter()
        turn = self._submit(FOREGROUND_PROMPT, FOREGROUND_TOKENS, Priority.FOREGROUND, f"person {self._arrivals}")
        self.ear.wait(lambda: turn in self.ear.ended)
        first = self.ear.times[turn][0]
        gaps = [g for t in self.background for g in _gaps_within(self.ear.times[t], asked, first)]
        return Arrival(first - asked, tuple(gaps))

    def settle(self, running: int) -> None:
        """Until exactly `running` background turns have their slot again and each has had two more tokens."""
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            rows = [r for r in self.host.snapshot.turns if r.phase is Phase.DECODE]
            if len(rows) == running and len(self.host.snapshot.turns) == SLOTS:
                self.ear.wait_for_more([r.id for r in rows], 2)
                return
            time.sleep(0.01)
        raise Refused(f"the deck did not settle at {running} decoding turns; is the machine overloaded?")

    def _submit(self, prompt: int, tokens: int, priority: Priority, agent: str) -> TurnId:
        request = TurnRequest(agent, self._source.cut(agent, prompt), tokens, priority=priority, ignore_eos=True)
        return _result(self.host.submit(request, self.ear, AUTHOR))


def _result(future: "Future[TurnId]") -> TurnId:
    return future.result(timeout=WAIT_S)


def _gaps_within(times: Sequence[float], start: float, end: float) -> list[float]:
    """Gaps between tokens that overlap [start, end]."""
    return [b - a for a, b in pairwise(times) if b > start and a < end]


def equal_priority_preemptions(deck: Deck) -> int:
    """Four more background turns than slots, all the same priority: preemptions while they come and go."""
    before = deck.host.snapshot.counters.preemptions
    for turn in deck.background:
        deck.host.cancel(turn, AUTHOR).result(WAIT_S)
    turns = [deck._submit(48, 24, Priority.BACKGROUND, f"equal {i}") for i in range(SLOTS + 4)]
    deck.ear.wait(lambda: all(t in deck.ear.ended for t in turns))
    return deck.host.snapshot.counters.preemptions - before


def run(bench: Bench) -> None:
    """One row per kind of arrival; targets on the ratio of TTFT p95 and on preemption among equals."""
    pairs = {"quick": 6, "default": 24, "full": 60}[bench.depth]
    body = quiet_body(arena_tokens=ARENA_TOKENS, backend=bench.backend)
    if body.model is None:
        raise Refused("the backend has no model; choose torch")
    deck = Deck(body, PromptSource(body.model.tokenizer, seed=3))
    full: list[Arrival] = []
    free: list[Arrival] = []
    held = deck.background[0]
    for _ in range(pairs):
        deck.settle(SLOTS)
        full.append(deck.arrive())
        deck.settle(SLOTS)
        deck.host.pause(held, AUTHOR).result(WAIT_S)
        deck.settle(SLOTS - 1)
        free.append(deck.arrive())
        deck.settle(SLOTS - 1)
        deck.host.resume(held, AUTHOR).result(WAIT_S)
    for name, arrivals in (("eight decoding, one preempted", full), ("free slot beside seven", free)):
        ttft = [a.ttft for a in arrivals]
        gaps = [g for a in arrivals for g in a.mate_gaps]
        bench.row(
            arrival=name,
            turns=len(arrivals),
            ttft_p50_ms=_ms(ttft, 0.5),
            ttft_p95_ms=_ms(ttft, 0.95),
            background_itl_p95_ms=_ms(gaps, 0.95),
        )
    preemptions = equal_priority_preemptions(deck)
    bench.row(arrival="twelve of equal priority on eight slots", turns=SLOTS + 4, preemptions=preemptions)
    deck.host.stop()
    ratio = (quantile([a.ttft for a in full], 0.95) or 0.0) / (quantile([a.ttft for a in free], 0.95) or 1.0)
    bench.target("TTFT p95 with preemption / at a free slot", round(ratio, 3), "<=", 1.2)
    bench.target("preemptions among equal priorities", preemptions, "==", 0)


def _ms(seconds: Sequence[float], q: float) -> float:
    return round((quantile(seconds, q) or 0.0) * 1e3, 1)
