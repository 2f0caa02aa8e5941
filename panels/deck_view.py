"""What a page gets: the engine's Control, and the swarm, the hardware reading and the recorded session beside it."""

from dataclasses import dataclass
from typing import Literal, Protocol

from engine.control import Control
from engine.snapshot import CardScale
from engine.telemetry.hardware import HardwareSample

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
    """The swarm's buttons. Each verb returns the sentence for the user, or raises Refused with it."""

    def state(self) -> SwarmState: ...
    def start(self) -> str: ...
    def stop(self) -> str: ...
    def set_agents(self, agents: int) -> str: ...
    def set_speed(self, speed: float) -> str: ...
    def foreground_turn(self) -> str: ...
    def long_turn(self) -> str: ...


class DeckView(Protocol):
    """One deck for all tabs. Reading never waits for the engine."""

    @property
    def control(self) -> Control: ...
    @property
    def swarm(self) -> SwarmControl: ...
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
