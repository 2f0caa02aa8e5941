"""What is known of how long tools take, so that a policy can tell whether a wait is worth a copy. Seconds of the
engine's clock, whichever that is: real durations are learnt on a real engine, modelled ones on a twin.

A duration is from a turn's block to its result, also of one that came after the turn was abandoned. A wait that ends
otherwise (its turn is cancelled, or has failed) is no duration: it says only that the tool takes longer than that, and
is counted apart as cut short.

The rest of a wait that lasts is estimated, in this order: from the tool's own durations longer than that, once LEAST
are known; from those of all tools; by the time since the call, as InferCept does (ICML 2024).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

from engine.durations import NOTHING, Durations
from engine.turn import TurnId

KEPT = 256
"""Durations of one tool, and of all together; the oldest leaves."""
TOOLS_KEPT = 64
"""The tool that was not seen for longest leaves."""
LEAST = 8
QUEUES_KEPT = 64
ROWS = 32


@dataclass(frozen=True, slots=True)
class ToolWaits:
    """Of one tool, or of all. `recent`: the latest durations, oldest first; `durations`: the same by length; `count`:
    how many ever ended; `cut_short`: waits that ended without a result. Of `foretold` waits it was said at their
    beginning whether they would outlast the copy of their KV out and back, and `right` is how often that came true."""

    recent: tuple[float, ...] = ()
    durations: Durations = NOTHING
    count: int = 0
    cut_short: int = 0
    foretold: int = 0
    right: int = 0

    def with_one(self, seconds: float) -> "ToolWaits":
        ascending = self.durations.ascending
        recent = (*self.recent, seconds)
        if len(recent) > KEPT:
            at = bisect_left(ascending, recent[0])
            ascending, recent = ascending[:at] + ascending[at + 1 :], recent[1:]
        at = bisect_right(ascending, seconds)
        ascending = (*ascending[:at], seconds, *ascending[at:])
        return replace(self, recent=recent, durations=Durations(ascending), count=self.count + 1)


@dataclass(frozen=True, slots=True)
class KnownWaits:
    """What an engine begins with: tool and seconds of each duration, oldest first; `said`: a sentence on where they
    are from, or why there are none."""

    durations: tuple[tuple[str, float], ...]
    said: str


class WaitRow(NamedTuple):
    """A line of the table. `tool` None: all together. `ended`: waits that ended with a result; seconds are of those
    kept, None: none is known. The others as ToolWaits has them."""

    tool: str | None
    ended: int
    p50: float | None
    p90: float | None
    right: int
    foretold: int
    cut_short: int


@dataclass(frozen=True)
class Waits:
    """What is known of tools' durations at one instant. `tools`: the one seen longest ago first; `queued_here`,
    `queued_away`: for how long the latest turns with a result waited for a slot, whose KV was in the arena, and whose
    was not."""

    tools: Mapping[str, ToolWaits] = field(default_factory=lambda: MappingProxyType({}))
    every: ToolWaits = ToolWaits()
    queued_here: tuple[float, ...] = ()
    queued_away: tuple[float, ...] = ()

    def of(self, tool: str | None, least: int = LEAST) -> Durations:
        """The tool's own durations once there are `least`, else those of all tools, else none."""
        own = self.tools.get(tool or "")
        if own is not None and len(own.recent) >= least:
            return own.durations
        return self.every.durations if len(self.every.recent) >= least else NOTHING

    def due_s(self, tool: str | None) -> tuple[float, float] | None:
        """How long after the call its result is due, from and to, by the tool's own durations once there are LEAST and
        where they are alike (see Durations); None: there is no telling."""
        own = self.tools.get(tool or "")
        return own.durations.due_s if own is not None and len(own.recent) >= LEAST else None

    @cached_property
    def queueing_gain_s(self) -> float:
        """How much sooner a turn with a result gets its slot if its KV is still in the arena: the difference of the
        means, 0 until LEAST of both were seen."""
        here, away = self.queued_here, self.queued_away
        if min(len(here), len(away)) < LEAST:
            return 0.0
        return max(0.0, sum(away) / len(away) - sum(here) / len(here))

    @cached_property
    def rows(self) -> tuple[WaitRow, ...]:
        """All tools together, then the ROWS most frequent ones; empty before the first."""
        if not self.tools:
            return ()
        order = sorted(self.tools.items(), key=lambda named: (-named[1].count, named[0]))
        return (_row(None, self.every), *(_row(tool, waits) for tool, waits in order[:ROWS]))

    def known(self) -> tuple[tuple[str, float], ...]:
        """Tool and seconds of each duration kept."""
        return tuple((tool, seconds) for tool, waits in self.tools.items() for seconds in waits.recent)


