"""What a change of knobs, or of a twin's card, did: the same figures before and after it, over equal spans, with their
spread. Pure.

    other change      began_at   at                    another change, or now
         |----- before ----|xxxxx|----- after -----|
                                 what the switch itself took lies in neither

Both spans end at changes beside this one, of knobs, card or swarm, at the session's start and at MOST_S; the longer
one is cut to the shorter. The engine takes a sample as soon as a change is made, so the after-span misses nothing.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import accumulate, pairwise

from engine.changes import Change
from engine.event_log import CHANGES
from engine.events import PACE, Event, EventKind
from engine.snapshot import Counters, Sample
from engine.stats import quantile
from engine.thinning import WHOLE_S

MOST_S = 30.0
LEAST_S = 1.0
PARTS = 6
LEAST_VALUES = 4
QUARTILES = (0.25, 0.5, 0.75)
WHOLE_FOR_S = WHOLE_S - 5.0
"""Older samples are thinned, and what came in those that are gone would lack."""


@dataclass(frozen=True, slots=True)
class Figure:
    """Of one span. A median with its middle half, p25 to p75; of a count (`parts` > 1) the sum over the span, and the
    middle half of the sums over its equal parts. `low` and `high` None: too few values for a spread."""

    value: float
    low: float | None = None
    high: float | None = None
    parts: int = 1

    @property
    def centre(self) -> float:
        """What lies in the spread or out of it."""
        return self.value / self.parts


class Verdict(StrEnum):
    """`WITHIN`: the difference lies within the spread. `UNSURE`: too short to tell. `NONE`: a side is not measured."""

    UP = "up"
    DOWN = "down"
    SAME = "same"
    WITHIN = "within"
    UNSURE = "unsure"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Compared:
    """None: not measured."""

    before: Figure | None = None
    after: Figure | None = None

    @property
    def verdict(self) -> Verdict:
        if self.before is None or self.after is None:
            return Verdict.NONE
        was, now = self.before.centre, self.after.centre
        if was == now:
            return Verdict.SAME
        if _spread(self.before) is None or _spread(self.after) is None:
            return Verdict.UNSURE
        if _holds(self.before, now) or _holds(self.after, was):
            return Verdict.WITHIN
        return Verdict.UP if now > was else Verdict.DOWN


class Stage(StrEnum):
    """`GROWING`: the after-span is still short. `NO_BEFORE`, `NO_AFTER`: no span there, nor will there be one. `GONE`:
    the samples of that time are no longer whole."""

    GROWING = "growing"
    DONE = "done"
    NO_BEFORE = "no before"
    NO_AFTER = "no after"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Effect:
    """`before_s`, `after_s`: lengths of the spans, seconds, equal but for the time between two samples. `previous`,
    `next`: the changes beside this one, if there are any. `left`: turns that left the arena or the host pool for the
    change itself. Headroom in bytes of this machine, latencies in seconds, rates in tokens per second; swaps (out and
    in) and recomputed tokens are counts over the span."""

    change: Change
    stage: Stage
    before_s: float = 0.0
    after_s: float = 0.0
    previous: Event | None = None
    next: Event | None = None
    left: int = 0
    headroom: Compared = Compared()
    paused_fit: Compared = Compared()
    itl: Compared = Compared()
    decode: Compared = Compared()
    swaps: Compared = Compared()
    recomputed: Compared = Compared()


def effect(change: Change, events: Sequence[Event], samples: Sequence[Sample], now: float) -> Effect:
    """Of `change`, which is among `events`; `samples` oldest first, of its session; `now`: engine clock, seconds."""
    previous, following = neighbours(change, events)
    left = sum(e.kind in (EventKind.SWAP_OUT, EventKind.DROP) and change.began_at <= e.at <= change.at for e in events)
    shown = Effect(change, Stage.GROWING, previous=previous, next=following, left=left if change.seconds else 0)
    floor = previous.at if previous else float("-inf")
    end = _began(following, events) if following else float("inf")
    earlier = [s for s in samples if max(floor, change.began_at - MOST_S - LEAST_S) <= s.at <= change.began_at]
    later = [s for s in samples if change.at <= s.at <= min(end, change.at + MOST_S + LEAST_S)]
    room = min(_length(earlier), MOST_S)
    stage = _stage(change, room, _length(later), following is not None, now)
    length = min(room, _length(later))
    if stage in (Stage.NO_BEFORE, Stage.NO_AFTER, Stage.GONE) or length < LEAST_S:
        return replace(shown, stage=stage)
    before = [s for s in earlier if s.at >= earlier[-1].at - length]
    after = [s for s in later if s.at <= later[0].at + length]

    def both(figure: Callable[[Sequence[Sample]], Figure | None]) -> Compared:
        return Compared(figure(before), figure(after))

    return replace(
        shown,
        stage=stage,
        before_s=_length(before),
        after_s=_length(after),
        headroom=both(_headroom),
        paused_fit=both(_paused_fit),
        itl=both(_itl),
        decode=both(_decode),
        swaps=both(_swaps),
        recomputed=both(_recomputed),
    )


def neighbours(change: Change, events: Iterable[Event]) -> tuple[Event | None, Event | None]:
    """The operators' changes, of knobs, card or swarm, just before and just after."""
    before = after = None
    for event in events:
        if event.kind not in CHANGES or event.name == PACE or event in change.events:
            continue
        if event.at <= change.at:
            before = event
        elif after is None:
            after = event
    return before, after


