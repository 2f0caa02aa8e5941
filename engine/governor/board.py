"""The view as it changes while one decision is made: who holds a slot, what is free, what is promised to whom.

Nothing here chooses; order.py, admission.py and memory.py do. Blocks are counted, never moved.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from engine.costs import Costs
from engine.governor.host_tier import give_way, next_in_line
from engine.governor.timing import TIER_DWELL_S
from engine.knobs import Knobs
from engine.policies.base import Move, Need, Situation, TierPolicy
from engine.turn import Phase, Tier, TurnId
from engine.view import Action, Drop, Fail, Preempt, Reason, Stall, Start, SwapIn, SwapOut, TurnView, View

# Asked for each turn at each boundary: a name of the module is found sooner than a member of its class.
_DECODE, _PREFILL, _WAITING, _PAUSED, _BLOCKED = (
    Phase.DECODE,
    Phase.PREFILL,
    Phase.WAITING,
    Phase.PAUSED,
    Phase.BLOCKED,
)
_HOST, _DROPPED = Tier.HOST, Tier.DROPPED


class Board:
    """`running`: turns with a slot. `resident`: parked turns that hold blocks. `waiting`: turns that want a slot and
    have none. `promised`: blocks that the running turns may still take: whole context, next token and one
    growth block, less what they hold. `touched`: preempted
    or moved by this decision, so not started by it. `wake_at`: the earliest later instant named so far."""

    def __init__(self, view: View, knobs: Knobs, costs: Costs, policy: TierPolicy, now: float) -> None:
        m = view.memory
        self.memory, self.knobs, self.costs, self.policy, self.now = m, knobs, costs, policy, now
        self.waits = view.waits
        self.block_size, self.total, self.free, self.host_free = (
            m.block_size,
            m.blocks_total,
            m.blocks_free,
            m.host_free_bytes,
        )
        self.running, self.resident, self.blocked, self.waiting = _sorted_out(view)
        self._turns = view.turns
        self.touched: set[TurnId] = set()
        self.started: set[TurnId] = set()
        self.actions: list[Action] = []
        self.wake_at: float | None = None
        self.stalled: Stall | None = None
        self.promised = sum(self.wants(turn) for turn in self.running.values())

    # -- sums, in blocks --------------------------------------------------------------------------------------------

    def wants(self, turn: TurnView) -> int:
        """What the turn may still take: whole context, next token and one growth block (never more than the arena),
        less what it holds."""
        need = -(-(turn.tokens + 1) // self.block_size) + 1
        return max(0, min(need, self.total) - turn.blocks)

    def lacks(self, turn: TurnView) -> int:
        """What the turn cannot do without: the context whose KV is there or pending, less what it holds."""
        return max(0, -(-turn.tokens // self.block_size) - turn.blocks)

    @property
    def spare(self) -> int:
        """Free and promised to nobody; negative when growth blocks were used up."""
        return self.free - self.promised

    @property
    def slots(self) -> int:
        return self.knobs.max_running - len(self.running)

    def parked(self, *, settled: bool, but: TurnId | None = None) -> list[TurnView]:
        """Resident turns that may be moved; `settled`: only those whose tier has lasted its dwell."""
        turns, now = self.resident.values(), self.now
        if settled:
            return [turn for turn in turns if turn.id != but and now >= turn.tier_since + TIER_DWELL_S]
        return [turn for turn in turns if turn.id != but]

    # -- asking the policy ------------------------------------------------------------------------------------------

    def ask(self, parked: Iterable[TurnView], need: Need) -> tuple[Move, ...]:
        """The policy's moves, not carried out."""
        if (self.free, self.host_free) != (self.memory.blocks_free, self.memory.host_free_bytes):
            self.memory = replace(self.memory, blocks_free=self.free, host_free_bytes=self.host_free)
        relief = self.policy.relieve(
            Situation(
                parked=tuple(parked),
                running=tuple(self.running.values()),
                need=need,
                memory=self.memory,
                knobs=self.knobs,
                costs=self.costs,
                now=self.now,
                waits=self.waits,
            )
        )
        if relief.wake_at is not None:
            self.wake(relief.wake_at)
        return relief.moves

    def wake(self, at: float) -> None:
        """The answer may change at `at`; instants already past, and never, are nothing to wait for."""
        if self.now < at < math.inf and (self.wake_at is None or at < self.wake_at):
            self.wake_at = at

    # -- actions ----------------------------------------------------------------------------------------------------

    def move(self, moves: Iterable[Move], for_turn: TurnView | None = None) -> None:
        """Those that lack room in the host pool last: what the others leave of it is then known. `for_turn`: who starts
        then, so whose copy is not given up."""
        for move in sorted(moves, key=_lacks_room):
            turn = self.resident.pop(move.turn)
            if _lacks_room(move) and self._make_host_room(turn, for_turn):
                move = SwapOut(turn.id, move.reason)
            self.touched.add(turn.id)
            self.free += turn.blocks
            dropped = isinstance(move, Drop)
            if not dropped:
                self.host_free -= self.memory.host_bytes(turn.blocks)
            if turn.id in self.waiting:
                self.waiting[turn.id] = _moved_out(turn, dropped, self.now)
            self.actions.append(move)

    def _make_host_room(self, newcomer: TurnView, for_turn: TurnView | None) -> bool:
        """Drop copies that are worth less than the newcomer's would be; False: it cannot have one, nothing changed."""
        nbytes = self.memory.host_bytes(newcomer.blocks)
        if nbytes > self.memory.host_total_bytes:
            return False
        copies = [t for t in self._turns if t.host_bytes and t.id not in self.touched and t.id not in self.started]
        line = next_in_line(self.waiting.values(), self.knobs.max_running, self.now)
        if for_turn is not None:
            line |= {for_turn.id}
        gone = give_way(newcomer, nbytes - self.host_free, copies, line, self.now)
        for turn in gone:
            self.touched.add(turn.id)
            self.host_free += turn.host_bytes
            if turn.id in self.waiting:
                self.waiting[turn.id] = _moved_out(turn, True, self.now)
            self.actions.append(Drop(turn.id, Reason.HOST_FULL))
        return nbytes <= self.host_free

    def preempt(self, turn: TurnView, for_turn: TurnId | None, reason: Reason) -> None:
        del self.running[turn.id]
        self.promised -= self.wants(turn)
        self.touched.add(turn.id)
        turn = replace(turn, phase=Phase.PAUSED, phase_since=self.now, queued_since=self.now)
        self.waiting[turn.id] = turn
        if turn.blocks:
            self.resident[turn.id] = turn
        self.actions.append(Preempt(turn.id, for_turn, reason))

    def start(self, turn: TurnView) -> None:
        """Slot and room must be there."""
        self.resident.pop(turn.id, None)
        self.waiting.pop(turn.id, None)
        if turn.tier is Tier.HOST:
            blocks = -(-turn.kv_tokens // self.block_size)
            self.free -= blocks
            turn = replace(turn, blocks=blocks, tier=Tier.RESIDENT, tier_since=self.now)
            self.actions.append(SwapIn(turn.id))
        self.actions.append(Start(turn.id))
        self.running[turn.id] = turn
        self.started.add(turn.id)
        self.promised += self.wants(turn)

    def bring_ahead(self, turn: TurnView) -> None:
        """Room must be there."""
        blocks = -(-turn.kv_tokens // self.block_size)
        self.free -= blocks
        turn = replace(turn, blocks=blocks, tier=Tier.RESIDENT, tier_since=self.now)
        self.resident[turn.id] = turn
        if turn.id in self.waiting:
            self.waiting[turn.id] = turn
        self.touched.add(turn.id)
        self.actions.append(SwapIn(turn.id, ahead=True))

    def fail(self, turn: TurnView, message: str) -> None:
        if self.running.pop(turn.id, None) is not None:
            self.promised -= self.wants(turn)
        self.resident.pop(turn.id, None)
        self.waiting.pop(turn.id, None)
        self.touched.add(turn.id)
        self.free += turn.blocks
        self.actions.append(Fail(turn.id, message))

    def drop_abandoned(self, turn: TurnView) -> None:
        self.resident.pop(turn.id, None)
        self.touched.add(turn.id)
        self.free += turn.blocks
        self.actions.append(Drop(turn.id, Reason.ABANDONED))


def _lacks_room(move: Move) -> bool:
    return isinstance(move, Drop) and move.no_room


def _sorted_out(
    view: View,
) -> tuple[dict[TurnId, TurnView], dict[TurnId, TurnView], list[TurnView], dict[TurnId, TurnView]]:
    """Running, resident, blocked and waiting turns, in the view's order."""
    running: dict[TurnId, TurnView] = {}
    resident: dict[TurnId, TurnView] = {}
    blocked: list[TurnView] = []
    waiting: dict[TurnId, TurnView] = {}
    for turn in view.turns:
        phase = turn.phase
        if phase is _DECODE or phase is _PREFILL:
            running[turn.id] = turn
            continue
        if turn.blocks:
            resident[turn.id] = turn
        if phase is _BLOCKED:
            blocked.append(turn)
        elif not turn.held and (phase is _WAITING or phase is _PAUSED):
            waiting[turn.id] = turn
    return running, resident, blocked, waiting


def _moved_out(turn: TurnView, dropped: bool, now: float) -> TurnView:
    """Spelt out, as a boundary may move hundreds and `replace` takes twice as long."""
    return TurnView(
        turn.id,
        turn.priority,
        turn.phase,
        _DROPPED if dropped else _HOST,
        turn.tokens,
        0 if dropped else turn.kv_tokens,
        0,
        turn.arrived_at,
        turn.phase_since,
        turn.queued_since,
        now,
        turn.resumed_at,
        turn.held,
        turn.tool,
    )


def freed(moves: Sequence[Move], parked: Iterable[TurnView]) -> int:
    """Blocks that `moves` set free."""
    if not moves:
        return 0
    blocks = {turn.id: turn.blocks for turn in parked}
    return sum(blocks[move.turn] for move in moves)
