"""Spans of equal work, in alternation, and what a change costs against its neighbours.

Engine speed drifts with temperature, with neighbours on the machine and with time. So a span under a change is compared
with the spans without it just before and just after, and the median of those ratios counts.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from engine.errors import Refused
from engine.stats import quantile

POLL_S = 0.05
STUCK_S = 120.0


@dataclass(frozen=True, slots=True)
class Reading:
    """The engine's own account. `at`: its clock, seconds; `tokens`: generated since its start."""

    at: float
    tokens: int


@dataclass(frozen=True, slots=True)
class Span:
    """`kind`: what was changed while it lasted."""

    kind: str
    seconds: float
    tokens: int

    @property
    def tokens_per_s(self) -> float:
        return self.tokens / self.seconds


@dataclass(frozen=True, slots=True)
class Cost:
    """`share` of the engine's tokens per second that is lost: 1 - the median ratio; below 0: none was seen to be lost.
    `low` and `high`: quartiles of the same."""

    share: float
    low: float
    high: float


class Meter:
    """Cuts spans out of a running engine, which `read` asks. `turn_tokens`: after so many generated tokens the load
    looks the same again."""

    def __init__(self, read: Callable[[], Reading], turn_tokens: int, poll_s: float = POLL_S) -> None:
        self._read = read
        self._turn = turn_tokens
        self._poll_s = poll_s

    def warm_up(self, turns: int) -> None:
        """Until so many turns' tokens have been generated since the engine's start."""
        self._until(turns * self._turn)

    def span(self, kind: str, turns: int) -> Span:
        """Measures from the middle between two turns' ends, where no prompt is near, for `turns` times a turn's
        tokens. Raises Refused when the engine stands still."""
        phase = self._turn // 2
        now = self._read().tokens
        start = self._until(now + (phase - now) % self._turn)
        end = self._until(start.tokens + turns * self._turn)
        return Span(kind, end.at - start.at, end.tokens - start.tokens)

    def _until(self, tokens: int) -> Reading:
        last, moved = -1, time.monotonic()
        while (now := self._read()).tokens < tokens:
            if now.tokens != last:
                last, moved = now.tokens, time.monotonic()
            elif time.monotonic() - moved > STUCK_S:
                raise Refused(f"the engine generated nothing for {STUCK_S:g} s; is the machine overloaded?")
            time.sleep(self._poll_s)
        return now


def alternation(kinds: Sequence[str], rounds: int, base: str) -> Iterator[str]:
    """base, first kind, base, second kind, base, ... with a base at both ends."""
    yield base
    for _ in range(rounds):
        for kind in kinds:
            yield kind
            yield base


def ratios(spans: Sequence[Span], kind: str, base: str) -> tuple[float, ...]:
    """Each span of `kind` against the mean of the `base` spans beside it. Raises Refused when it has none."""
    found = []
    for number, span in enumerate(spans):
        if span.kind != kind:
            continue
        beside = (*spans[max(0, number - 1) : number], *spans[number + 1 : number + 2])
        speeds = [one.tokens_per_s for one in beside if one.kind == base]
        if not speeds:
            raise Refused(f"a span {kind!r} has no span {base!r} beside it to compare with")
        found.append(span.tokens_per_s * len(speeds) / sum(speeds))
    return tuple(found)


def cost(spans: Sequence[Span], kind: str, base: str) -> Cost:
    """What `kind` costs against `base`. Raises Refused when there is no span of it."""
    found = ratios(spans, kind, base)
    if not found:
        raise Refused(f"there is no span {kind!r} to compare")
    low, middle, high = (1.0 - (quantile(found, q) or 0.0) for q in (0.75, 0.5, 0.25))
    return Cost(middle, low, high)


def median_speed(spans: Sequence[Span], kind: str) -> float:
    """Tokens per second."""
    return quantile([span.tokens_per_s for span in spans if span.kind == kind], 0.5) or 0.0
