"""Everything the governor measures in time: dwell, quantum, aging, and the order of waiting turns."""

from engine.knobs import Knobs
from engine.policies.base import TIER_DWELL_S as TIER_DWELL_S
from engine.turn import Phase, Priority, Tier
from engine.view import TurnView

# Asked for each turn at each boundary: a name of the module is found sooner than a member of its class.
_PAUSED, _PREFILL, _BACKGROUND, _HOST, _DROPPED = (
    Phase.PAUSED,
    Phase.PREFILL,
    Priority.BACKGROUND,
    Tier.HOST,
    Tier.DROPPED,
)

STARVE_AFTER_S = 20.0
FAIL_AFTER = 4.0
BACKGROUND_SHARE = 0.05
"""Of the time, and so of the steps, that foreground without end leaves to background that waits."""


def place(turn: TurnView) -> tuple[float, int]:
    """Its place among turns of one priority: a preempted turn keeps the place of its arrival, others stand where they
    began to wait."""
    return (turn.arrived_at if turn.phase is _PAUSED else turn.queued_since, turn.id)


def starving(turn: TurnView, now: float) -> bool:
    return now >= turn.queued_since + STARVE_AFTER_S


def returns_at(turn: TurnView) -> float | None:
    """When a background turn out of the arena may come back; None: it is not out, or a person waits for it."""
    out = turn.tier is _HOST or turn.tier is _DROPPED
    return turn.tier_since + TIER_DWELL_S if out and turn.priority is _BACKGROUND else None


def slot_since(turn: TurnView) -> float:
    """Since when a running turn has its slot; late by its prefill for a turn that decodes and never was preempted."""
    resumed = turn.resumed_at
    return turn.phase_since if resumed is None or resumed < turn.queued_since else resumed


def in_quantum(turn: TurnView, knobs: Knobs, now: float) -> bool:
    """Resumed less than `min_quantum_s` ago."""
    return turn.resumed_at is not None and now < turn.resumed_at + knobs.min_quantum_s


def aged_in(turn: TurnView, knobs: Knobs, now: float) -> bool:
    """Runs because it had waited long enough, and has not had its share yet."""
    if slot_since(turn) < turn.queued_since + STARVE_AFTER_S:
        return False
    return turn.phase is _PREFILL or now < share_until(turn, knobs)


def share_until(turn: TurnView, knobs: Knobs) -> float:
    """Until when a turn that waited for its slot and decodes now has its share: its prefill, then `min_quantum_s`, and
    no less than BACKGROUND_SHARE of its wait and this together."""
    waited = slot_since(turn) - turn.queued_since
    return turn.phase_since + max(knobs.min_quantum_s, waited * BACKGROUND_SHARE / (1 - BACKGROUND_SHARE))
