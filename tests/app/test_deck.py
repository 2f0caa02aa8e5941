"""The deck: started and stopped once, whoever asks how often; a start that fails says why and keeps the rest alive."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from app.deck import Deck, DeckConfig
from app.measuring import Measuring
from engine.body import BodyConfig
from engine.errors import Refused
from engine.host import HostConfig
from engine.snapshot import HostState
from engine.twin.live import live_config
from engine.workload.tour.tour import Tour
from panels.deck_view import CalibrationState

OURS = ("parkdeck", "APScheduler", "ThreadPoolExecutor")


@pytest.fixture
def deck(tmp_path: Path) -> Iterator[Deck]:
    body = BodyConfig(model=str(tmp_path / "nowhere.gguf"))
    made = Deck(DeckConfig(host=HostConfig(body=body), agents=2, database=tmp_path / "sessions.sqlite"))
    yield made
    made.stop()


def playing(deck: Deck) -> tuple[bool, str, int]:
    now = deck.swarm.state()
    return now.running, now.workload, now.agents


def threads() -> list[str]:
    return sorted(thread.name for thread in threading.enumerate() if thread.name.startswith(OURS))


def wait_until(true: Callable[[], bool], within_s: float = 30.0) -> None:
    deadline = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_starting_again_starts_nothing_more(deck: Deck) -> None:
    deck.start()
    wait_until(lambda: deck.control.snapshot.state == HostState.FAILED)
    before = threads()
    for _ in range(5):
        deck.start()
    assert len([name for name in threads() if name.startswith(("parkdeck-swarm", "APScheduler"))]) == len(
        [name for name in before if name.startswith(("parkdeck-swarm", "APScheduler"))]
    )


def test_its_health_is_told_in_plain_values(deck: Deck) -> None:
    health = deck.health()
    assert (health["state"], health["step"], health["generated_tokens"]) == ("stopped", 0, 0)
    assert isinstance(health["at_s"], float)
    json.dumps(health, allow_nan=False)


def test_an_engine_that_is_off_waits_for_its_button(tmp_path: Path) -> None:
    body = BodyConfig(model=str(tmp_path / "nowhere.gguf"))
    deck = Deck(DeckConfig(host=HostConfig(body=body), engine=False, database=tmp_path / "sessions.sqlite"))
    deck.start()
    try:
        assert deck.control.snapshot.state == HostState.STOPPED
        assert not any(name.startswith("parkdeck-engine") for name in threads())
        deck.control.restart()
        wait_until(lambda: deck.control.snapshot.state == HostState.FAILED)
    finally:
        deck.stop()


def test_start_returns_at_once_and_a_bad_model_is_a_sentence(deck: Deck) -> None:
    began = time.monotonic()
    deck.start()
    assert time.monotonic() - began < 5.0
    wait_until(lambda: deck.control.snapshot.state == HostState.FAILED)
    error = deck.control.snapshot.error
    assert error is not None
    assert "nowhere.gguf" in error
    assert deck.health()["state"] == "failed"
    wait_until(lambda: deck.hardware() is not None)


def test_nothing_recorded_is_refused_in_a_sentence(deck: Deck) -> None:
    assert deck.recorded() == ""
    assert deck.last_card() is None
    with pytest.raises(Refused, match="nothing is recorded yet"):
        deck.export("timeline")


def test_stop_leaves_no_thread_and_may_be_said_twice(deck: Deck) -> None:
    before = threads()
    deck.start()
    deck.stop()
    deck.stop()
    wait_until(lambda: [name for name in threads() if name not in before and "Executor" not in name] == [])


def test_the_swarms_buttons_answer_in_sentences(deck: Deck, monkeypatch: pytest.MonkeyPatch) -> None:
    authors: list[str] = []
    monkeypatch.setattr(deck.host, "note", lambda text, author: authors.append(author))
    assert deck.swarm.set_agents(3, "tab 1") == "3 agents."
    assert deck.swarm.set_speed(2.0, "tab 1") == "Speed 2×."
    assert deck.swarm.state().agents == 3
    with pytest.raises(Refused):
        deck.swarm.set_agents(100_000, "tab 1")
    assert deck.swarm.state().agents == 3
    assert deck.swarm.start("tab 1") == "Swarm started."
    assert deck.swarm.stop("tab 1").startswith("Swarm stopped")
    assert authors == ["tab 1"] * 4


def test_a_swarm_that_waits_for_a_measurement_says_so(deck: Deck, monkeypatch: pytest.MonkeyPatch) -> None:
    assert deck.swarm.state().note == "The swarm is stopped."
    monkeypatch.setattr(deck._measuring, "_state", CalibrationState(running=True))
    assert "a swarm started now ends the measurement" in deck.swarm.state().note


def test_tabs_that_open_at_once_have_names_of_their_own(deck: Deck) -> None:
    with ThreadPoolExecutor(16) as tabs:
        names = list(tabs.map(lambda _: deck.next_tab(), range(64)))
    assert sorted(names, key=lambda name: int(name.removeprefix("tab "))) == [f"tab {i}" for i in range(1, 65)]


def test_a_tour_keeps_the_swarm_out_and_waits_for_a_measurement(deck: Deck, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Refused, match="the engine does not run"):
        deck.tour.start("tab")
    monkeypatch.setattr(deck._measuring, "_state", CalibrationState(running=True))
    with pytest.raises(Refused, match="this machine is being measured"):
        deck.tour.start("tab")
    monkeypatch.undo()
    monkeypatch.setattr("engine.workload.tour.tour.Tour.running", True)
    for verb in (lambda: deck.swarm.start("tab 1"), deck.swarm.foreground_turn, deck.swarm.long_turn):
        with pytest.raises(Refused, match="the tour runs and needs the engine for itself"):
            verb()
    assert deck.swarm.state().note == "The swarm waits for the end of the tour."


def test_a_measurement_waits_for_a_tour_and_says_so_at_once(deck: Deck, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped: list[str] = []
    monkeypatch.setattr("engine.workload.swarm.Swarm.stop", lambda self, author: stopped.append(author) or False)
    monkeypatch.setattr("engine.workload.tour.tour.Tour.running", True)
    with pytest.raises(Refused, match="the tour runs and needs the engine for itself; leave it first"):
        deck.calibration.start("tab 1")
    assert not deck.calibration.state().running
    assert stopped == []


def test_of_a_tour_and_a_measurement_in_the_same_instant_one_is_refused(
    deck: Deck, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is slow to begin, so that without a lock both would."""
    begun: list[str] = []

    def tour(self: Tour, tab: str) -> None:
        time.sleep(0.2)
        begun.append("tour")
        monkeypatch.setattr("engine.workload.tour.tour.Tour.running", True)

    def measuring(self: Measuring, author: str) -> str:
        time.sleep(0.2)
        begun.append("measuring")
        self._state = CalibrationState(running=True)
        return ""

    monkeypatch.setattr("engine.workload.tour.tour.Tour.start", tour)
    monkeypatch.setattr("app.measuring.Measuring.start", measuring)
    with ThreadPoolExecutor(2) as both:
        asked = [both.submit(deck.tour.start, "tab 1"), both.submit(deck.calibration.start, "tab 2")]
    refused = [one.exception() for one in asked]
    assert len(begun) == 1
    assert sum(isinstance(error, Refused) for error in refused) == 1


