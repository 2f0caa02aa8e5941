"""The state of a running engine and the few acts that change where a turn's KV is. Owned by the host's thread.

commands.py (operators and agents) and loop.py (the governor's decisions) both act through this, so that each act has
one place where it is booked: ledger, counters, event.
"""

import dataclasses
from collections import deque
from collections.abc import Callable

from engine.backends.base import Backend, Converted, Moved
from engine.body import Body
from engine.clock import EngineClock
from engine.costs import Costs
from engine.errors import CorruptCopy
from engine.event_log import EventLog
from engine.events import Event, EventKind, Interval, MoveCost
from engine.knobs import Knobs
from engine.ledger import Ledger, LiveTurn
from engine.live_card import LiveCard
from engine.models.loaded import ServedModel
from engine.snapshot import Counters
from engine.stats import Stats
from engine.thrash import Telling, undone
from engine.turn import Finish, Phase, Tier, TurnUpdate
from engine.view import Reason, View
from engine.waits import WaitBook
from engine.words import counted, mib, took

MOVES_KEPT = 5_000
GOVERNOR = "governor"
COST_WEIGHT = 0.2


class Core:
    """`on_event` takes each event as it happens (the recorder's copy). `step`: steps taken so far. `evicting`: the
    governor's hysteresis state, between two boundaries. `converted`: the last switch of precision, None before one.
    `live_card`: of a twin that a host runs."""

    def __init__(
        self,
        clock: EngineClock,
        backend: Backend,
        model: ServedModel | None,
        ledger: Ledger,
        costs: Costs,
        on_event: Callable[[Event], None],
    ) -> None:
        self.clock = clock
        self.backend = backend
        self.model = model
        self.ledger = ledger
        self.costs = costs
        self.stats = Stats(clock.now())
        self.counters = Counters()
        self.step = 0
        self.evicting = False
        self.converted: Converted | None = None
        self.live_card: LiveCard | None = None
        self.events = EventLog()
        self.moves: deque[MoveCost] = deque(maxlen=MOVES_KEPT)
        self.waits = WaitBook()
        self._on_event = on_event
        self._warning: str | None = None
        self._telling = Telling()

    @property
    def knobs(self) -> Knobs:
        return self.ledger.knobs

    def mib(self, nbytes: int) -> str:
        return mib(nbytes, twin=self.backend.name == "twin")

    def view(self, evicting: bool | None = None) -> View:
        """What the governor sees now; `evicting` None: as it left it."""
        return self.ledger.view(self.evicting if evicting is None else evicting, self.waits.waits)

    def count(self, **deltas: float) -> None:
        """Add to counters by name; deltas are never negative."""
        self.counters = dataclasses.replace(
            self.counters, **{name: getattr(self.counters, name) + delta for name, delta in deltas.items()}
        )

    def event(
        self,
        kind: EventKind,
        author: str,
        text: str,
        turn: LiveTurn | None = None,
        *,
        name: str | None = None,
        old: str | None = None,
        new: str | None = None,
        nbytes: int | None = None,
        seconds: float | None = None,
        at: float | None = None,
    ) -> None:
        """`at`: engine clock; None: now."""
        at = self.clock.now() if at is None else at
        event = Event(
            at=at,
            utc=self.clock.utc(at),
            step=self.step,
            kind=kind,
            author=author,
            text=text,
            turn=turn.id if turn else None,
            agent=turn.agent if turn else None,
            name=name,
            old=old,
            new=new,
            nbytes=nbytes,
            seconds=seconds,
        )
        self.events.append(event)
        self._on_event(event)

    def note_warning(self, warning: str | None) -> str | None:
        """The backend's warning as it is now; each new one is an event."""
        if warning and warning != self._warning:
            self.event(EventKind.ENGINE, "engine", warning)
        self._warning = warning
        return warning

    # -- where KV is ------------------------------------------------------------------------------------------------

    def swap_out(self, turn: LiveTurn, now: float, reason: Reason, author: str = GOVERNOR) -> bool:
        """Move to the host pool; False: no room there, nothing changed."""
        self.ledger.close_interval(turn, now)
        moved = self.backend.swap_out(turn.id)
        if moved is None:
            return False
        self._book(EventKind.SWAP_OUT, turn, self.backend.holding(turn.id).kv_tokens, moved)
        self.move_tier(turn, now, Tier.HOST, _by_itself(reason, author))
        turn.swaps += 1
        self.count(swaps_out=1, swap_out_bytes=moved.nbytes, swap_seconds=moved.seconds)
        self.costs = dataclasses.replace(
            self.costs, swap_out_bytes_per_s=_blend(self.costs.swap_out_bytes_per_s, moved)
        )
        self.event(
            EventKind.SWAP_OUT,
            author,
            f"{turn.agent} to host: {reason}",
            turn,
            nbytes=moved.nbytes,
            seconds=moved.seconds,
        )
        return True

    def swap_in(self, turn: LiveTurn, now: float) -> bool:
        """Bring the host copy back; False: no room, or the copy was unusable and the turn is dropped now."""
        self.ledger.close_interval(turn, now)
        try:
            moved = self.backend.swap_in(turn.id)
        except CorruptCopy as error:
            self.end_recompute(turn)
            self.move_tier(turn, now, Tier.DROPPED)
            self.count(drops=1)
            self.event(EventKind.DROP, "engine", f"{turn.agent} must be recomputed: {error}", turn)
            return False
        if moved is None:
            return False
        self._book(EventKind.SWAP_IN, turn, self.backend.holding(turn.id).kv_tokens, moved)
        self.move_tier(turn, now, Tier.RESIDENT)
        self.count(swaps_in=1, swap_in_bytes=moved.nbytes, swap_seconds=moved.seconds)
        self.costs = dataclasses.replace(self.costs, swap_in_bytes_per_s=_blend(self.costs.swap_in_bytes_per_s, moved))
        self.event(
            EventKind.SWAP_IN,
            GOVERNOR,
            f"{turn.agent} back from host",
            turn,
            nbytes=moved.nbytes,
            seconds=moved.seconds,
        )
        return True

    def drop(self, turn: LiveTurn, now: float, reason: Reason, author: str = GOVERNOR) -> None:
        """Throw the KV away; on return the turn is prefilled again."""
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

    def move_tier(self, turn: LiveTurn, now: float, tier: Tier, by_itself: bool = True) -> None:
        """Its KV is somewhere else now. `by_itself`: no operator asked for it."""
        old, resident = turn.tier, tier is Tier.RESIDENT
        what = undone(old, tier, now - turn.tier_since, turn.back, by_itself and turn.moved_by_itself)
        since = turn.tier_since
        self.ledger.move(turn, now, tier=tier)
        turn.moved_by_itself = by_itself
        turn.back = resident and (turn.back or old is not Tier.NONE)
        if not what:
            return
        self.count(thrashes=1)
        if (count := self._telling.note(now)) is not None:
            more = f", {counted(count, 'such move')} since the last event" if count > 1 else ""
            text = f"thrash: {turn.agent} {what.format(took(turn.tier_since - since))}{more}"
            self.event(EventKind.THRASH, "engine", text, turn)

    def recompute(self, turn: LiveTurn, tokens: int, seconds: float, whole: bool) -> None:
        """A step of `seconds` computed `tokens` of the turn's context again; `whole`: that was the last of it."""
        turn.recomputed += tokens
        turn.again_tokens += tokens
        turn.again_s += seconds
        self.count(recomputed_tokens=tokens)
        if whole:
            self.end_recompute(turn)

    def end_recompute(self, turn: LiveTurn) -> None:
        """Book what the recompute under way has computed, if there is one."""
        tokens, seconds = turn.again_tokens, turn.again_s
        if not tokens:
            return
        turn.again_tokens, turn.again_s = 0, 0.0
        self._book(EventKind.RECOMPUTE, turn, tokens, Moved(0, seconds))
        text = f"{turn.agent} recomputed {counted(tokens, 'token')} in {took(seconds)}"
        self.event(EventKind.RECOMPUTE, "engine", text, turn, seconds=seconds)

    def _book(self, kind: EventKind, turn: LiveTurn, tokens: int, moved: Moved) -> None:
        utc = self.clock.utc(self.clock.now())
        self.moves.append(MoveCost(kind, utc, turn.id, turn.agent, tokens, moved.nbytes, moved.seconds))
        turn.past.pay(kind, tokens, moved.nbytes, moved.seconds)

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
    """A core over an opened body; precision and host pool of `knobs` are set to what the body really has."""
    pool = body.backend.memory().host_total_bytes
    knobs = dataclasses.replace(knobs, kv_dtype=body.backend.kv_dtype, host_pool_bytes=pool)
    ledger = Ledger(clock, body.backend, on_interval, knobs, body.card.factor if body.card else 1.0)
    core = Core(clock, body.backend, body.model, ledger, body.costs, on_event)
    core.live_card = body.live_card
    return core


def _by_itself(reason: Reason, author: str) -> bool:
    """A switch of precision is an operator's doing, though the policy chooses whom it moves."""
    return author == GOVERNOR and reason is not Reason.PRECISION


def _blend(rate: float, moved: Moved) -> float:
    if moved.seconds <= 0 or moved.nbytes <= 0:
        return rate
    return (1 - COST_WEIGHT) * rate + COST_WEIGHT * moved.nbytes / moved.seconds
