"""What a step of the tour can do and see. Steps are generators: each `yield` lets a little time pass, and nothing in
them waits otherwise."""

from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from engine.control import Control
from engine.errors import ParkdeckError
from engine.events import Event, EventKind
from engine.knob_words import change
from engine.knobs import Knobs
from engine.snapshot import Counters, Snapshot, TurnRow
from engine.turn import Phase, Tier
from engine.words import counted, mib, took
from engine.workload.text import PromptSource
from engine.workload.tour.cast import AUTHOR, Cast, Member
from engine.workload.tour.sizes import Sizes

T = TypeVar("T")
Waiting = Generator[None, None, T]

PATIENCE_S = 45.0
CERTAIN_S = 8.0
ROUNDS = 4.0
LEFT_TOKENS = 6
LEAVING = (EventKind.SWAP_OUT, EventKind.DROP)


class NotSeen(Exception):
    """What a step waits for did not happen; the text says why, one sentence."""


class Stage:
    """One tour's: its cast, the knobs it has changed, and what it has seen. `snapshot` and `now` are those of the
    present round: a visitor's patience goes by `now`, what is told by the engine's clock, which a twin's pace changes.
    `events`: all of them since the step began, while it is played. `stop_swarm` ends the swarm, True when its agents
    played."""

    def __init__(
        self,
        control: Control,
        stop_swarm: Callable[[], bool],
        clock: Callable[[], float],
        wake: Callable[[], None],
    ) -> None:
        self.control = control
        self.clock = clock
        self.snapshot: Snapshot = control.snapshot
        self.session = self.snapshot.session
        self.now = clock()
        self.events: list[Event] = []
        self.before: Counters = self.snapshot.counters
        self.cast: Cast | None = None
        self.swarm_ran = False
        self.figures: dict[str, float] = {}
        self._last: Event | None = None
        self._playing = False
        self._changed: dict[str, tuple[object, object]] = {}
        self._stop_swarm = stop_swarm
        self._wake = wake

    # -- rounds -----------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """A new round: the latest snapshot, what happened since, and the cast's own doings."""
        self.snapshot, self.now = self.control.snapshot, self.clock()
        latest = self.snapshot.events
        known = next((i for i in range(len(latest) - 1, -1, -1) if latest[i] is self._last), -1)
        if self._playing:
            self.events += latest[known + 1 :]
        self._last = latest[-1] if latest else self._last
        if self.cast is not None:
            self.cast.advance()

    def begin(self) -> None:
        """A step begins: what counts is from now on."""
        self.look()
        self._playing = True
        self.before = self.snapshot.counters
        if self.cast is not None:
            self.cast.problem = ""

    def rest(self) -> None:
        """A step is over: what happens until the next one is nobody's, however long the visitor reads."""
        self._playing = False
        self.events = []

    def until(self, true: Callable[[], bool], what: str, why: Callable[[], str] = lambda: "") -> Waiting[None]:
        """Raises NotSeen with the reason when `what`, a few words, does not become true within a while; soon when
        there is a reason that time does not change: what `why` says, or a knob that somebody moved."""
        began = self.now
        while not true():
            waited = self.now - began
            if self.cast is not None and self.cast.problem:
                raise NotSeen(f"waited for {what}: {self.cast.problem}")
            lasting = (why() or self._moved_knob()) if waited > CERTAIN_S else ""
            if lasting or waited > self.patience_s:
                raise NotSeen(f"waited {took(waited)} for {what}: {lasting or self._reason()}")
            yield

    def answer(self, future: "Future[T]") -> Waiting[T]:
        """The answer to a command. Raises what it was refused with."""
        future.add_done_callback(lambda _: self._wake())
        while not future.done():
            yield
        return future.result()

    @property
    def patience_s(self) -> float:
        costs, sizes = self.snapshot.costs, self.cast.sizes if self.cast else None
        if costs is None or sizes is None:
            return PATIENCE_S
        return PATIENCE_S + ROUNDS * costs.recompute_s(sizes.slots * sizes.longest)

    # -- the cast ---------------------------------------------------------------------------------------------------

    @property
    def playing(self) -> Cast:
        if self.cast is None:
            raise NotSeen("the tour has no turns yet; go back to its first step")
        return self.cast

    def engage(self, source: PromptSource, sizes: Sizes) -> None:
        self.cast = Cast(self.control, source, sizes, lambda: self.control.now, self._wake)

    def end_swarm(self) -> bool:
        played = self._stop_swarm()
        self.swarm_ran = self.swarm_ran or played
        return played

    def parked(self, tier: Tier | None = None) -> list[tuple[Member, TurnRow]]:
        """Turns that the tour holds, all or those in one tier."""
        rows = self.playing.rows(self.snapshot)
        return [(m, row) for m, row in rows if m.held and row.held and tier in (None, row.tier)]

    def pause(self, resident: int, longest: bool = False, but: Member | None = None) -> Waiting[None]:
        """Pause running turns, the shortest first or the longest, until so many are held and resident, or one of the
        tour's has left since the step began."""
        while len(self.parked(Tier.RESIDENT)) < resident and self.first(LEAVING) is None:
            yield from self.until(lambda: bool(self._decoding(longest, but)), "a running turn to pause")
            found = self._decoding(longest, but)
            member, _ = (max if longest else min)(found, key=lambda pair: pair[1].context_tokens)
            if (yield from self._hold(member)):
                yield from self.until(partial(self._shown, member), f"{member.name} paused")
            else:
                yield

    def resume(self, member: Member) -> Waiting[None]:
        member.held = False
        assert member.turn is not None
        try:
            yield from self.answer(self.control.resume(member.turn, AUTHOR))
        except ParkdeckError:
            # Somebody was faster: it runs already, or it ended and its agent takes its next turn.
            return

    def first(self, kinds: tuple[EventKind, ...], agent: str | None = None) -> Event | None:
        """The first event of `kinds` since the step began of one of the tour's turns, or of one `agent`."""
        names = {agent} if agent else {member.name for member in self.playing.members}
        return next((e for e in self.events if e.kind in kinds and e.agent in names), None)

    def _decoding(self, longest: bool, but: Member | None) -> list[tuple[Member, TurnRow]]:
        """Those that may be paused now. The longest only if it is longer than those paused already, that it leaves
        and not they."""
        found = [pair for pair in self.playing.decoding(self.snapshot, LEFT_TOKENS) if pair[0] is not but]
        if longest:
            least = max((row.context_tokens for _, row in self.parked()), default=0)
            return [pair for pair in found if pair[1].context_tokens > least]
        half = self.playing.sizes.prompt + self.playing.sizes.output // 2
        return [pair for pair in found if pair[1].context_tokens <= half]

    def _hold(self, member: Member) -> Waiting[bool]:
        assert member.turn is not None
        member.held = True
        try:
            yield from self.answer(self.control.pause(member.turn, AUTHOR))
        except ParkdeckError:
            member.held = False
            return False
        return True

    def _shown(self, member: Member) -> bool:
        return not member.held or any(m is member for m, _ in self.parked())

    # -- knobs ------------------------------------------------------------------------------------------------------

    def set_knobs(self, changes: Mapping[str, object]) -> Waiting[list[str]]:
        """Sets those that differ, as one set, and remembers what they were. Returns each change in words. Raises
        Refused."""
        now = self.snapshot.knobs
        differ = {name: value for name, value in changes.items() if getattr(now, name) != value}
        done: Knobs = (yield from self.answer(self.control.set_knobs(differ, AUTHOR))) if differ else now
        for name in changes:
            old, mine = self._changed.get(name, (getattr(now, name), getattr(now, name)))
            # An operator's own change in between is what is put back.
            kept = old if mine == getattr(now, name) else getattr(now, name)
            self._changed[name] = kept, getattr(done, name)
        yield from self.until(lambda: self._in_force(differ), "the change of knobs")
        return [change(name, getattr(now, name), getattr(done, name)) for name in differ]

    def to_put_back(self, knobs: Knobs) -> dict[str, Any]:
        """What the tour changed and nobody has changed since."""
        return {
            name: old for name, (old, mine) in self._changed.items() if getattr(knobs, name) == mine and old != mine
        }

    def _in_force(self, changes: Mapping[str, object]) -> bool:
        return all(getattr(self.snapshot.knobs, name) == value for name, value in changes.items())

    # -- words ------------------------------------------------------------------------------------------------------

    def mib(self, nbytes: int) -> str:
        return mib(nbytes, twin=self.snapshot.twin)

    # -- reasons ----------------------------------------------------------------------------------------------------

    def _moved_knob(self) -> str:
        """'' or which knob of the tour's somebody has moved since."""
        for name, (_, mine) in self._changed.items():
            now = getattr(self.snapshot.knobs, name)
            if now != mine:
                return f"{change(name, mine, now)} was not the tour's doing; put it back"
        return ""

    def _reason(self) -> str:
        """Why something takes long, as far as the snapshot tells."""
        cast = self.cast
        if self.snapshot.stalled:
            return self.snapshot.stalled
        others = [row for row in self.snapshot.turns if cast is None or row.id not in cast.turns()]
        if others:
            return f"{counted(len(others), 'turn')} beside the tour's ({others[0].agent}) take slots and room; end them"
        by_hand = [row for row in self.snapshot.turns if row.held and not self._mine(row)]
        if by_hand:
            return f"{by_hand[0].agent} was paused by hand; resume it"
        return "the engine is busy; try again"

    def _mine(self, row: TurnRow) -> bool:
        member = self.cast.named(row.id) if self.cast else None
        return member is not None and member.held

    def full(self) -> bool:
        """Every slot runs a turn of the tour, and each of its agents has had a first token."""
        cast = self.playing
        return cast.running(self.snapshot) >= cast.sizes.slots and cast.all_spoke()

    def phase_of(self, member: Member) -> Phase | None:
        return next((row.phase for m, row in self.playing.rows(self.snapshot) if m is member), None)
