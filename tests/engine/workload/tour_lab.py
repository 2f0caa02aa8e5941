"""A Control over an engine on a virtual clock, for the tour: every command is carried out at once, and the tour and the
engine take turns."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np

from engine.control import Listener, Unblock
from engine.errors import ParkdeckError, Refused
from engine.events import Event
from engine.knobs import Knobs
from engine.models.loaded import LoadedModel
from engine.publish import Publisher
from engine.snapshot import HostState, Snapshot
from engine.turn import TurnId, TurnRequest
from engine.workload.tour.player import Player
from engine.workload.tour.state import Phase, Status
from tests.engine.backends.fake_executor import VOCAB, FakeExecutor
from tests.engine.lab import Lab
from tests.engine.workload.fake_control import fake_model

ARENA = 7808
ROUNDS = 6000
OWNER = "tab"


class QuickExecutor(FakeExecutor):
    """Its tokens depend on the count alone, so that long turns cost a test nothing."""

    def rows(self, rows: Any, arena: Any) -> np.ndarray:
        return np.stack([_logits(int(position)) for position in rows.positions])

    def prefill(self, tokens: np.ndarray, start: int, table: Any, arena: Any, last: bool) -> np.ndarray | None:
        return _logits(start + len(tokens)) if last else None


def _logits(count: int) -> np.ndarray:
    return np.eye(VOCAB, dtype=np.float32)[count % VOCAB]


class LabControl:
    """`swarm_turns`: what a swarm has in the engine; `stop_swarm` cancels them."""

    def __init__(self, arena: int = ARENA, host: int = 6 * ARENA, knobs: Knobs | None = None) -> None:
        self.lab = Lab(arena, host, knobs, QuickExecutor())
        self.model: LoadedModel | None = fake_model(2048)
        self.session = "first"
        self.state = HostState.RUNNING
        self.stalled: str | None = None
        self.stopped = 0
        self.swarm_turns: list[TurnId] = []
        self.authors: set[str] = set()
        self.refuse: Callable[[str, Any], str | None] = lambda verb, value: None
        self._publisher()

    def _publisher(self) -> None:
        self.publisher = Publisher(self.session, self.lab.core, None, 768, lambda sample: None)

    @property
    def now(self) -> float:
        return self.lab.clock.now()

    @property
    def snapshot(self) -> Snapshot:
        shown = self.publisher.snapshot(self.state, self.stalled, 0)
        return shown if self.state.serving else dataclasses.replace(shown, turns=(), bands=None, memory=None)

    def events(self) -> Sequence[Event]:
        return tuple(self.lab.core.events)

    def submit(self, request: TurnRequest, listener: Listener | None = None, author: str = "api") -> "Future[TurnId]":
        now = self.lab.clock.now()
        return self._do("submit", author, request, lambda: self.lab.commands.submit(request, listener, author, now))

    def pause(self, turn: TurnId, author: str = "api") -> "Future[str]":
        return self._do("pause", author, turn, lambda: self.lab.commands.pause(turn, author))

    def resume(self, turn: TurnId, author: str = "api") -> "Future[str]":
        return self._do("resume", author, turn, lambda: self.lab.commands.resume(turn, author))

    def block(self, turn: TurnId, tool: str, author: str = "api") -> "Future[str]":
        return self._do("block", author, turn, lambda: self.lab.commands.block(turn, tool, author))

    def unblock(self, result: Unblock, author: str = "api") -> "Future[str]":
        now = self.lab.clock.now()
        return self._do("unblock", author, result, lambda: self.lab.commands.unblock(result, author, now))

    def cancel(self, turn: TurnId, author: str = "api") -> "Future[str]":
        return self._do("cancel", author, turn, lambda: self.lab.commands.cancel(turn, author))

    def set_knobs(self, changes: Mapping[str, object], author: str = "api") -> "Future[Knobs]":
        return self._do("set_knobs", author, changes, lambda: self.lab.commands.set_knobs(changes, author))

    def note(self, text: str, author: str = "api") -> "Future[None]":
        return self._do("note", author, text, lambda: self.lab.commands.note(text, author))

    def stop_swarm(self) -> bool:
        self.stopped += 1
        played = bool(self.swarm_turns)
        for turn in self.swarm_turns:
            if turn in self.lab.core.ledger.turns:
                self.cancel(turn, "swarm")
        self.swarm_turns = []
        return played

    def play_swarm(self, count: int = 10) -> None:
        self.swarm_turns = [self.lab.ask(600, 500, salt=i, agent=f"agent {i}") for i in range(count)]
        self.lab.ticks(20)

    def restart(self) -> None:
        """Another life of the engine: its turns are gone, the knobs stay."""
        for turn in list(self.lab.core.ledger.turns):
            self.lab.commands.cancel(turn, "engine")
        self.session = "second"
        self._publisher()

    def _do(self, verb: str, author: str, value: Any, act: Callable[[], Any]) -> "Future[Any]":
        self.authors.add(author)
        future: Future[Any] = Future()
        refusal = self.refuse(verb, value)
        try:
            if refusal:
                raise Refused(refusal)
            future.set_result(act())
        except ParkdeckError as error:
            future.set_exception(error)
        return future


class Visit:
    """A visitor on the tour: every verb goes on until the engine has shown what came of it."""

    def __init__(self, control: LabControl) -> None:
        self.control = control
        self.player = Player(control, control.stop_swarm, control.lab.clock.now, lambda: None, OWNER)  # type: ignore[arg-type]

    def rounds(self, done: Callable[[], bool]) -> None:
        for _ in range(ROUNDS):
            self.player.advance()
            if done():
                return
            self.control.lab.tick()
        raise AssertionError(f"it never came: {self.player.state}")

    def walk(self, count: int) -> list[str]:
        """That many steps, each seen; what was said, one for each."""
        return [self.seen() for _ in range(count)]

    def seen(self) -> str:
        status, said = self.step()
        assert status is Status.SEEN, said
        return said

    def step(self) -> tuple[Status, str]:
        """The present step done, then on to the next."""
        place = self.player.state.step
        self.player.act()
        self.rounds(lambda: self.player.state.steps[place].status in (Status.SEEN, Status.UNSEEN))
        self.player.next()
        done = self.player.state.steps[place]
        return done.status, done.said

    def leave(self) -> str:
        self.player.end()
        return self.ended()

    def ended(self) -> str:
        self.rounds(lambda: self.player.over)
        assert self.player.state.phase is Phase.OVER
        return self.player.state.note
