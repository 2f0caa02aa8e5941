"""What a running engine has on its books, and how it is booked: ledger, counters, events, costs of moves, known waits.
Owned by the host's thread."""

import dataclasses
from collections import deque
from collections.abc import Callable

from engine.backends.base import Backend, Converted
from engine.clock import EngineClock
from engine.costs import Costs
from engine.event_log import EventLog
from engine.events import Event, EventKind, MoveCost
from engine.knobs import Knobs
from engine.ledger import Ledger, LiveTurn
from engine.live_card import LiveCard
from engine.models.loaded import ServedModel
from engine.snapshot import Counters
from engine.stats import Stats
from engine.thrash import Telling, undone
from engine.turn import Tier
from engine.view import View
from engine.waits import WaitBook
from engine.words import counted, mib, took

MOVES_KEPT = 5_000


class Books:
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
        self.book_move(EventKind.RECOMPUTE, turn, tokens, 0, seconds)
        text = f"{turn.agent} recomputed {counted(tokens, 'token')} in {took(seconds)}"
        self.event(EventKind.RECOMPUTE, "engine", text, turn, seconds=seconds)

    def book_move(self, kind: EventKind, turn: LiveTurn, tokens: int, nbytes: int, seconds: float) -> None:
        utc = self.clock.utc(self.clock.now())
        self.moves.append(MoveCost(kind, utc, turn.id, turn.agent, tokens, nbytes, seconds))
        turn.past.pay(kind, tokens, nbytes, seconds)
