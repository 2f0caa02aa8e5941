"""The deck's calibration: one at a time, the swarm out of its way and back afterwards, whatever becomes of it."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from app.measuring import Measuring, measure
from engine.calibration.calibrator import Progress
from engine.calibration.plan import Depth
from engine.cards.profile import CardProfile
from engine.cards.store import THIS_MACHINE, cards_dir, load_card
from engine.control import Control
from engine.errors import Refused
from engine.host import Host
from engine.turn import TurnRequest
from tests.engine.lab import fake_body, prompt_of

WAIT_S = 20.0
CARD = load_card()
SHORT = Depth(1, 60.0, (16, 32), (16, 48), 1 << 20)


class Swarm:
    """Its buttons, and one turn in the engine while it runs."""

    def __init__(self, host: Host, running: bool) -> None:
        self._host = host
        self.calls: list[str] = []
        self._running = running
        self._turn = host.submit(TurnRequest("agent", prompt_of(20), 400, ignore_eos=True)) if running else None

    def start(self, author: str) -> None:
        self.calls.append("start")

    def stop(self, author: str) -> bool:
        self.calls.append("stop")
        if self._turn is not None:
            self._host.cancel(self._turn.result(WAIT_S)).result(WAIT_S)
        return self._running


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARKDECK_CONFIG_DIR", str(tmp_path))


@pytest.fixture
def host() -> Iterator[Host]:
    host = Host(open_body=lambda config, report: fake_body(1024, 2048))
    host.start()
    host.wait_ready(WAIT_S)
    yield host
    host.stop(WAIT_S)


def quickly(
    control: Control, depth: Depth, report: Callable[[Progress], None], cancelled: Callable[[], bool]
) -> CardProfile:
    return measure(control, SHORT, report, cancelled)


def made(host: Host, running: bool = True, how: Callable[..., CardProfile] = quickly) -> tuple[Measuring, Swarm]:
    swarm = Swarm(host, running)
    return Measuring(host, swarm, how), swarm  # type: ignore[arg-type]


def over(measuring: Measuring) -> None:
    deadline = time.monotonic() + WAIT_S
    while measuring.state().running:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_it_stops_the_swarm_writes_the_card_and_starts_the_swarm_again(host: Host) -> None:
    measuring, swarm = made(host)
    assert measuring.start("tab 1") == "Measuring this machine."
    over(measuring)
    state = measuring.state()
    assert (state.problem, state.written[:8]) == ("", "Measured")
    assert swarm.calls == ["stop", "start"]
    card = load_card(THIS_MACHINE)
    assert card.calibration is not None
    assert len(card.calibration.decodes) == 8
    memory = host.snapshot.memory
    assert memory is not None
    assert card.kv_budget_bytes == pytest.approx(memory.arena_bytes)


def test_a_swarm_that_did_not_run_is_not_started(host: Host) -> None:
    measuring, swarm = made(host, running=False)
    measuring.start("tab 1")
    over(measuring)
    assert swarm.calls == ["stop"]


def test_one_runs_at_a_time_and_a_cancel_writes_nothing(host: Host) -> None:
    busy = threading.Event()

    def waits(
        control: Control, depth: Depth, report: Callable[[Progress], None], cancelled: Callable[[], bool]
    ) -> CardProfile:
        report(Progress(0.5, "copies"))
        busy.set()
        while not cancelled():
            time.sleep(0.005)
        return measure(control, SHORT, report, cancelled)

    measuring, swarm = made(host, how=waits)
    measuring.start("tab 1")
    assert busy.wait(WAIT_S)
    assert (measuring.state().running, measuring.state().fraction, measuring.state().note) == (True, 0.5, "copies")
    with pytest.raises(Refused, match="being measured already"):
        measuring.start("tab 1")
    measuring.cancel()
    over(measuring)
    assert "called off; nothing was written" in measuring.state().problem
    assert swarm.calls == ["stop", "start"]
    assert not list(cards_dir().glob("*"))
    with pytest.raises(Refused, match="nothing to cancel"):
        measuring.cancel()


def test_a_fault_is_a_sentence_and_the_swarm_goes_on(host: Host) -> None:
    def breaks(*args: object) -> CardProfile:
        raise ZeroDivisionError("by nothing")

    measuring, swarm = made(host, how=breaks)
    measuring.start("tab 1")
    over(measuring)
    assert measuring.state().problem == "the measurement failed: by nothing"
    assert swarm.calls == ["stop", "start"]


@pytest.mark.parametrize("breaks", [False, True])
def test_a_swarm_that_does_not_start_again_is_said_and_the_measuring_is_over(host: Host, breaks: bool) -> None:
    class Stuck(Swarm):
        def start(self, author: str) -> None:
            raise RuntimeError("no thread")

    def how(*args: object) -> CardProfile:
        if breaks:
            raise Refused("no room")
        return CARD

    measuring = Measuring(host, Stuck(host, running=True), how)  # type: ignore[arg-type]
    measuring.start("tab 1")
    over(measuring)
    said = "the swarm did not start again: no thread"
    assert measuring.state().problem == (f"no room; {said}" if breaks else said)
    assert bool(measuring.state().written) is not breaks


def test_where_no_card_can_be_kept_nothing_is_measured(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PARKDECK_CONFIG_DIR", str(tmp_path / "file"))
    told: list[Progress] = []
    with pytest.raises(Refused, match="cards cannot be kept here"):
        measure(host, SHORT, told.append, lambda: False)
    assert not told


def test_turns_of_others_are_not_ended(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.measuring.IDLE_WITHIN_S", 0.2)
    request = TurnRequest("api", prompt_of(20), 4, ignore_eos=True, then_block="tool")
    turn = host.submit(request).result(WAIT_S)
    deadline = time.monotonic() + WAIT_S
    while not host.snapshot.turns:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    measuring, _ = made(host, running=False)
    measuring.start("tab 1")
    over(measuring)
    assert measuring.state().problem.startswith("measuring needs an engine without turns and has 1 open turn;")
    assert host.cancel(turn).result(WAIT_S)


def test_a_turn_that_the_engine_takes_after_the_swarm_has_stopped_is_waited_for(host: Host) -> None:
    """The swarm cancels a turn whose submission was under way as soon as that is answered."""

    @dataclass
    class Hold:
        release: threading.Event

        def run(self, backend: object) -> None:
            assert self.release.wait(WAIT_S)

    class Late(Swarm):
        def stop(self, author: str) -> bool:
            hold = Hold(threading.Event())
            host.probe(hold, host.snapshot.session)
            late = host.submit(TurnRequest("agent", prompt_of(20), 400, ignore_eos=True))
            late.add_done_callback(lambda turn: host.cancel(turn.result()))
            threading.Timer(0.3, hold.release.set).start()
            return super().stop(author)

    measuring = Measuring(host, Late(host, running=False), quickly)  # type: ignore[arg-type]
    measuring.start("tab 1")
    over(measuring)
    assert (measuring.state().problem, measuring.state().written[:8]) == ("", "Measured")


def test_closing_leaves_the_swarm_stopped(host: Host) -> None:
    def waits(control: Control, depth: object, report: object, cancelled: Callable[[], bool]) -> CardProfile:
        while not cancelled():
            time.sleep(0.005)
        raise Refused("called off")

    measuring, swarm = made(host, how=waits)
    measuring.start("tab 1")
    measuring.close()
    over(measuring)
    assert swarm.calls == ["stop"]


def test_an_engine_that_does_not_run_is_refused(host: Host) -> None:
    measuring, swarm = made(host, running=False)
    host.stop(WAIT_S)
    with pytest.raises(Refused, match="the engine does not run; start it"):
        measuring.start("tab 1")
    assert swarm.calls == []
