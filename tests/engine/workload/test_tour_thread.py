"""The tour on its own thread over a running host: one at a time, who leads it, and its ends."""

import time
from collections.abc import Callable, Iterator
from typing import cast

import pytest

from engine.errors import Refused
from engine.host import Host
from engine.models.loaded import ServedModel
from engine.workload.tour import tour as module
from engine.workload.tour.state import Phase, Status
from engine.workload.tour.tour import ABSENT_S, GONE_S, Tour
from tests.engine.lab import fake_body
from tests.engine.workload.fake_control import fake_model
from tests.engine.workload.tour_lab import ARENA, QuickExecutor

WAIT_S = 30.0


class Modelled(Host):
    """With a tokenizer, which the scripted executor lacks."""

    @property
    def model(self) -> ServedModel | None:
        return cast(ServedModel, fake_model(2048))


class Swarm:
    def __init__(self) -> None:
        self.authors: list[str] = []

    def stop(self, author: str) -> bool:
        self.authors.append(author)
        return True


class Clock:
    """The real one, and hours that a test adds."""

    def __init__(self) -> None:
        self.later = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.later


@pytest.fixture
def host() -> Iterator[Host]:
    host = Modelled(open_body=lambda config, report: fake_body(ARENA, 6 * ARENA, QuickExecutor()))
    host.start()
    host.wait_ready(WAIT_S)
    yield host
    host.stop(WAIT_S)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tour(host: Host, clock: Clock) -> Iterator[Tour]:
    made = Tour(host, Swarm(), clock)
    yield made
    made.close()


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not true():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.01)


def test_its_verbs_return_at_once_and_the_first_step_is_seen(host: Host, tour: Tour) -> None:
    tour.start("a")
    tour.act("a")
    until(lambda: tour.look("a").steps[0].status is Status.SEEN)
    tour.next("a")
    until(lambda: tour.look("a").step == 1)
    tour.leave("a")
    until(lambda: tour.look("a").phase is Phase.OVER and not host.snapshot.turns)
    assert tour.look("a").swarm_ran
    tour.forget()
    assert tour.look("a").phase is Phase.OFF


def test_one_at_a_time_and_only_the_tab_that_leads_goes_on(tour: Tour) -> None:
    tour.start("a")
    with pytest.raises(Refused, match="the tour runs already"):
        tour.start("b")
    for verb in (tour.act, tour.next, tour.leave):
        with pytest.raises(Refused, match="another tab leads the tour"):
            verb("b")
    assert tour.look("b").owner == "a"


def test_a_tab_that_does_not_look_any_more_hands_the_lead_to_one_that_does(tour: Tour, clock: Clock) -> None:
    tour.start("a")
    tour.look("a")
    clock.later += ABSENT_S + 1.0
    tour.look("b")
    until(lambda: tour.look("b").owner == "b")
    tour.act("b")
    with pytest.raises(Refused, match="another tab"):
        tour.leave("a")


def test_it_ends_when_nobody_looks_for_minutes(host: Host, tour: Tour, clock: Clock) -> None:
    tour.start("a")
    tour.act("a")
    until(lambda: tour.look("a").steps[0].status is Status.SEEN)
    clock.later += GONE_S + 1.0
    until(lambda: not tour.running)
    assert tour.look("b").note.startswith(module.GONE)
    until(lambda: not host.snapshot.turns)


def test_closing_cancels_its_turns(host: Host, tour: Tour) -> None:
    tour.start("a")
    tour.act("a")
    until(lambda: bool(host.snapshot.turns))
    tour.close()
    until(lambda: not host.snapshot.turns)
    assert not tour.running


def test_without_an_engine_it_is_refused(tour: Tour, host: Host) -> None:
    host.stop(WAIT_S)
    with pytest.raises(Refused, match="the engine does not run"):
        tour.start("a")
    with pytest.raises(Refused, match="no tour runs"):
        tour.act("a")


def test_an_engine_that_stops_ends_it_and_another_waits_for_the_knobs(tour: Tour, host: Host) -> None:
    host.set_knobs({"policy": "resident-only"}).result(WAIT_S)
    tour.start("a")
    tour.act("a")
    until(lambda: tour.look("a").steps[0].status is Status.SEEN)
    host.stop(WAIT_S)
    until(lambda: tour.look("a").phase is Phase.OVER)
    assert tour.look("a").note == "The engine was stopped in step 1 of the tour, which ends here."
    host.restart()
    host.wait_ready(WAIT_S)
    until(lambda: host.snapshot.knobs.policy == "resident-only")


def test_a_fault_of_its_own_ends_it_with_its_turns_cancelled(
    tour: Tour, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    tour.start("a")
    tour.act("a")
    until(lambda: tour.look("a").steps[0].status is Status.SEEN)
    monkeypatch.setattr("engine.workload.tour.player.Player._watch_engine", lambda player: 1 / 0)
    until(lambda: tour.look("a").phase is Phase.OVER)
    assert tour.look("a").note.startswith("The tour ended by a fault of its own (division by zero).")
    until(lambda: not host.snapshot.turns)


def test_tabs_that_look_at_a_tour_that_is_over_ask_for_nothing(tour: Tour, clock: Clock) -> None:
    tour.start("a")
    tour.leave("a")
    until(lambda: tour.look("a").phase is Phase.OVER)
    for _ in range(3):
        clock.later += ABSENT_S + 1.0
        assert tour.look("b").owner == "a"
    assert tour._asked.empty()
