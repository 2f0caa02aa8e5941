"""What a live turn has been through and what its moves have cost, kept with the turn and bounded."""

from collections import deque
from dataclasses import dataclass, field, replace

from engine.events import EventKind
from engine.turn import Phase, Tier

SPANS_KEPT = 100


@dataclass(frozen=True, slots=True)
class Span:
    """A time in which a turn kept one phase, tier and tool. Times are of the engine's clock, in seconds. `held`: paused
    by the operator."""

    start: float
    end: float
    phase: Phase
    tier: Tier
    tool: str | None
    held: bool

    @property
    def seconds(self) -> float:
        return self.end - self.start

    @property
    def queued(self) -> bool:
        """It wanted a slot and had none."""
        return self.phase in (Phase.WAITING, Phase.PAUSED) and not self.held

    def goes_on_in(self, later: "Span") -> bool:
        return self.end == later.start and replace(later, start=self.start, end=self.end) == self


@dataclass(frozen=True, slots=True)
class Paid:
    """The moves of one kind: how many, and the sums of their tokens, bytes and seconds."""

    count: int = 0
    tokens: int = 0
    nbytes: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class History:
    """`spans`: the latest, oldest first, no two alike in a row; `paid`: by SWAP_OUT, SWAP_IN and RECOMPUTE;
    `queued_s`, `blocked_s`: over the turn's whole life, of the spans that have ended."""

    spans: deque[Span] = field(default_factory=lambda: deque(maxlen=SPANS_KEPT))
    paid: dict[EventKind, Paid] = field(default_factory=dict)
    queued_s: float = 0.0
    blocked_s: float = 0.0

    def add(self, span: Span) -> None:
        self.queued_s += span.seconds if span.queued else 0.0
        self.blocked_s += span.seconds if span.phase is Phase.BLOCKED else 0.0
        if self.spans and self.spans[-1].goes_on_in(span):
            span = replace(span, start=self.spans.pop().start)
        self.spans.append(span)

    def pay(self, kind: EventKind, tokens: int, nbytes: int, seconds: float) -> None:
        before = self.paid.get(kind, Paid())
        self.paid[kind] = Paid(
            before.count + 1, before.tokens + tokens, before.nbytes + nbytes, before.seconds + seconds
        )

    def copy(self) -> "History":
        return History(self.spans.copy(), dict(self.paid), self.queued_s, self.blocked_s)
