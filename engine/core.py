"""The state of a running engine and the few acts that change where a turn's KV is. Owned by the host's thread.

commands.py (operators and agents) and loop.py (the governor's decisions) both act through this, so that each act has
one place where it is done and booked (books.py): ledger, counters, event.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

from engine.backends.base import Backend, Moved
from engine.body import Body
from engine.books import Books
from engine.clock import EngineClock
from engine.costs import Costs
from engine.errors import CorruptCopy
from engine.events import Event, EventKind, Interval
from engine.knobs import Knobs
from engine.ledger import Ledger, LiveTurn
from engine.models.loaded import ServedModel
from engine.turn import Finish, Phase, Tier, TurnId, TurnUpdate
from engine.view import Reason
from engine.words import counted

GOVERNOR = "governor"
COST_WEIGHT = 0.2


@dataclass(frozen=True, slots=True)
class _Order:
    """A copy of so many tokens' KV that was asked for, and what its event will say. `ahead`: of the turn's slot."""

    kind: EventKind
    tokens: int
    author: str
    text: str
    ahead: bool = False


class Core(Books):
    """Books and backend, and the acts that change both."""

    def __init__(
        self,
        clock: EngineClock,
        backend: Backend,
        model: ServedModel | None,
        ledger: Ledger,
        costs: Costs,
        on_event: Callable[[Event], None],
    ) -> None:
        super().__init__(clock, backend, model, ledger, costs, on_event)
        self._orders: dict[TurnId, _Order] = {}

    # -- where KV is ------------------------------------------------------------------------------------------------

    def swap_out(self, turn: LiveTurn, now: float, reason: Reason, author: str = GOVERNOR) -> bool:
        """Move to the host pool; False: no room there, nothing changed. The copy is booked when it is over."""
        self.land()
        self.ledger.close_interval(turn, now)
        moved = self.backend.swap_out(turn.id)
        if moved is None:
            return False
        self._waste(turn)
        self.move_tier(turn, now, Tier.HOST, _by_itself(reason, author))
        tokens = self.backend.holding(turn.id).kv_tokens
        self._order(turn, _Order(EventKind.SWAP_OUT, tokens, author, f"{turn.agent} to host: {reason}"), moved)
        return True

    def swap_in(self, turn: LiveTurn, now: float, ahead: bool = False) -> bool:
        """Bring the host copy back, `ahead` of its slot; False: no room, or the copy was unusable and the turn is
        dropped now."""
        self.land()
        self.ledger.close_interval(turn, now)
        try:
            moved = self.backend.swap_in(turn.id)
        except CorruptCopy as error:
            self._orders.pop(turn.id, None)
            self._lose(turn, now, str(error))
            return False
        if moved is None:
            return False
        self.move_tier(turn, now, Tier.RESIDENT)
        text = f"{turn.agent} back from host" + (", ahead of its slot" if ahead else "")
        tokens = self.backend.holding(turn.id).kv_tokens
        self._order(turn, _Order(EventKind.SWAP_IN, tokens, GOVERNOR, text, ahead), moved)
        return True

    def _order(self, turn: LiveTurn, order: _Order, moved: Moved) -> None:
        self._orders.pop(turn.id, None)
        if not moved.nbytes:
            where = "stays here" if order.kind is EventKind.SWAP_IN else "stays in the host pool"
            self.event(EventKind.ENGINE, order.author, f"{turn.agent} {where}: its copy was still under way", turn)
        elif moved.seconds is None:
            self._orders[turn.id] = order
        else:
            self._book_copy(turn, order, moved.nbytes, moved.seconds, moved.seconds)

    def land(self) -> None:
        """Book the copies that are over."""
        if not self._orders:
            return
        landed = self.backend.landed()
        for turn_id in self._orders:
            self.ledger.changed(self.ledger.turns[turn_id])
        for one in landed:
            order = self._orders.pop(one.turn, None)
            if order is None:
                continue
            turn = self.ledger.turns[one.turn]
            if one.error is None:
                self._book_copy(turn, order, one.nbytes, one.seconds, one.waited_s)
            else:
                self._lose(turn, self.clock.now(), one.error)

    def settle(self) -> None:
        """Let the copies under way end, and book them."""
        self.backend.settle()
        self.land()

    @property
    def copying(self) -> bool:
        """Copies were under way when it was looked last."""
        return bool(self._orders)

    def _book_copy(self, turn: LiveTurn, order: _Order, nbytes: int, seconds: float, waited_s: float) -> None:
        """`waited_s` of its `seconds` the engine stood still."""
        self.book_move(order.kind, turn, order.tokens, nbytes, seconds)
        self.count(swap_seconds=seconds, waited_seconds=waited_s, hidden_seconds=seconds - waited_s)
        if order.kind is EventKind.SWAP_OUT:
            turn.swaps += 1
            self.count(swaps_out=1, swap_out_bytes=nbytes)
            rate = _blend(self.costs.swap_out_bytes_per_s, nbytes, seconds)
            self.costs = dataclasses.replace(self.costs, swap_out_bytes_per_s=rate)
        else:
            self.count(swaps_in=1, swap_in_bytes=nbytes)
            rate = _blend(self.costs.swap_in_bytes_per_s, nbytes, seconds)
            self.costs = dataclasses.replace(self.costs, swap_in_bytes_per_s=rate)
        if order.ahead:
            turn.ahead = not turn.phase.running
            self.count(prefetches=1, prefetched_bytes=nbytes)
        self.event(order.kind, order.author, order.text, turn, nbytes=nbytes, seconds=seconds)

    def _lose(self, turn: LiveTurn, now: float, error: str) -> None:
        """Its copy was unusable and the backend has dropped it."""
        self.end_recompute(turn)
        self.ledger.changed(turn)
        if turn.phase.running:
            self.ledger.move(turn, now, phase=Phase.PREFILL)
        self.move_tier(turn, now, Tier.DROPPED)
        self.count(drops=1)
        self.event(EventKind.DROP, "engine", f"{turn.agent} must be recomputed: {error}", turn)

    def _waste(self, turn: LiveTurn) -> None:
        """What was brought back ahead of its slot leaves without having had one."""
        if turn.ahead:
            turn.ahead = False
            self.count(prefetches_wasted=1)

    def drop(self, turn: LiveTurn, now: float, reason: Reason, author: str = GOVERNOR) -> None:
        """Throw the KV away; on return the turn is prefilled again."""
        self.land()
        self._orders.pop(turn.id, None)
        self._waste(turn)
        self.ledger.close_interval(turn, now)
        self.end_recompute(turn)
        tokens = self.backend.holding(turn.id).kv_tokens
        self.backend.drop(turn.id)
        self.ledger.changed(turn)
        self.move_tier(turn, now, Tier.DROPPED if tokens else Tier.NONE, _by_itself(reason, author))
        self.count(drops=1)
        self.event(
            EventKind.DROP, author, f"{turn.agent} dropped, {counted(tokens, 'token')} to recompute: {reason}", turn
        )

    def preempt(self, turn: LiveTurn, now: float, why: str, author: str = GOVERNOR) -> None:
        """Take the slot; the KV stays where it is."""
        self.ledger.move(turn, now, phase=Phase.PAUSED)
        turn.preemptions += 1
        turn.last_token_at = None
        self.count(preemptions=1)
        self.event(EventKind.PREEMPT, author, f"{turn.agent} preempted {why}", turn)

    # -- tools ------------------------------------------------------------------------------------------------------

    def block(self, turn: LiveTurn, now: float, tool: str, author: str) -> None:
        """Generation stops here and waits on a tool."""
        self.ledger.move(turn, now, phase=Phase.BLOCKED, tool=tool)
        held = self.backend.holding(turn.id)
        nbytes = held.host_bytes or held.blocks * self.backend.block_bytes_at(self.backend.kv_dtype)
        self.waits.began(turn.id, tool, self.costs.round_trip_s(nbytes))
        text = turn.output.flush()
        self.event(EventKind.BLOCK, author, f"{turn.agent} waits on {tool}", turn)
        self.tell(turn, (), text, Finish.TOOL)

    def unblock(self, turn: LiveTurn, now: float) -> None:
        """Its result is there, and it wants a slot, if the operator does not hold it."""
        self.waits.ended(turn.id, now - turn.phase_since, now, here=turn.tier is Tier.RESIDENT)
        if turn.held:
            self.waits.held(turn.id)
        self.ledger.move(turn, now, phase=Phase.PAUSED if turn.held else Phase.WAITING)

    # -- ends -------------------------------------------------------------------------------------------------------

    def end(self, turn: LiveTurn, now: float, phase: Phase, finish: Finish, error: str | None = None) -> None:
        """Finish, fail or cancel: free all that it holds, then tell its client."""
        self.land()
        self._orders.pop(turn.id, None)
        self._waste(turn)
        self.ledger.close_interval(turn, now)
        self.end_recompute(turn)
        self.waits.over(turn.id)
        self.backend.close(turn.id)
        self.ledger.forget(turn, now, phase)
        self.count(**{{Phase.DONE: "finished", Phase.FAILED: "failed", Phase.CANCELLED: "cancelled"}[phase]: 1})
        self.tell(turn, (), turn.output.flush() if phase is Phase.DONE else "", finish, error)

    def tell(
        self,
        turn: LiveTurn,
        tokens: tuple[int, ...],
        text: str,
        finish: Finish | None = None,
        error: str | None = None,
    ) -> None:
        """Hand an update to the turn's client. A listener that raises loses its turn's updates, nothing else."""
        if turn.listener is None:
            return
        update = TurnUpdate(turn.id, tokens, text, turn.phase, len(turn.tokens), finish, error)
        try:
            turn.listener(update)
        except BaseException as fault:  # noqa: BLE001 -- a client's code must never stop the engine
            turn.listener = None
            self.event(
                EventKind.ENGINE, "engine", f"{turn.agent}: its listener failed ({fault!r}) and is cut off", turn
            )


def core_over(
    body: Body,
    clock: EngineClock,
    knobs: Knobs,
    on_event: Callable[[Event], None],
    on_interval: Callable[[Interval], None],
) -> Core:
    """A core over an opened body; precision, host pool and overlap of `knobs` are set to what the body really has.
    Whether a modelled card's copies overlap is its own to say."""
    backend = body.backend
    if body.clock is None and backend.can_overlap:
        backend.set_overlap(knobs.overlap_copies)
    pool = backend.memory().host_total_bytes
    knobs = dataclasses.replace(knobs, kv_dtype=backend.kv_dtype, host_pool_bytes=pool, overlap_copies=backend.overlap)
    ledger = Ledger(clock, body.backend, on_interval, knobs, body.card.factor if body.card else 1.0)
    core = Core(clock, body.backend, body.model, ledger, body.costs, on_event)
    core.live_card = body.live_card
    return core


def _by_itself(reason: Reason, author: str) -> bool:
    """A switch of precision is an operator's doing, though the policy chooses whom it moves."""
    return author == GOVERNOR and reason is not Reason.PRECISION


def _blend(rate: float, nbytes: int, seconds: float) -> float:
    if seconds <= 0 or nbytes <= 0:
        return rate
    return (1 - COST_WEIGHT) * rate + COST_WEIGHT * nbytes / seconds
