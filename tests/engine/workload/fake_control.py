"""A Control in virtual time: a step-based engine with slots, a prefill rate and a decode step, no model behind it."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

from engine.control import Listener, Unblock
from engine.costs import Costs
from engine.errors import Refused, UnknownTurn
from engine.events import Event, EventKind, MoveCost
from engine.knobs import Knobs
from engine.models.loaded import LoadedModel
from engine.snapshot import HostState, Sample, Snapshot, TurnDetail
from engine.turn import Finish, Phase, Priority, TurnId, TurnRequest, TurnUpdate
from engine.workload.player import Player


class WordEncoder:
    """Every word and every run between words is a token; ids are a stable function of the text."""

    def encode(self, text: str, add_bos: bool | None = None) -> list[int]:
        return [len(word) % 50 for word in text.split()]


def fake_model(max_context: int = 8192) -> LoadedModel:
    return cast(LoadedModel, SimpleNamespace(tokenizer=WordEncoder(), max_context=max_context))


@dataclass
class FakeTurn:
    id: TurnId
    request: TurnRequest
    listener: Listener | None
    pending: int
    context: int
    left: int
    then_block: str | None
    phase: Phase = Phase.WAITING
    blocked_at: float | None = None
    live_at: float = 0.0
    ended_at: float | None = None
    blocked_s: float = 0.0


@dataclass
class FakeControl:
    """`step_s(running)`: seconds of a decode step; prefill adds tokens / `prefill_rate`. `refuse(request)` may return
    a sentence; `unblock_refusal` refuses every return."""

    slots: int = 8
    step_s: Callable[[int], float] = lambda running: 1 / 15
    prefill_rate: float = 500.0
    chunk: int = 256
    costs: Costs | None = None
    model: LoadedModel | None = field(default_factory=fake_model)
    refuse: Callable[[TurnRequest], str | None] = lambda request: None
    unblock_refusal: str | None = None
    now: float = 0.0
    turns: dict[TurnId, FakeTurn] = field(default_factory=dict)
    ended: list[FakeTurn] = field(default_factory=list)
    submitted: list[TurnRequest] = field(default_factory=list)
    unblocked: list[tuple[float, Unblock]] = field(default_factory=list)
    cancelled: list[TurnId] = field(default_factory=list)
    queue: deque[FakeTurn] = field(default_factory=deque)
    noted: list[tuple[str, str, EventKind]] = field(default_factory=list)
    context_seconds: float = 0.0
    turn_seconds: float = 0.0
    busy_slot_seconds: float = 0.0

    @property
    def snapshot(self) -> Snapshot:
        return Snapshot("s", HostState.RUNNING, self.now, self.now, 0, "fake", "fake", Knobs(), (), costs=self.costs)

    def submit(self, request: TurnRequest, listener: Listener | None = None, author: str = "api") -> "Future[TurnId]":
        future: Future[TurnId] = Future()
        self.submitted.append(request)
        if sentence := self.refuse(request):
            future.set_exception(Refused(sentence))
            return future
        size = len(request.prompt)
        turn = FakeTurn(
            TurnId(len(self.submitted)), request, listener, size, size, request.max_tokens, request.then_block
        )
        turn.live_at = self.now
        self.turns[turn.id] = turn
        self._enqueue(turn)
        future.set_result(turn.id)
        return future

    def unblock(self, result: Unblock, author: str = "api") -> "Future[str]":
        future: Future[str] = Future()
        turn = self.turns.get(result.turn)
        if turn is None or turn.phase is not Phase.BLOCKED or self.unblock_refusal:
            future.set_exception(UnknownTurn(self.unblock_refusal or f"turn {result.turn} is not blocked"))
            return future
        assert turn.blocked_at is not None
        self.unblocked.append((self.now - turn.blocked_at, result))
        turn.blocked_s += self.now - turn.blocked_at
        turn.pending, turn.left, turn.then_block = len(result.tokens), result.max_tokens, result.then_block
        turn.context += len(result.tokens)
        self._enqueue(turn)
        future.set_result("back")
        return future

    def cancel(self, turn: TurnId, author: str = "api") -> "Future[str]":
        future: Future[str] = Future()
        self.cancelled.append(turn)
        known = self.turns.get(turn)
        if known is None:
            future.set_exception(UnknownTurn(f"turn {turn} is not known"))
            return future
        self._end(known, Phase.CANCELLED, Finish.CANCELLED)
        future.set_result("cancelled")
        return future

    def fail(self, turn: TurnId, sentence: str) -> None:
        self._end(self.turns[turn], Phase.FAILED, Finish.ERROR, sentence)

    def step(self) -> float | None:
        """One engine step; seconds it took, None when nobody can run. Ends at `now` plus that."""
        running = [turn for turn in self.turns.values() if turn.phase.running]
        while self.queue and len(running) < self.slots:
            turn = self.queue.popleft()
            turn.phase = Phase.PREFILL
            running.append(turn)
        if not running:
            return None
        budget, prefilled = self.chunk, 0
        decoding = [turn for turn in running if turn.pending == 0]
        for turn in running:
            taken = min(turn.pending, budget)
            turn.pending -= taken
            budget -= taken
            prefilled += taken
        seconds = (self.step_s(len(decoding)) if decoding else 0.0) + prefilled / self.prefill_rate
        self._account(len(running), seconds)
        self.now += seconds
        for turn in decoding:
            self._decoded(turn)
        return seconds

    def _account(self, running: int, seconds: float) -> None:
        self.busy_slot_seconds += running * seconds
        self.turn_seconds += len(self.turns) * seconds
        self.context_seconds += sum(turn.context - turn.pending for turn in self.turns.values()) * seconds

    def _decoded(self, turn: FakeTurn) -> None:
        turn.left -= 1
        turn.context += 1
        if turn.left > 0:
            self._tell(turn, Phase.DECODE, None)
        elif turn.then_block is not None:
            turn.phase, turn.blocked_at = Phase.BLOCKED, self.now
            self._tell(turn, Phase.BLOCKED, Finish.TOOL)
        else:
            self._end(turn, Phase.DONE, Finish.LENGTH)

    def _end(self, turn: FakeTurn, phase: Phase, finish: Finish, error: str | None = None) -> None:
        if turn.phase is Phase.BLOCKED and turn.blocked_at is not None:
            turn.blocked_s += self.now - turn.blocked_at
        turn.phase, turn.ended_at = phase, self.now
        del self.turns[turn.id]
        if turn in self.queue:
            self.queue.remove(turn)
        self.ended.append(replace(turn))
        self._tell(turn, phase, finish, error)

    def _enqueue(self, turn: FakeTurn) -> None:
        turn.phase = Phase.WAITING
        if turn.request.priority is Priority.FOREGROUND:
            self.queue.appendleft(turn)
        else:
            self.queue.append(turn)

    def _tell(self, turn: FakeTurn, phase: Phase, finish: Finish | None, error: str | None = None) -> None:
        if turn.listener is not None:
            turn.listener(TurnUpdate(turn.id, (1,), "x", phase, turn.context, finish, error))

    def moves(self) -> Sequence[MoveCost]:
        return ()

    def samples(self, since: float = float("-inf")) -> Sequence[Sample]:
        return ()

    def events(self) -> Sequence[Event]:
        return ()

    def block(self, turn: TurnId, tool: str, author: str = "api") -> "Future[str]":
        future: Future[str] = Future()
        known = self.turns[turn]
        known.phase, known.blocked_at = Phase.BLOCKED, self.now
        self._tell(known, Phase.BLOCKED, Finish.TOOL)
        future.set_result("blocked")
        return future

    def pause(self, turn: TurnId, author: str = "api") -> "Future[str]":
        raise AssertionError("the swarm pauses nothing")

    resume = swap_out = drop = pause

    def set_knobs(self, changes: Mapping[str, object], author: str = "api") -> "Future[Knobs]":
        raise AssertionError("the swarm turns no knobs")

    def probe(self, probe: object, session: str) -> "Future[Any]":
        raise NotImplementedError

    def turn_detail(self, turn: TurnId) -> "Future[TurnDetail]":
        raise NotImplementedError

    def note(self, text: str, author: str = "api", kind: EventKind = EventKind.SWARM) -> "Future[None]":
        self.noted.append((text, author, kind))
        future: Future[None] = Future()
        future.set_result(None)
        return future

    def restart(self, model: str | None = None, backend: str | None = None, author: str = "api") -> None:
        raise AssertionError("the swarm restarts nothing")


def play(player: Player, control: FakeControl, seconds: float, each: Callable[[], Any] = lambda: None) -> None:
    """Runs player and engine together for `seconds` of virtual time."""
    end = control.now + seconds
    while control.now < end:
        due = player.advance(control.now)
        each()
        if control.step() is None:
            control_due = end if due is None else min(due, end)
            control._account(0, control_due - control.now)
            control.now = max(control_due, control.now)
    player.advance(control.now)
