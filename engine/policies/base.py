"""The interface of a tier policy: which parked turns leave the arena, and where to.

The governor decides when room is needed and how much; a policy only chooses among the turns it is offered. It is asked
at every token boundary, also when nothing is needed, so that a policy may act ahead of pressure, and it may name the
instant at which its answer changes by time alone.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Protocol

from engine.costs import Costs
from engine.errors import BadKnob
from engine.knobs import Knobs
from engine.turn import Phase
from engine.view import NO_WAITS, Drop, MemoryView, Reason, SwapOut, TurnView
from engine.waits import Waits

Move = SwapOut | Drop

_WATERMARK, _LONG = Reason.WATERMARK, Reason.LONG
_BLOCKED = Phase.BLOCKED
TIER_DWELL_S = 1.0
"""No turn changes tier twice within it, save for room that foreground, growth or a stall needs. So a background turn
that leaves of itself comes back no sooner."""
ID, PRIORITY, TOKENS, ARRIVAL = map(attrgetter, ("id", "priority", "tokens", "arrived_at"))


@dataclass(frozen=True, slots=True)
class Need:
    """Blocks that should come free. `hard`: somebody waits for them, for `reason`. `soft`: from the high watermark
    down to the low one. `long`: above the low watermark, asked of long turns only. They overlap: a block freed counts
    for all three."""

    hard: int = 0
    reason: Reason = Reason.ADMISSION
    soft: int = 0
    long: int = 0

    @property
    def most(self) -> int:
        return max(self.hard, self.soft, self.long)


@dataclass(frozen=True, slots=True)
class Situation:
    """What a policy sees. `parked`: turns that hold blocks and no slot and may be moved now; `memory`: as it is after
    the actions already decided; `waits`: how long tools take. With `need.hard` the offered turns may be within their
    dwell, and a move that is not for that need breaks it: who moves turns ahead of need does so where it is 0."""

    parked: tuple[TurnView, ...]
    running: tuple[TurnView, ...]
    need: Need
    memory: MemoryView
    knobs: Knobs
    costs: Costs
    now: float
    waits: Waits = NO_WAITS


@dataclass(frozen=True, slots=True)
class Relief:
    """Moves in order, of offered turns only, each once. `wake_at`: when the answer changes if nothing else does."""

    moves: tuple[Move, ...] = ()
    wake_at: float | None = None


@dataclass(frozen=True, slots=True)
class Parameter:
    """A number of a policy's own, from `low` to `high`, that an operator sets as the knob POLICY.NAME. `label` is its
    word for people, `unit` may be empty."""

    name: str
    label: str
    unit: str
    low: float
    high: float
    default: float

    def of(self, policy: str, knobs: Knobs) -> float:
        """Its value in this set."""
        return dict(knobs.parameters).get(f"{policy}.{self.name}", self.default)

    def checked(self, policy: str, value: float) -> float:
        """Raises BadKnob."""
        if not self.low <= value <= self.high:
            unit = f" {self.unit}" if self.unit else ""
            raise BadKnob(f"{self.label} of {policy} {value:g}{unit} is outside {self.low:g} to {self.high:g}{unit}")
        return value


class TierPolicy(Protocol):
    """`name`: the knob's value. `title`, `fits`, `source`: a line each: what it does, when to choose it, its origin.
    `parameters`: knobs of its own."""

    @property
    def name(self) -> str: ...

    @property
    def title(self) -> str: ...

    @property
    def fits(self) -> str: ...

    @property
    def source(self) -> str: ...

    @property
    def parameters(self) -> tuple[Parameter, ...]: ...

    def relieve(self, situation: Situation) -> Relief:
        """Choose who leaves. Freeing less than asked is legal: the governor then preempts, waits or breaks the
        stall. Must be pure."""
        ...


def longest_first(turn: TurnView) -> tuple[int, int, int]:
    """Background before foreground, then the longest context, then id."""
    return (-turn.priority, -turn.tokens, turn.id)


def by_longest(turns: Iterable[TurnView]) -> list[TurnView]:
    """As sorted by `longest_first`: stable sorts, the last key first, which call no Python for each turn."""
    order = sorted(turns, key=ID)
    order.sort(key=TOKENS, reverse=True)
    order.sort(key=PRIORITY, reverse=True)
    return order


def out_or_drop(turn: TurnView, reason: Reason, memory: MemoryView, host_free: int) -> Move:
    """To the host pool if a copy fits in its `host_free` bytes, else dropped."""
    return (
        SwapOut(turn.id, reason) if memory.host_bytes(turn.blocks) <= host_free else Drop(turn.id, reason, no_room=True)
    )


class Exits:
    """Ways out of the arena, one turn after the other, as the host pool fills."""

    __slots__ = ("_memory", "_room")

    def __init__(self, memory: MemoryView) -> None:
        self._memory = memory
        self._room = memory.host_free_bytes

    def leave(self, turn: TurnView, reason: Reason) -> Move:
        """To the host pool while it has room, else dropped."""
        nbytes = self._memory.host_bytes(turn.blocks)
        if nbytes > self._room:
            return Drop(turn.id, reason, no_room=True)
        self._room -= nbytes
        return SwapOut(turn.id, reason)

    def fits(self, turn: TurnView) -> bool:
        return self._memory.host_bytes(turn.blocks) <= self._room


def blocked(situation: Situation) -> list[TurnView]:
    """Whom a policy may move ahead of need: parked turns that wait on a tool; nobody where somebody needs room now."""
    return [] if situation.need.hard else [turn for turn in situation.parked if turn.phase is _BLOCKED]


def relief(
    ahead: Sequence[Move],
    wake_at: float,
    situation: Situation,
    order: Callable[[Iterable[TurnView]], Iterable[TurnView]],
    move: Callable[[TurnView, Reason], Move],
) -> Relief:
    """`ahead`: moves without need. The others then leave in `order` until the need that is still open is met.
    `wake_at`: infinity where time alone changes nothing."""
    if ahead:
        gone = {one.turn for one in ahead}
        freed = sum([turn.blocks for turn in situation.parked if turn.id in gone])
        need = replace(situation.need, soft=situation.need.soft - freed, long=situation.need.long - freed)
        stay = tuple([turn for turn in situation.parked if turn.id not in gone])
        situation = replace(situation, parked=stay, need=need)
    moves = leave_in_order(order(situation.parked), situation, move) if situation.need.most > 0 else ()
    return Relief((*ahead, *moves), None if wake_at == math.inf else wake_at)


def leave_in_order(
    order: Iterable[TurnView], situation: Situation, move: Callable[[TurnView, Reason], Move]
) -> tuple[Move, ...]:
    """Walk `order` until every need is met. The reason of each move is the strongest need still open."""
    need, freed, long = situation.need, 0, situation.knobs.long_turn_tokens
    most, hard, soft = need.most, need.hard, need.soft
    moves: list[Move] = []
    for turn in order:
        if freed >= most:
            break
        if freed < hard:
            reason = need.reason
        elif freed < soft:
            reason = _WATERMARK
        elif turn.tokens >= long:
            reason = _LONG
        else:
            continue
        moves.append(move(turn, reason))
        freed += turn.blocks
    return tuple(moves)
