"""A DeckView over the scripted engine, with a swarm that remembers what it was asked."""

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

from engine.errors import Refused
from engine.snapshot import CardScale, HostState, ModelledCard, Startup
from engine.telemetry.hardware import HardwareSample
from engine.twin.grid_run import GridRunner
from engine.workload.readers import load_workload
from engine.workload.script import Workload
from engine.workload.tour.state import TourState
from panels.deck_view import CalibrationState, SwarmState
from tests.panels.fake_control import MODELLED, FakeControl

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

    def workload(self) -> Workload:
        return load_workload(self.now.workload)

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
class FakeTwin:
    """Takes the place of the scripted engine at once, and gives it back. `refuse`: what each call is refused with."""

    control: FakeControl
    calls: list[tuple[object, ...]] = field(default_factory=list)
    refuse: str | None = None

    def start_twin(self, card: str, author: str = "api") -> str:
        self._take("start", card, author)
        self.control.modelled = MODELLED
        return "The engine stops, and the twin of RX 9070 XT starts in its place."

    def leave_twin(self, author: str = "api") -> str:
        self._take("leave", author)
        self.control.modelled = None
        self.control.state = HostState.STARTING
        self.control.startup = Startup("load", None, "reading the model file")
        return "The twin stops, and SmolLM2-135M-Instruct on torch starts again."

    def set_card(self, changes: Mapping[str, object], author: str = "api") -> "Future[ModelledCard]":
        future: Future[ModelledCard] = Future()
        try:
            self._take("set", dict(changes), author)
        except Refused as refusal:
            future.set_exception(refusal)
            return future
        card = self.control.modelled
        assert card is not None
        own = {name: value for name, value in changes.items() if name in ("pace", "overlap")}
        now = tuple((name, float(changes.get(name, value))) for name, value in card.now)  # type: ignore[arg-type]
        self.control.modelled = replace(card, now=now, **own)  # type: ignore[arg-type]
        future.set_result(self.control.modelled)
        return future

    def _take(self, *call: object) -> None:
        self.calls.append(call)
        if self.refuse is not None:
            raise Refused(self.refuse)


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
    comparisons: GridRunner = field(default_factory=GridRunner)
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
    twin: FakeTwin = field(init=False)

    def __post_init__(self) -> None:
        self.twin = FakeTwin(self.control)

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
