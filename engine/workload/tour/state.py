"""What the page reads of the tour: one immutable state, replaced as things happen."""

from dataclasses import dataclass
from enum import StrEnum


class Phase(StrEnum):
    """OFF: none runs. OVER: it ended and everything was put back."""

    OFF = "off"
    RUNNING = "running"
    ENDING = "ending"
    OVER = "over"


class Status(StrEnum):
    """Of a step."""

    AHEAD = "ahead"
    READY = "ready"
    WORKING = "working"
    SEEN = "seen"
    UNSEEN = "not seen"


@dataclass(frozen=True, slots=True)
class StepView:
    """`button`: what is pressed to have it done; `does`: what it does; `watch`: where to look, `colour`: the palette's
    meaning there; `said`: what was measured, or why it was not seen."""

    title: str
    button: str
    does: str
    watch: str
    colour: str
    status: Status = Status.AHEAD
    said: str = ""


@dataclass(frozen=True, slots=True)
class TourState:
    """`step`: the place of the present one among `steps`. `owner`: the tab that leads it, `since_utc`: when it began,
    epoch seconds. `note`: how it ended, one or two sentences. `swarm_ran`: it had stopped a running swarm."""

    phase: Phase = Phase.OFF
    steps: tuple[StepView, ...] = ()
    step: int = 0
    owner: str = ""
    since_utc: float = 0.0
    note: str = ""
    swarm_ran: bool = False
