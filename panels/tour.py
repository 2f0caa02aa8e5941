"""The tour's band above the figures. `band` is free of Streamlit; `render` draws it. Reading an earlier step again is
the browser's (assets/js/tour.js)."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import streamlit as st

from engine.errors import ParkdeckError
from engine.snapshot import Snapshot
from engine.workload.tour.state import Phase, TourState
from panels import components, tab
from panels.asked import Request
from panels.asking import Answer
from panels.deck_view import SwarmControl, TourControl
from panels.palette import ThemeName, palette
from panels.units import clock
from panels.whole import keep

KEY = "tour_band"
REFUSED = "tour_refused"
OFFER = "New here? Six steps on this running engine show what a paused turn costs: a few minutes."
STOPS = "The swarm stops for it; knobs that it changes are put back."
ENDING = "The tour's turns are cancelled and the knobs put back."


def start(tour: TourControl) -> Answer:
    """Begin the tour in this tab; its refusal is a sentence for the user."""
    st.session_state.pop(REFUSED, None)
    try:
        return Answer(tour.start(tab.author()))
    except ParkdeckError as refusal:
        return Answer(str(refusal), "bad")


def running(state: TourState) -> bool:
    return state.phase in (Phase.RUNNING, Phase.ENDING)


def band(state: TourState, mine: str, snapshot: Snapshot, swarm_runs: bool) -> dict[str, Any]:
    """What the band shows: `mode` none, offer, lead, watch, ending or over."""
    mode = _mode(state, mine, snapshot, swarm_runs)
    title, note = {
        "offer": ("A tour of the deck", f"{OFFER} {STOPS}"),
        "ending": ("The tour ends", ENDING),
        "over": ("The tour is over", state.note),
    }.get(mode, ("", ""))
    return {
        "mode": mode,
        "step": state.step,
        "steps": [asdict(step) for step in state.steps],
        "title": title,
        "note": note,
        "swarm": mode == "over" and state.swarm_ran and not swarm_runs and snapshot.state.serving,
        "led": f"Led by {state.owner} since {clock(state.since_utc)} UTC; this one watches.",
    }


def render(tour: TourControl, swarm: SwarmControl, snapshot: Snapshot, theme: ThemeName) -> None:
    """One element, always there; it takes no room when there is nothing to say."""
    mine = tab.author()
    data = band(tour.look(mine), mine, snapshot, swarm.state().running)
    data |= {"refused": st.session_state.get(REFUSED, ""), "colours": components.colours(palette(theme))}

    def act(requests: Iterable[Request]) -> None:
        for request in requests:
            keep(REFUSED, _press(tour, swarm, mine, request.get("verb")))

    components.tour(data, key=KEY, on_asked=act)


def _mode(state: TourState, mine: str, snapshot: Snapshot, swarm_runs: bool) -> str:
    match state.phase:
        case Phase.RUNNING:
            return "lead" if state.owner == mine else "watch"
        case Phase.ENDING:
            return "ending"
        case Phase.OVER:
            return "over"
    return "offer" if snapshot.state.serving and not snapshot.turns and not swarm_runs else "none"


def _press(tour: TourControl, swarm: SwarmControl, mine: str, verb: Any) -> str:
    """Carry a press out; returns the refusal, '' when there is none."""
    try:
        match verb:
            case "start":
                tour.start(mine)
            case "act":
                tour.act(mine)
            case "next":
                tour.next(mine)
            case "leave":
                tour.leave(mine)
            case "swarm":
                swarm.start(mine)
                tour.close()
            case "close":
                tour.close()
    except ParkdeckError as refusal:
        return f"{str(refusal)[:1].upper()}{str(refusal)[1:]}."
    return ""
