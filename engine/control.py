"""The host as others see it: pages, swarm, CLI, benches and API use these calls and read snapshots; nothing else.

Commands may come from any thread. They are carried out at the next token boundary; the Future then holds the result,
or a Refused (its text is one sentence for the user). Nobody waits inside the engine: listeners must not block.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol, TypeVar

from engine.calibration.probes import Probe
from engine.events import Event, EventKind, Interval, MoveCost
from engine.knobs import Knobs
from engine.models.loaded import ServedModel
from engine.preview import Preview
from engine.snapshot import ModelledCard, Sample, Snapshot, TurnDetail
from engine.turn import TurnId, TurnRequest, TurnUpdate

T = TypeVar("T")

Listener = Callable[[TurnUpdate], None]


@dataclass(frozen=True, slots=True)
class Unblock:
    """A tool's result for a blocked turn: tokens to append (may be empty), and how the turn goes on."""

    turn: TurnId
    tokens: tuple[int, ...]
    max_tokens: int = 256
    then_block: str | None = None


class Sink(Protocol):
    """Where the host puts what happened. Called on the engine's thread: must copy and return at once. The session is
    named in `begin` and the same until the next `begin`."""

    def begin(self, session: str, snapshot: Snapshot) -> None: ...
    def event(self, event: Event) -> None: ...
    def interval(self, interval: Interval) -> None: ...
    def sample(self, sample: Sample) -> None: ...

    @property
    def behind(self) -> int:
        """Records taken and not yet stored."""
        ...


class TwinControl(Protocol):
    """A modelled card in the engine's place. `author` as in Control. The first two return at once, with the sentence on
    what happens; recorded data stays."""

    def start_twin(self, card: str, author: str = "api") -> str:
        """Stop the engine (turns fail with a sentence) and start the twin of this card, by its id, with the card's own
        knobs. Raises Refused, and nothing ends, for a card that is not there or that no twin can run."""
        ...

    def leave_twin(self, author: str = "api") -> str:
        """Stop the twin and start what ran before it, as the operator left that. Raises Refused without a twin."""
        ...

    def set_card(self, changes: Mapping[str, object], author: str = "api") -> "Future[ModelledCard]":
        """Change figures of the running twin's card, by the names in ModelledCard.own and in its units, `overlap` and
        `pace`. Validated as a whole; each changed one becomes one event, all at one instant."""
        ...


class AgentControl(Protocol):
    """What agents use of a Control: a player on the engine's own thread has no more than this."""

    @property
    def snapshot(self) -> Snapshot: ...
    @property
    def model(self) -> ServedModel | None: ...
    def submit(
        self, request: TurnRequest, listener: Listener | None = None, author: str = "api"
    ) -> "Future[TurnId]": ...
    def unblock(self, result: Unblock, author: str = "api") -> "Future[str]": ...
    def cancel(self, turn: TurnId, author: str = "api") -> "Future[str]": ...
    def note(self, text: str, author: str = "api", kind: EventKind = EventKind.SWARM) -> "Future[None]": ...


class Control(Protocol):
    """`author` names who asks, for the event: a browser tab ('tab 1'), cli, api, swarm, schedule, bench."""

    @property
    def snapshot(self) -> Snapshot:
        """The latest; an immutable object, replaced after each step."""
        ...

    @property
    def now(self) -> float:
        """The engine's clock, monotonic seconds."""
        ...

    @property
    def model(self) -> ServedModel | None:
        """None until it is loaded."""
        ...

    def samples(self, since: float = float("-inf")) -> Sequence[Sample]:
        """Points of the charts with `at` > since (engine clock), oldest first: the last three minutes whole, older ones
        thinned, about 1,000 in all however long the engine runs."""
        ...

    def events(self) -> Sequence[Event]:
        """The latest events, oldest first; bounded in number. The latest changes of knobs and swarm are among them
        whatever has happened since."""
        ...

    def moves(self) -> Sequence[MoveCost]:
        """What each swap and recompute of the session cost, oldest first; the latest few thousand."""
        ...

    def submit(self, request: TurnRequest, listener: Listener | None = None, author: str = "api") -> "Future[TurnId]":
        """Refused: a prompt that can never fit (sizes in the sentence), bad sampling values, an engine not running."""
        ...

    def block(self, turn: TurnId, tool: str, author: str = "api") -> "Future[str]":
        """The turn waits on a tool from the next token boundary; its slot is free at once, its context kept."""
        ...

    def unblock(self, result: Unblock, author: str = "api") -> "Future[str]": ...
    def cancel(self, turn: TurnId, author: str = "api") -> "Future[str]": ...
    def pause(self, turn: TurnId, author: str = "api") -> "Future[str]": ...
    def resume(self, turn: TurnId, author: str = "api") -> "Future[str]": ...
    def swap_out(self, turn: TurnId, author: str = "api") -> "Future[str]": ...
    def drop(self, turn: TurnId, author: str = "api") -> "Future[str]": ...

    def set_knobs(self, changes: Mapping[str, object], author: str = "api") -> "Future[Knobs]":
        """Validated as a whole; each changed knob becomes one event, all of them at one instant (engine/changes.py)."""
        ...

    def preview(self, changes: Mapping[str, object]) -> "Future[Preview]":
        """What `set_knobs` would do at this token boundary, and what it would refuse, in the same sentences; nothing
        changes."""
        ...

    def probe(self, probe: Probe[T], session: str) -> "Future[T]":
        """One measurement at a token boundary of the engine of `session`. Refused (TurnsOpen) while any turn is
        open, and for an engine that is over; what the engine shows and books does not know of it."""
        ...

    def turn_detail(self, turn: TurnId) -> "Future[TurnDetail]":
        """All that is known of one turn, as it is at the next token boundary. Refused for a turn that is neither live
        nor one of the last few that ended."""
        ...

    def note(self, text: str, author: str = "api", kind: EventKind = EventKind.SWARM) -> "Future[None]":
        """Write a sentence into the events: something that was done beside the engine (the swarm's speed, say), or a
        REFUSE, whose turn the engine never had."""
        ...

    def restart(self, model: str | None = None, backend: str | None = None, author: str = "api") -> None:
        """Stop the engine (turns fail with a sentence) and start it again, on another model or backend if named; None:
        on those that ran last. Recorded data and knobs stay. Returns at once; the snapshot shows the progress, and the
        event that it is ready has the author. Raises ModelError or Refused, and nothing ends, for a name that is no
        file, no directory and no Hugging Face id, or a backend that cannot be chosen."""
        ...
