"""A turn: one request, prompt plus generated tokens; the unit of scheduling. The words that every room shares."""

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import NewType

TurnId = NewType("TurnId", int)

AVERAGE_TURN_TOKENS = 768
"""What a turn of the default workload holds over its life."""


class Priority(IntEnum):
    """Lower runs first. A person waits for a foreground turn."""

    FOREGROUND = 0
    BACKGROUND = 1

    @property
    def label(self) -> str:
        return self.name.lower()


class Phase(StrEnum):
    WAITING = "waiting"
    PREFILL = "prefill"
    DECODE = "decode"
    PAUSED = "paused"
    BLOCKED = "blocked"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        return self is _DONE or self is _FAILED or self is _CANCELLED

    @property
    def running(self) -> bool:
        """Holds a slot."""
        return self is _DECODE or self is _PREFILL


# Asked for each turn at each step: a name of the module is found sooner than a member of its class.
_PREFILL, _DECODE, _DONE, _FAILED, _CANCELLED = (
    Phase.PREFILL,
    Phase.DECODE,
    Phase.DONE,
    Phase.FAILED,
    Phase.CANCELLED,
)


class Tier(StrEnum):
    """Where a turn's KV is. NONE: it never held any, or it ended."""

    NONE = "none"
    RESIDENT = "resident"
    HOST = "host"
    DROPPED = "dropped"


class Finish(StrEnum):
    """Why the generation of a turn stopped. TOOL: it blocked on a tool and may go on."""

    STOP = "stop"
    LENGTH = "length"
    TOOL = "tool"
    ERROR = "error"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the next token is chosen. temperature 0 is greedy; top_k 0 is off. A seed makes the turn repeat itself,
    whatever runs beside it; without one the host draws a seed."""

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """What an agent asks for.

    `then_block`: name of the tool on which the turn blocks when its generation stops (instead of being done).
    `max_tokens` counts generated tokens until the next stop or block.
    """

    agent: str
    prompt: tuple[int, ...]
    max_tokens: int = 256
    priority: Priority = Priority.BACKGROUND
    sampling: Sampling = field(default_factory=Sampling)
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False
    then_block: str | None = None


@dataclass(frozen=True, slots=True)
class TurnUpdate:
    """What a client hears after a step: new tokens, their text, and how the turn stands.

    `finish` is set when generation stopped; `error` is the sentence for a failed turn. `context_tokens` is prompt plus
    generated so far.
    """

    turn: TurnId
    tokens: tuple[int, ...]
    text: str
    phase: Phase
    context_tokens: int
    finish: Finish | None = None
    error: str | None = None
