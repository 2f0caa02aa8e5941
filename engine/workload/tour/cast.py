"""The tour's agents: each takes one turn after the other, so that the slots stay full while somebody reads."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue

from engine.control import Control, Unblock
from engine.errors import ParkdeckError
from engine.snapshot import Snapshot, TurnRow
from engine.turn import Finish, Phase, Sampling, TurnId, TurnRequest, TurnUpdate
from engine.workload.text import PromptSource
from engine.workload.tour.sizes import Sizes

AUTHOR = "tour"
SEED = 7


@dataclass(slots=True)
class Member:
    """One agent. `held`: paused by the tour; `blocked`: on a tool; either keeps its turn and wants no slot. `spoke`:
    it has had a first token; `answered_at`: when the first token after a tool's result came, on the cast's clock."""

    number: int
    turn: TurnId | None = None
    asked: "Future[TurnId] | None" = None
    taken: int = 0
    held: bool = False
    blocked: bool = False
    returned: bool = False
    spoke: bool = False
    answered_at: float | None = None

    @property
    def name(self) -> str:
        return f"tour {self.number}"

    @property
    def active(self) -> bool:
        return not (self.held or self.blocked)


@dataclass(slots=True)
class Cast:
    """Drive it from one thread: `advance` does what the updates ask for. `wake` is called, on the engine's thread, when
    there is something to do. `problem`: the latest refusal or failure of a turn, one sentence."""

    control: Control
    source: PromptSource
    sizes: Sizes
    clock: Callable[[], float]
    wake: Callable[[], None]
    members: list[Member] = field(default_factory=list)
    problem: str = ""
    closed: bool = False
    _heard: "SimpleQueue[tuple[Member, TurnUpdate, float]]" = field(default_factory=SimpleQueue)

    def advance(self) -> None:
        """Takes in what was heard; agents without a turn take their next, and newcomers come while slots lack one."""
        for member in self.members:
            self._settle(member)
        for _ in range(self._heard.qsize()):
            self._take_in(*self._heard.get())
        if self.closed:
            return
        while sum(member.active for member in self.members) < self.sizes.slots:
            self.members.append(Member(len(self.members) + 1))
        for member in self.members:
            if member.turn is None and member.asked is None and not self.problem:
                self._submit(member)

    def rows(self, snapshot: Snapshot) -> list[tuple[Member, TurnRow]]:
        """Its turns as the snapshot shows them, by number."""
        shown = {row.id: row for row in snapshot.turns}
        return [(m, shown[m.turn]) for m in self.members if m.turn is not None and m.turn in shown]

    def turns(self) -> set[TurnId]:
        return {member.turn for member in self.members if member.turn is not None}

    def named(self, turn: TurnId | None) -> Member | None:
        return next((m for m in self.members if turn is not None and m.turn == turn), None)

    def running(self, snapshot: Snapshot) -> int:
        return sum(row.phase.running for _, row in self.rows(snapshot))

    def all_spoke(self) -> bool:
        return all(member.spoke for member in self.members)

    def decoding(self, snapshot: Snapshot, left: int) -> Iterator[tuple[Member, TurnRow]]:
        """Active agents in decode that still have `left` tokens to generate."""
        for member, row in self.rows(snapshot):
            fresh = not member.returned and row.generated_tokens <= self.sizes.output - left
            if member.active and row.phase is Phase.DECODE and fresh:
                yield member, row

    def tool_result(self, member: Member, count: int) -> Unblock:
        assert member.turn is not None
        tokens = self.source.cut(f"{member.name}/{member.taken}/tool", count)
        member.returned, member.blocked, member.answered_at = True, False, None
        return Unblock(member.turn, tokens, max_tokens=count)

    def cancel_all(self) -> "list[Future[str]]":
        """Also turns whose submission is still under way. No agent takes another turn."""
        self.closed = True
        for member in self.members:
            self._settle(member)
            if member.asked is not None:
                member.asked.add_done_callback(self._cancel_late)
        return [self.control.cancel(turn, AUTHOR) for turn in self.turns()]

    def _submit(self, member: Member) -> None:
        member.taken += 1
        member.held = member.blocked = member.returned = False
        try:
            prompt = self.source.cut(f"{member.name}/{member.taken}", self.sizes.prompt)
        except ParkdeckError as error:
            self.problem = str(error)
            return
        request = TurnRequest(
            member.name, prompt, max_tokens=self.sizes.output, sampling=Sampling(seed=SEED), ignore_eos=True
        )
        member.asked = self.control.submit(request, partial(self._listen, member), AUTHOR)
        member.asked.add_done_callback(lambda _: self.wake())

    def _settle(self, member: Member) -> None:
        """The answer to a submission, once it is there."""
        asked = member.asked
        if asked is None or not asked.done():
            return
        member.asked = None
        error = _error(asked)
        if error:
            self.problem = self.problem or error
        else:
            member.turn = asked.result()

    def _cancel_late(self, asked: "Future[TurnId]") -> None:
        if not _error(asked):
            self.control.cancel(asked.result(), AUTHOR)

    def _listen(self, member: Member, update: TurnUpdate) -> None:
        """On the engine's thread."""
        first = update.tokens and (not member.spoke or (member.returned and member.answered_at is None))
        if first or update.finish is not None:
            self._heard.put((member, update, self.clock()))
            self.wake()

    def _take_in(self, member: Member, update: TurnUpdate, at: float) -> None:
        # What a turn says comes after the answer to its submission.
        self._settle(member)
        if update.tokens:
            member.spoke = True
            if member.returned and member.answered_at is None:
                member.answered_at = at
        if update.finish in (None, Finish.TOOL):
            return
        if update.finish is Finish.ERROR and not self.closed:
            self.problem = update.error or "a turn of the tour failed"
        if member.turn == update.turn:
            member.turn = None


def _error(asked: "Future[TurnId]") -> str:
    if asked.cancelled():
        return "the engine dropped the request; it was stopped or restarted"
    error = asked.exception()
    return "" if error is None else str(error) or type(error).__name__
