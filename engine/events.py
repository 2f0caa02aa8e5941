"""Events and intervals: what happened, for the page's list, the charts' marks and the CSV files."""

from dataclasses import dataclass
from enum import StrEnum

from engine.geometry import KVDtype
from engine.turn import Phase, Priority, Tier, TurnId

PACE = "pace"
"""Name of the CARD event that changes how fast modelled time goes, and no figure in it."""


class EventKind(StrEnum):
    KNOB = "knob"
    CARD = "card"
    SUBMIT = "submit"
    PREEMPT = "preempt"
    RESUME = "resume"
    SWAP_OUT = "swap out"
    SWAP_IN = "swap in"
    DROP = "drop"
    BLOCK = "block"
    UNBLOCK = "unblock"
    FINISH = "finish"
    FAIL = "fail"
    CANCEL = "cancel"
    PAUSE = "pause"
    STALL = "stall"
    THRASH = "thrash"
    RECOMPUTE = "recompute"
    ENGINE = "engine"
    SWARM = "swarm"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class Event:
    """`at`: engine clock, seconds; `utc`: epoch seconds; `step`: the step at whose boundary it took effect; `author`:
    governor, engine, or who asked ('tab 1', cli, api, swarm, schedule, bench). `name`, `old`, `new`: a knob, or a
    figure of a modelled card, and its values. `seconds`: how long it took; `nbytes`: bytes moved."""

    at: float
    utc: float
    step: int
    kind: EventKind
    author: str
    text: str
    turn: TurnId | None = None
    agent: str | None = None
    name: str | None = None
    old: str | None = None
    new: str | None = None
    nbytes: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class MoveCost:
    """What one move really cost. `kind` is SWAP_OUT, SWAP_IN or RECOMPUTE; `tokens`: the context whose KV was moved or
    computed again; `nbytes`: moved (0 for a recompute); `seconds`: of the copy, or of the steps that computed it.

    A step that a recompute shared with other turns counts whole: that is the wall time for which the turn waited. The
    time between its steps, without a slot, does not count. A recompute that ends early, because its KV is thrown away
    once more or the turn ends, is booked with what had run."""

    kind: EventKind
    utc: float
    turn: TurnId
    agent: str
    tokens: int
    nbytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Interval:
    """A span in which a turn kept one phase, tier, tool and KV precision; one row of timeline.csv. Times are epoch
    seconds; bytes and tokens as they were at its end; `queued_ms`: how long it wanted a slot and had none."""

    start_utc: float
    end_utc: float
    agent: str
    turn: TurnId
    priority: Priority
    phase: Phase
    tier: Tier
    tool: str | None
    context_tokens: int
    kv_bytes: int
    kv_bytes_card_scale: int
    kv_dtype: KVDtype
    policy: str
    queued_ms: float
