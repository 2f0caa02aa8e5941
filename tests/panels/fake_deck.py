"""A DeckView over the scripted engine, with a swarm that remembers what it was asked."""

from dataclasses import dataclass, field, replace

from engine.errors import Refused
from engine.snapshot import CardScale
from engine.telemetry.hardware import HardwareSample
from engine.twin.grid_run import GridRunner
from engine.workload.tour.state import TourState
from panels.deck_view import CalibrationState, SwarmState
from tests.panels.fake_control import FakeControl

CSV = b"start_utc,agent\r\n2026-09-21T13:06:40Z,agent 1\r\n"


@dataclass(slots=True)
class FakeSwarm:
    now: SwarmState = field(
        default_factory=lambda: SwarmState(True, 16, 1.0, "swarm", "swarm: 12 turns live, 4 blocked, 44 done")
    )
    calls: list[tuple[str, float]] = field(default_factory=list)
    authors: list[str] = field(default_factory=list)

    def state(self) -> SwarmState:
        return self.now

    def start(self, author: str) -> str:
        self.authors.append(author)
        return self._take("start", 1, running=True)

    def stop(self, author: str) -> str:
        self.authors.append(author)
        return self._take("stop", 0, running=False)

    def set_agents(self, agents: int, author: str) -> str:
        self.authors.append(author)
        return self._take("agents", agents, agents=agents)

    def set_speed(self, speed: float, author: str) -> str:
        self.authors.append(author)
        return self._take("speed", speed, speed=speed)

    def foreground_turn(self) -> str:
        return self._take("foreground", 1)

    def long_turn(self) -> str:
        raise Refused("no text for a turn of 2,048 tokens; load a model first")

    def _take(self, name: str, value: float, **change: object) -> str:
        self.calls.append((name, value))
        self.now = replace(self.now, **change)  # type: ignore[arg-type]
        return f"{name} {value:g}"


@dataclass(slots=True)
class FakeCalibration:
    """Remembers what it was asked; a test says how it stands."""

    now: CalibrationState = field(default_factory=CalibrationState)
    calls: list[str] = field(default_factory=list)

    def state(self) -> CalibrationState:
        return self.now

    def start(self, author: str) -> str:
        if self.now.running:
            raise Refused("this machine is being measured already; wait for it or cancel it")
        return self._take("start", CalibrationState(running=True, fraction=0.0, note="stopping the swarm"))

    def cancel(self) -> str:
        if not self.now.running:
            raise Refused("nothing is being measured; there is nothing to cancel")
        problem = "the measurement was called off; nothing was written"
        return self._take("cancel", CalibrationState(problem=problem))

    def _take(self, name: str, now: CalibrationState) -> str:
        self.calls.append(name)
        self.now = now
        return name


@dataclass(slots=True)
class FakeTour:
    """Remembers what it was asked; a test says how it stands."""

    now: TourState = field(default_factory=TourState)
    calls: list[str] = field(default_factory=list)
    refuse: str = ""

    def look(self, tab: str) -> TourState:
        return self.now

    def start(self, tab: str) -> str:
        return self._take("start")

    def act(self, tab: str) -> str:
        return self._take("act")

    def next(self, tab: str) -> str:
        return self._take("next")

    def leave(self, tab: str) -> str:
        return self._take("leave")

    def close(self) -> str:
        return self._take("close")

    def _take(self, name: str) -> str:
        if self.refuse:
            raise Refused(self.refuse)
        self.calls.append(name)
        return f"{name} of the tour"


@dataclass(slots=True)
class FakeDeck:
    control: FakeControl = field(default_factory=FakeControl)
    swarm: FakeSwarm = field(default_factory=FakeSwarm)
    calibration: FakeCalibration = field(default_factory=FakeCalibration)
    tour: FakeTour = field(default_factory=FakeTour)
    grids: GridRunner = field(default_factory=GridRunner)
    reading: HardwareSample | None = field(
        default_factory=lambda: HardwareSample(
            1.0,
            83.0,
            160.0,
            1 << 30,
            24 << 30,
            15 << 30,
            False,
            2.1,
            2,
            gpu_reason="No AMD GPU was found on this machine.",
        )
    )

    problem: str | None = None
    tabs: int = 0

    def next_tab(self) -> str:
        self.tabs += 1
        return f"tab {self.tabs}"

    def hardware(self) -> HardwareSample | None:
        return self.reading

    def last_card(self) -> CardScale | None:
        return self.control.card

    def recorded(self) -> str:
        snapshot = self.control.snapshot
        return snapshot.session if snapshot.bands is not None else ""

    def recording_problem(self) -> str | None:
        return self.problem