def _began(event: Event, events: Sequence[Event]) -> float:
    """When the change that `event` is part of began."""
    return event.at - sum(e.seconds or 0.0 for e in events if e.kind is event.kind and e.at == event.at)


def _stage(change: Change, room: float, passed: float, cut: bool, now: float) -> Stage:
    if now - change.began_at + MOST_S > WHOLE_FOR_S:
        return Stage.GONE
    if room < LEAST_S:
        return Stage.NO_BEFORE
    if cut and passed < LEAST_S:
        return Stage.NO_AFTER
    return Stage.DONE if cut or passed >= room else Stage.GROWING


# -- figures of one span ----------------------------------------------------------------------------------------------


def _median(values: Sequence[float]) -> Figure | None:
    return _figure(len(values), *(quantile(values, q) for q in QUARTILES))


def _figure(count: int, low: float | None, median: float | None, high: float | None) -> Figure | None:
    if median is None:
        return None
    return Figure(median) if count < LEAST_VALUES else Figure(median, low, high)


def _headroom(span: Sequence[Sample]) -> Figure | None:
    return _median([sample.bands.headroom for sample in span])


def _paused_fit(span: Sequence[Sample]) -> Figure | None:
    return _median([sample.paused_fit for sample in span if sample.paused_fit is not None])


def _itl(span: Sequence[Sample]) -> Figure | None:
    """Of all tokens of the span: what the first sample brings was measured before it."""
    found = sorted(latency for sample in span[1:] for latency in sample.itl)
    upto = list(accumulate(count for _, count in found))
    tokens = upto[-1] if upto else 0

    def at(q: float) -> float | None:
        """As stats.quantile does, over one value for each token."""
        if not tokens:
            return None
        place = q * (tokens - 1)
        low, high = (found[bisect_right(upto, min(int(place) + step, tokens - 1))][0] for step in (0, 1))
        return low + (high - low) * (place - int(place))

    return _figure(tokens, *(at(q) for q in QUARTILES))


def _decode(span: Sequence[Sample]) -> Figure | None:
    """By the second; None where no turn ran."""
    if not any(sample.running for sample in span):
        return None
    rates = []
    for first, last in _parted(span, max(1, int(_length(span)))):
        if last.at > first.at:
            tokens = last.counters.generated_tokens - first.counters.generated_tokens
            rates.append(tokens / (last.at - first.at))
    return _median(rates)


def _counted(span: Sequence[Sample], count: Callable[[Counters], int]) -> Figure:
    """A part is at least a second long, or there are none."""
    total = count(span[-1].counters) - count(span[0].counters)
    if _length(span) < PARTS:
        return Figure(total)
    parts = [count(last.counters) - count(first.counters) for first, last in _parted(span, PARTS)]
    return Figure(total, quantile(parts, 0.25), quantile(parts, 0.75), PARTS)


def _swaps(span: Sequence[Sample]) -> Figure:
    return _counted(span, lambda counters: counters.swaps_out + counters.swaps_in)


def _recomputed(span: Sequence[Sample]) -> Figure:
    return _counted(span, lambda counters: counters.recomputed_tokens)


def _parted(span: Sequence[Sample], parts: int) -> list[tuple[Sample, Sample]]:
    """First and last sample of each of the equal parts; a part's last is the next one's first."""
    start, length = span[0].at, _length(span)
    edges, index = [span[0]], 0
    for part in range(1, parts):
        while index + 1 < len(span) and span[index + 1].at <= start + length * part / parts:
            index += 1
        edges.append(span[index])
    edges.append(span[-1])
    return list(pairwise(edges))


def _length(span: Sequence[Sample]) -> float:
    return span[-1].at - span[0].at if span else 0.0


def _spread(figure: Figure) -> tuple[float, float] | None:
    return None if figure.low is None or figure.high is None else (figure.low, figure.high)


def _holds(figure: Figure, value: float) -> bool:
    spread = _spread(figure)
    return spread is not None and spread[0] <= value <= spread[1]
