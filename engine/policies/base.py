"""The interface of a tier policy: which parked turns leave the arena, and where to.

The governor decides when room is needed and how much; a policy only chooses among the turns it is offered. It is asked
at every token boundary, also when nothing is needed, so that a policy may act ahead of pressure, and it may name the
instant at which its answer changes by time alone.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import Protocol

from engine.costs import Costs
from engine.knobs import Knobs
from engine.view import Drop, MemoryView, Reason, SwapOut, TurnView

Move = SwapOut | Drop

_WATERMARK, _LONG = Reason.WATERMARK, Reason.LONG
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
    the actions already decided."""

    parked: tuple[TurnView, ...]
    running: tuple[TurnView, ...]
    need: Need
    memory: MemoryView
    knobs: Knobs
    costs: Costs
    now: float


@dataclass(frozen=True, slots=True)
class Relief:
    """Moves in order, of offered turns only, each once. `wake_at`: when the answer changes if nothing else does."""

    moves: tuple[Move, ...] = ()
    wake_at: float | None = None


class TierPolicy(Protocol):
    """`name`: the knob's value. `title`: one line for the page."""

    @property
    def name(self) -> str: ...

    @property
    def title(self) -> str: ...

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
