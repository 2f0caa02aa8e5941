"""What all policies are compared on: the swarm's agents on the card of the sidebar, with the live engine's knobs."""

from dataclasses import dataclass, replace

from engine.errors import Refused
from engine.snapshot import Snapshot
from engine.twin.compare import Play, compared
from engine.twin.grid import Grid
from engine.twin_body import refusal
from engine.workload.readers import DEFAULT, load_workload
from panels.card_box import Choice
from panels.deck_view import DeckView


@dataclass(frozen=True, slots=True)
class Asked:
    """`grid` None: `problem` says why, one sentence."""

    grid: Grid | None
    problem: str = ""


def asked(choice: Choice, deck: DeckView | None) -> Asked:
    """As things are now."""
    try:
        if (why := refusal(choice.preset.layout)) is not None:
            raise Refused(f"{why}; choose another model")
        live, play = serving(deck), _play(deck)
        card = replace(choice.card, presets=(choice.preset,))
        return Asked(compared(card, choice.preset.name, play, live))
    except Refused as problem:
        return Asked(None, str(problem))


def serving(deck: DeckView | None) -> Snapshot | None:
    """Of an engine that takes commands; None: none does."""
    snapshot = deck.control.snapshot if deck else None
    return snapshot if snapshot is not None and snapshot.state.serving else None


def _play(deck: DeckView | None) -> Play:
    """The swarm's, also one that is stopped; without any agents the workload's own number."""
    if deck is None:
        workload = load_workload(DEFAULT)
        return Play(workload, workload.agents_nominal)
    state, workload = deck.swarm.state(), deck.swarm.workload()
    return Play(workload, state.agents or workload.agents_nominal, state.speed)
