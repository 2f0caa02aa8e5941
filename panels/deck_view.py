"""What a page gets: the engine's Control, and the swarm, the hardware reading and the recorded session beside it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from engine.control import Control, TwinControl
from engine.snapshot import CardScale
from engine.telemetry.hardware import HardwareSample
from engine.twin.grid import Grid
from engine.twin.grid_run import GridState
from engine.twin.setup import TwinSetup
from engine.workload.script import Workload
from engine.workload.tour.state import TourState

TableName = Literal["timeline", "samples", "events"]
TABLES: tuple[TableName, ...] = ("timeline", "samples", "events")


@dataclass(frozen=True, slots=True)
class SwarmState:
    """`note`: one line on what the swarm does now, empty when there is nothing to say."""

    running: bool
    agents: int
    speed: float
    workload: str
    note: str = ""


class SwarmControl(Protocol):
    """The swarm's buttons. Each verb returns the sentence for the user, or raises Refused with it. `author`: the tab,
    for the event."""

    def state(self) -> SwarmState: ...
    def workload(self) -> Workload:
        """What its agents play, also while it is stopped."""
        ...

    def start(self, author: str) -> str: ...
    def stop(self, author: str) -> str: ...
    def set_agents(self, agents: int, author: str) -> str: ...
    def set_speed(self, speed: float, author: str) -> str: ...
    def foreground_turn(self) -> str: ...
    def long_turn(self) -> str: ...


NO_ENGINE = "No engine runs behind this page. Start it with `streamlit run app` or `parkdeck up`."


@dataclass(frozen=True, slots=True)
class CalibrationState:
    """`fraction` from 0 to 1 and `note` on what is done now, while `running`. Afterwards what came of it: `written`, or
    the `problem`, one sentence each; neither before the first."""

    running: bool = False
    fraction: float = 0.0
    note: str = ""
    written: str = ""
    problem: str = ""


class CalibrationControl(Protocol):
    """Measuring this machine, one at a time for all tabs. Verbs as in SwarmControl; `author` stops the swarm for it."""

    def state(self) -> CalibrationState: ...
    def start(self, author: str) -> str: ...
    def cancel(self) -> str: ...


class TourControl(Protocol):
    """The tour, one at a time for all tabs; `tab` names who asks. Verbs as in SwarmControl; they are carried out soon,
    and the state shows it."""

    def look(self, tab: str) -> TourState:
        """The state; a tab that looks is there."""
        ...

    def start(self, tab: str) -> str: ...
    def act(self, tab: str) -> str: ...
    def next(self, tab: str) -> str: ...
    def leave(self, tab: str) -> str: ...
    def close(self) -> str:
        """What the last tour said at its end is read."""
        ...


class GridControl(Protocol):
    """Grids on the twin, one at a time for all tabs; one goes on whoever looks. Verbs as in SwarmControl; `author`
    names who started it."""

    def state(self) -> GridState: ...
    def forecast_s(self, setups: Sequence[TwinSetup]) -> float:
        """Real seconds that they may take."""
        ...

    def start(self, grid: Grid, author: str) -> str: ...
    def cancel(self) -> str: ...


class DeckView(Protocol):
    """One deck for all tabs. Reading never waits for the engine."""

    @property
    def control(self) -> Control: ...
    @property
    def twin(self) -> TwinControl: ...
    @property
    def swarm(self) -> SwarmControl: ...
    @property
    def calibration(self) -> CalibrationControl: ...
    @property
    def grids(self) -> GridControl: ...
    @property
    def comparisons(self) -> GridControl:
        """Of all policies: they and the grids go on beside each other."""
        ...

    def next_tab(self) -> str:
        """The name of a tab that is being opened: 'tab 1', 'tab 2'. From any thread."""
        ...

    @property
    def tour(self) -> TourControl: ...
    def hardware(self) -> HardwareSample | None: ...
    def last_card(self) -> CardScale | None:
        """The scale of the session that began last."""
        ...

    def recorded(self) -> str:
        """The session that is exported: the one that began last, '' before any has."""
        ...

    def recording_problem(self) -> str | None:
        """Why records are not stored, one sentence; None when all is well."""
        ...
