"""What the governor sees and what it answers: immutable, free of torch, clocks and I/O."""

from dataclasses import dataclass, field
from enum import StrEnum

from engine.backends.base import StepPlan
from engine.geometry import blocks_for
from engine.turn import Phase, Priority, Tier, TurnId
from engine.waits import Waits

NO_WAITS = Waits()


@dataclass(frozen=True, slots=True)
class TurnView:
    """One live turn. `tokens`: prompt plus generated; `kv_tokens`: computed and kept, in arena or host copy; the rest
    is pending. `blocks`: held in the arena; `host_bytes`: of the host pool that its copy occupies. Times are seconds of
    the engine's monotonic clock. `queued_since`: since when it wants a slot (waiting or paused), `resumed_at`: when it
    last got its slot back after a preemption, `tier_since`: last change of tier. `held`: paused by the operator, wants
    no slot until resumed by him."""

    id: TurnId
    priority: Priority
    phase: Phase
    tier: Tier
    tokens: int
    kv_tokens: int
    blocks: int
    arrived_at: float
    phase_since: float
    queued_since: float
    tier_since: float
    resumed_at: float | None = None
    held: bool = False
    tool: str | None = None
    host_bytes: int = 0

    @property
    def pending(self) -> int:
        return self.tokens - self.kv_tokens

    @property
    def wants_slot(self) -> bool:
        return not self.held and self.phase in (Phase.WAITING, Phase.PAUSED)

    @property
    def parked(self) -> bool:
        """Holds no slot but may hold KV: waiting after a tool, paused or blocked."""
        return self.phase in (Phase.WAITING, Phase.PAUSED, Phase.BLOCKED)

    def blocks_needed(self, block_size: int) -> int:
        """Blocks for the WHOLE context plus the next token."""
        return blocks_for(self.tokens + 1, block_size)


@dataclass(frozen=True, slots=True)
class MemoryView:
    """Blocks and bytes at the present precision, from the backend. A host copy occupies whole units of
    `host_unit_bytes`."""

    block_size: int
    block_bytes: int
    blocks_total: int
    blocks_free: int
    host_total_bytes: int
    host_free_bytes: int
    host_unit_bytes: int

    def host_bytes(self, blocks: int) -> int:
        """What a copy of so many blocks occupies in the host pool."""
        return -(-blocks * self.block_bytes // self.host_unit_bytes) * self.host_unit_bytes

    def host_pool(self, nbytes: int) -> int:
        """What a host pool of so many bytes can give."""
        return nbytes // self.host_unit_bytes * self.host_unit_bytes


@dataclass(frozen=True, slots=True)
class View:
    """`evicting`: the hysteresis state, True from the high watermark until the low one is reached; it comes back in
    the Decision and is handed in again. `waits`: what is known of how long tools take."""

    turns: tuple[TurnView, ...]
    memory: MemoryView
    evicting: bool = False
    waits: Waits = NO_WAITS


class Reason(StrEnum):
    """Why a turn was moved; shown in events and CSV."""

    WATERMARK = "watermark"
    LONG = "long turn"
    ADMISSION = "room for another turn"
    GROWTH = "room to grow"
    STALL = "stall broken"
    PRECISION = "precision switch"
    ABANDONED = "abandoned"
    OPERATOR = "operator"
    HOST_FULL = "host pool full"
    CORRUPT = "host copy unusable"
    POLICY = "policy"


@dataclass(frozen=True, slots=True)
class Start:
    """Give the turn a slot. Its KV, if any, is resident by then; if none is, all of it is prefilled."""

    turn: TurnId


@dataclass(frozen=True, slots=True)
class Preempt:
    """Take the slot away at this token boundary; KV stays where it is. `for_turn`: who gets the slot or the room."""

    turn: TurnId
    for_turn: TurnId | None
    reason: Reason = Reason.ADMISSION


@dataclass(frozen=True, slots=True)
class SwapOut:
    turn: TurnId
    reason: Reason


@dataclass(frozen=True, slots=True)
class SwapIn:
    """Bring the host copy back; the turn's start follows, unless it comes `ahead` of its slot."""

    turn: TurnId
    ahead: bool = False


@dataclass(frozen=True, slots=True)
class Drop:
    """`no_room`: only because the host pool has none for its copy."""

    turn: TurnId
    reason: Reason
    no_room: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Fail:
    """End the turn with a sentence for its client."""

    turn: TurnId
    message: str


Action = Start | Preempt | SwapOut | SwapIn | Drop | Fail


@dataclass(frozen=True, slots=True)
class Stall:
    """No turn could run though `turn` wanted to: it lacked `blocks`. `left`: who leaves the arena for it, whatever the
    policy says; empty: nobody can, the stall lasts."""

    turn: TurnId
    blocks: int
    left: tuple[TurnId, ...] = ()


@dataclass(frozen=True, slots=True)
class Decision:
    """Actions in the order in which they are carried out, then the step. `plan` names only turns that hold a slot
    after the actions. `wake_at`: with an empty plan, when to be asked again (None: when something arrives).
    `next_at`: the first later instant that a rule or the policy named, whoever runs."""

    actions: tuple[Action, ...]
    plan: StepPlan
    evicting: bool
    wake_at: float | None = None
    stalled: Stall | None = None
    next_at: float | None = None
