"""What the page's buttons of the swarm, the twin, the tour and the measuring do, and the sentences that they answer
with."""

import threading
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path

from app.measuring import Measuring
from engine.cards.store import load_card
from engine.control import TwinControl
from engine.errors import Refused
from engine.snapshot import ModelledCard
from engine.words import counted
from engine.workload.readers import load_workload, nearest
from engine.workload.script import Workload
from engine.workload.swarm import Swarm
from engine.workload.tour.state import TourState
from engine.workload.tour.tour import Tour
from panels.deck_view import CalibrationState, SwarmState
from panels.units import fraction


class SwarmButtons:
    """A SwarmControl over the swarm, for the page, which also learns for what the swarm waits. While a tour runs, no
    agent and no turn is sent into it."""

    def __init__(self, swarm: Swarm, measuring: Measuring, tour: Tour) -> None:
        self._swarm = swarm
        self._measuring = measuring
        self._tour = tour

    def state(self) -> SwarmState:
        status = self._swarm.status
        if status.problem and not status.live:
            note = status.problem
        elif status.running:
            note = (
                f"{counted(status.live, 'agent')} in a turn, {status.blocked} of them on tools, "
                f"{counted(status.turns_done, 'turn')} done, "
                f"b {fraction(status.blocked_fraction)} by the agents' clocks"
            )
        elif self._measuring.state().running:
            note = "This machine is being measured; a swarm started now ends the measurement."
        elif self._tour.running:
            note = "The swarm waits for the end of the tour."
        else:
            note = "The swarm is stopped."
        return SwarmState(status.running, status.agents, status.speed, status.workload, note)

    def workload(self) -> Workload:
        return self._swarm.workload

    def start(self, author: str) -> str:
        _check_no_tour(self._tour)
        self._swarm.start(author)
        return "Swarm started."

    def stop(self, author: str) -> str:
        self._swarm.stop(author)
        return "Swarm stopped; its turns were cancelled."

    def set_agents(self, agents: int, author: str) -> str:
        self._swarm.set_agents(int(agents), author)
        return f"{counted(int(agents), 'agent')}."

    def set_speed(self, speed: float, author: str) -> str:
        self._swarm.set_speed(float(speed), author)
        return f"Speed {speed:g}×."

    def foreground_turn(self) -> str:
        _check_no_tour(self._tour)
        return f"Foreground turn of {self._swarm.foreground_turn_now()} sent."

    def long_turn(self) -> str:
        _check_no_tour(self._tour)
        return f"Long background turn of {self._swarm.long_turn_now()} sent."


class TwinButtons:
    """A TwinControl over the host's. Where nobody has chosen a workload (`chosen`) a twin's agents take turns as long
    as its card's; on the way back the real engine gets those that it had, and as many. `agents`: how many of them,
    None: as the workload says."""

    def __init__(self, twin: TwinControl, swarm: Swarm, *, chosen: bool, agents: int | None) -> None:
        self._twin = twin
        self._swarm = swarm
        self._chosen = chosen
        self._agents = agents
        self._left: tuple[Workload, int] | None = None

    def start_twin(self, card: str, author: str = "api") -> str:
        said = self._twin.start_twin(card, author)
        if not self._chosen:
            self._left = self._swarm.workload, self._swarm.agents
            self._swarm.set_workload(card_workload(card), self._agents, author)
        return said

    def leave_twin(self, author: str = "api") -> str:
        said = self._twin.leave_twin(author)
        if not self._chosen:
            self._swarm.set_workload(*(self._left or (load_workload(), self._agents)), author)
        return said

    def set_card(self, changes: Mapping[str, object], author: str = "api") -> "Future[ModelledCard]":
        return self._twin.set_card(changes, author)


def card_workload(card: str | Path) -> Workload:
    """What a twin of this card plays where nobody has chosen. Raises Refused for a card that is not there."""
    return load_workload(nearest(load_card(card).mean_context.amount))


class MeasuringButtons:
    """A CalibrationControl over the measuring, for the page. `alone` is held while a tour or a measuring begins."""

    def __init__(self, measuring: Measuring, tour: Tour, alone: threading.Lock) -> None:
        self._measuring = measuring
        self._tour = tour
        self._alone = alone

    def state(self) -> CalibrationState:
        return self._measuring.state()

    def start(self, author: str) -> str:
        with self._alone:
            _check_no_tour(self._tour)
            return self._measuring.start(author)

    def cancel(self) -> str:
        return self._measuring.cancel()


def _check_no_tour(tour: Tour) -> None:
    if tour.running:
        raise Refused("the tour runs and needs the engine for itself; leave it first")


class TourButtons:
    """A TourControl over the tour, for the page. `alone` as in MeasuringButtons."""

    def __init__(self, tour: Tour, measuring: Measuring, alone: threading.Lock) -> None:
        self._tour = tour
        self._measuring = measuring
        self._alone = alone

    def look(self, tab: str) -> TourState:
        return self._tour.look(tab)

    def start(self, tab: str) -> str:
        with self._alone:
            if self._measuring.state().running:
                raise Refused("this machine is being measured; wait for that or cancel it, then take the tour")
            self._tour.start(tab)
        return "Tour started."

    def act(self, tab: str) -> str:
        self._tour.act(tab)
        return ""

    def next(self, tab: str) -> str:
        self._tour.next(tab)
        return ""

    def leave(self, tab: str) -> str:
        self._tour.leave(tab)
        return "The tour ends; its turns are cancelled and the knobs put back."

    def close(self) -> str:
        self._tour.forget()
        return ""

    def end(self) -> None:
        """With the deck, while the engine is still there."""
        self._tour.close()