def test_an_unknown_workload_is_refused_with_the_names() -> None:
    with pytest.raises(Refused, match="swarm"):
        Deck(DeckConfig(workload="nonsense"))


def test_a_twin_plays_turns_as_long_as_its_cards_and_the_real_engine_gets_its_agents_back(tmp_path: Path) -> None:
    body = BodyConfig(model=str(tmp_path / "nowhere.gguf"))
    deck = Deck(DeckConfig(host=HostConfig(body=body), database=tmp_path / "sessions.sqlite"))
    deck.start()
    try:
        wait_until(lambda: deck.control.snapshot.state == HostState.FAILED)
        deck.swarm.set_agents(7, "tab 1")
        deck.twin.start_twin("rx9070xt", "tab 1")
        wait_until(lambda: playing(deck) == (True, "full-card", 20))
        wait_until(lambda: any(turn.context_tokens > 2_000 for turn in deck.control.snapshot.turns))
        deck.swarm.long_turn()
        wait_until(lambda: any(turn.context_tokens == 16_384 - 64 for turn in deck.control.snapshot.turns))
        with pytest.raises(Refused, match="the twin runs already"):
            deck.twin.start_twin("rx9070xt", "tab 1")
        deck.twin.leave_twin("tab 1")
        wait_until(lambda: playing(deck) == (True, "swarm", 7))
    finally:
        deck.stop()


def test_a_workload_that_was_chosen_is_played_on_the_twin_too(tmp_path: Path) -> None:
    body = BodyConfig(model=str(tmp_path / "nowhere.gguf"))
    asked = DeckConfig(host=HostConfig(body=body), workload="long-context", database=tmp_path / "sessions.sqlite")
    deck = Deck(asked)
    deck.start()
    try:
        deck.twin.start_twin("rx9070xt", "tab 1")
        assert deck.swarm.state().workload == "long-context"
    finally:
        deck.stop()


def test_a_deck_that_begins_with_the_twin_plays_the_cards(tmp_path: Path) -> None:
    deck = Deck(DeckConfig(host=live_config(), database=tmp_path / "sessions.sqlite"))
    assert (deck.swarm.state().workload, deck.swarm.state().agents) == ("full-card", 20)
