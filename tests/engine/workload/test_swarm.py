"""The swarm's thread, in real time, against an engine on another thread."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager

import pytest

from engine.control import Listener
from engine.errors import Refused
from engine.turn import Phase, Priority, TurnId, TurnRequest
from engine.workload.script import AgentScript, Round, ScriptedTurn, Workload
from engine.workload.swarm import Swarm
from tests.engine.workload.fake_control import FakeControl, fake_model

TURN = ScriptedTurn((Round(20, 5, "bash", 30), Round(5, 5, "grep", 5), Round(5, 5)))
FOUR = Workload("four", tuple(AgentScript(f"a{n}", Priority.BACKGROUND, (TURN,)) for n in range(4)), agents_nominal=4)


class LiveControl(FakeControl):
    """The fake engine with commands taken at the boundaries of steps of its own thread."""

    def __init__(self) -> None:
        super().__init__(step_s=lambda running: 0.0, prefill_rate=1e9)
        self.lock = threading.RLock()
        self.ending = threading.Event()

    def submit(self, request: TurnRequest, listener: Listener | None = None, author: str = "api") -> "Future[TurnId]":
        with self.lock:
            return super().submit(request, listener, author)

    def run(self) -> None:
        while not self.ending.is_set():
            with self.lock:
                idle = self.step() is None
                self.now = time.monotonic()
            self.ending.wait(0.002 if idle else 0.0005)

    def __getattribute__(self, name: str) -> object:
        found = super().__getattribute__(name)
        if name in ("cancel", "unblock"):
            lock = super().__getattribute__("lock")

            def locked(*arguments: object) -> object:
                with lock:
                    return found(*arguments)

            return locked
        return found


@contextmanager
def engine() -> Iterator[LiveControl]:
    control = LiveControl()
    thread = threading.Thread(target=control.run)
    thread.start()
    try:
        yield control
    finally:
        control.ending.set()
        thread.join()


def until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "did not happen"
        time.sleep(0.005)


def test_start_steer_and_stop() -> None:
    notes: list[tuple[str, str]] = []
    with engine() as control:
        swarm = Swarm(control, FOUR, note=lambda text, author: notes.append((text, author)))
        assert not swarm.status.running
        swarm.start()
        swarm.start()
        until(lambda: swarm.status.turns_done > 8)
        status = swarm.status
        assert status.running
        assert status.agents == 4
        assert status.blocked_fraction is not None
        assert 0 < status.blocked_fraction < 1
        swarm.set_speed(10.0, "cli")
        swarm.set_agents(6, "page")
        until(lambda: swarm.status.agents == 6 and swarm.status.speed == 10.0)
        swarm.stop()
        assert control.turns == {}
        assert not swarm.status.running
        assert swarm.status.agents == 6
        assert threading.active_count() == len([t for t in threading.enumerate() if t.name != "parkdeck-swarm"])
    assert notes[0] == ("swarm started: 4 agents of four, speed 1", "swarm")
    assert ("swarm speed 1 -> 10", "cli") in notes
    assert ("swarm agents 4 -> 6", "page") in notes
    assert notes[-1] == ("swarm stopped", "swarm")


def test_stop_is_quick_and_it_starts_again() -> None:
    with engine() as control:
        swarm = Swarm(control, FOUR)
        for _ in range(3):
            swarm.start()
            done = len(control.ended)
            until(lambda: len(control.ended) > done + 4)  # noqa: B023
            before = time.monotonic()
            swarm.stop()
            assert time.monotonic() - before < 1.5
            assert control.turns == {}


def test_turns_now_work_with_the_swarm_running_or_not() -> None:
    with engine() as control:
        swarm = Swarm(control, FOUR)
        name = swarm.foreground_turn_now(prompt_tokens=30, output_tokens=4)
        until(lambda: any(t.request.agent == name and t.phase is Phase.DONE for t in control.ended))
        assert not swarm.status.running
        swarm.start()
        long = swarm.long_turn_now()
        until(lambda: any(t.request.agent == long and t.phase is Phase.DONE for t in control.ended))
        ended = {turn.request.agent: turn for turn in control.ended}
        assert ended[name].request.priority is Priority.FOREGROUND
        assert ended[long].request.priority is Priority.BACKGROUND
        assert ended[long].context == 2048
        swarm.stop()


def test_a_submission_that_is_settled_after_the_stop_is_cancelled() -> None:
    """The engine is slow to answer; the swarm stops meanwhile."""
    held: list[tuple[TurnRequest, Future[TurnId]]] = []

    class Slow(FakeControl):
        def submit(
            self, request: TurnRequest, listener: Listener | None = None, author: str = "api"
        ) -> "Future[TurnId]":
            future: Future[TurnId] = Future()
            held.append((request, future))
            return future

    control = Slow()
    swarm = Swarm(control, FOUR)
    swarm.start()
    until(lambda: len(held) == 4)
    swarm.stop()
    for number, (_, future) in enumerate(held):
        future.set_result(TurnId(number))
    assert set(control.cancelled) == {0, 1, 2, 3}


def test_values_out_of_range_are_refused_and_change_nothing() -> None:
    swarm = Swarm(FakeControl(), FOUR)
    for speed in (0, -1, float("nan"), float("inf"), 1000, True, 10**400):
        with pytest.raises(Refused, match="speed"):
            swarm.set_speed(speed)
    for agents in (-1, 257, True, 2.5):
        with pytest.raises(Refused, match="agents"):
            swarm.set_agents(agents)  # type: ignore[arg-type]
    with pytest.raises(Refused, match="appended"):
        swarm.long_turn_now(prompt_tokens=-5)
    with pytest.raises(Refused):
        Swarm(FakeControl(), FOUR, speed=0)
    assert (swarm.status.speed, swarm.status.agents) == (1.0, 4)


def test_a_fault_of_its_own_is_shown_and_it_starts_again(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []
    monkeypatch.setattr(threading, "excepthook", seen.append)
    control = FakeControl(model=None)
    swarm = Swarm(control, FOUR)

    def broken(*arguments: object) -> "Future[TurnId]":
        raise RuntimeError("no such engine")

    control.submit = broken  # type: ignore[method-assign,assignment]
    control.model = fake_model()
    swarm.start()
    until(lambda: swarm.status.problem is not None)
    assert "no such engine" in str(swarm.status.problem)
    until(lambda: not swarm.status.running and len(seen) == 1)
    del control.submit
    swarm.start()
    until(lambda: len(control.submitted) == 4)
    swarm.stop()