def _row(tool: str | None, waits: ToolWaits) -> WaitRow:
    known = waits.durations
    p50, p90 = known.quantile(0.5), known.quantile(0.9)
    return WaitRow(tool, waits.count, p50, p90, waits.right, waits.foretold, waits.cut_short)


@dataclass(frozen=True, slots=True)
class _Said:
    """`long`: it was said that the wait would outlast `round_trip_s`; None: nothing was known."""

    tool: str
    round_trip_s: float
    long: bool | None


class WaitBook:
    """Kept by the engine's thread; `waits` is what it comes to, another value after each wait that ended."""

    def __init__(self) -> None:
        self.waits = Waits()
        self._lasting: dict[TurnId, _Said] = {}
        self._queued: dict[TurnId, tuple[float, bool]] = {}

    def began(self, turn: TurnId, tool: str, round_trip_s: float) -> None:
        """A turn blocks whose KV takes `round_trip_s` out and back; 0: it holds none."""
        median = self.waits.of(tool).quantile(0.5)
        long = None if median is None or not round_trip_s else median > round_trip_s
        self._lasting[turn] = _Said(tool, round_trip_s, long)

    def ended(self, turn: TurnId, seconds: float, now: float, here: bool) -> None:
        """Its result came after `seconds`; `here`: its KV is in the arena, so that it can go on at once."""
        said = self._lasting.pop(turn)
        right = None if said.long is None else (seconds > said.round_trip_s) is said.long
        self._learn(said.tool, seconds, right)
        self._queued[turn] = now, here

    def started(self, turn: TurnId, now: float) -> None:
        """It has a slot."""
        found = self._queued.pop(turn, None)
        if found is None:
            return
        since, here = found
        waits, queued = self.waits, now - since
        if here:
            self.waits = replace(waits, queued_here=(*waits.queued_here, queued)[-QUEUES_KEPT:])
        else:
            self.waits = replace(waits, queued_away=(*waits.queued_away, queued)[-QUEUES_KEPT:])

    def held(self, turn: TurnId) -> None:
        """The operator holds it: how long it then waits for a slot says nothing."""
        self._queued.pop(turn, None)

    def over(self, turn: TurnId) -> None:
        """It ends; where it was blocked, without a result."""
        self._queued.pop(turn, None)
        said = self._lasting.pop(turn, None)
        if said is not None:
            old, every = self._old(said.tool), self.waits.every
            cut, every = replace(old, cut_short=old.cut_short + 1), replace(every, cut_short=every.cut_short + 1)
            self.waits = replace(self.waits, tools=_with(self.waits.tools, said.tool, cut), every=every)

    def seed(self, known: Iterable[tuple[str, float]]) -> None:
        """Durations from before this engine, oldest first; older than all that it has learnt."""
        learnt = self.waits
        self.waits = replace(learnt, tools=MappingProxyType({}), every=ToolWaits())
        for tool, seconds in known:
            self._learn(tool, seconds, None)
        for tool, waits in learnt.tools.items():
            for seconds in waits.recent:
                self._learn(tool, seconds, None)
            tools = _with(self.waits.tools, tool, _counted(self._old(tool), waits))
            self.waits = replace(self.waits, tools=tools)
        self.waits = replace(self.waits, every=_counted(self.waits.every, learnt.every))

    def _learn(self, tool: str, seconds: float, right: bool | None) -> None:
        waits = self.waits
        own = _judged(self._old(tool).with_one(seconds), right)
        every = _judged(waits.every.with_one(seconds), right)
        self.waits = replace(waits, tools=_with(waits.tools, tool, own), every=every)

    def _old(self, tool: str) -> ToolWaits:
        return self.waits.tools.get(tool, ToolWaits())


def _judged(waits: ToolWaits, right: bool | None) -> ToolWaits:
    return waits if right is None else replace(waits, foretold=waits.foretold + 1, right=waits.right + right)


def _counted(waits: ToolWaits, learnt: ToolWaits) -> ToolWaits:
    """`waits`, which has the durations of both, with what `learnt` has counted beside them."""
    more = max(0, learnt.count - len(learnt.recent))
    return replace(
        waits,
        count=waits.count + more,
        cut_short=learnt.cut_short,
        foretold=learnt.foretold,
        right=learnt.right,
    )


def _with(tools: Mapping[str, ToolWaits], tool: str, waits: ToolWaits) -> Mapping[str, ToolWaits]:
    """`tool` as the one seen last."""
    found = {name: kept for name, kept in tools.items() if name != tool}
    found[tool] = waits
    if len(found) > TOOLS_KEPT:
        del found[next(iter(found))]
    return MappingProxyType(found)
