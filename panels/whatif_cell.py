"""One cell of a grid: what it came to, its turns by phase over modelled time, and applying it to the live engine."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import streamlit as st

from engine.errors import ParkdeckError
from engine.twin.cell import CellResult
from engine.twin.grid import LABELS, Grid
from engine.twin.setup import TwinSummary
from engine.twin.timeline import Point
from engine.words import counted
from panels import asking, chart, components, tab
from panels.asking import Answer
from panels.deck_view import DeckView
from panels.figures import Tile
from panels.marks import scatter
from panels.palette import Palette, ThemeName, palette
from panels.plain import plain
from panels.prices_axes import around, titled
from panels.units import count, rate, seconds, size
from panels.whatif_words import Live, appliable, cell_words, knob_changes, live_of, not_applied, of_what, said

HEIGHT = 330
MARGIN = {"l": 60, "r": 20, "t": 46, "b": 86}
PHASES = (("running", "running_kv"), ("paused", "paused_kv"), ("blocked", "blocked_kv"), ("waiting", "muted"))
"""Of a Point, with the colour of the palette; from the bottom of the stack."""
NAMES = {"running": "running", "paused": "paused", "blocked": "blocked on a tool", "waiting": "waiting"}
SAID = "whatif_applied"


def tiles(summary: TwinSummary) -> tuple[Tile, ...]:
    s = summary
    ended = s.makespan_s is not None
    return (
        Tile("makespan", "Makespan" if ended else "Modelled time", seconds(s.virtual_s),
             f"{counted(s.finished, 'turn')} done",
             "From the first arrival to the last turn's end." if ended else "The agents would have gone on."),
        Tile("rate", "Generated", rate(s.tokens_per_s), f"{s.generated_tokens:,} tokens", "Over the whole run."),
        Tile("ttft", "Foreground TTFT", seconds(s.ttft_foreground_p95_s),
             f"p95, p50 {seconds(s.ttft_foreground_p50_s)}", "From asking to the first token, where a person waits."),
        Tile("itl", "ITL", seconds(s.itl_p99_s), f"p99, p50 {seconds(s.itl_p50_s)}", "Between two tokens of a turn."),
        Tile("peak", "Peak KV", size(s.peak_kv_bytes), "held on the card", "The most that turns held at one instant."),
        Tile("swapped", "Swapped", size(s.swapped_bytes), f"{s.swaps_out:,} out, {s.swaps_in:,} in", "Both ways."),
        Tile("recomputed", "Recomputed", f"{count(s.recomputed_tokens)} tok", counted(s.drops, "drop"),
             "Context that was computed again."),
        Tile("preempted", "Preemptions", f"{s.preemptions:,}", counted(s.stalls, "stall"),
             "Turns that lost their slot to another."),
    )  # fmt: skip


def spec(points: Sequence[Point], words: str, theme: ThemeName) -> dict[str, Any]:
    """Turns by phase, stacked, over modelled seconds, as plain JSON."""
    colours = palette(theme)
    at = [point.at for point in points]
    traces = [_layer(points, at, phase, meaning, colours) for phase, meaning in PHASES]
    layout = around(colours, HEIGHT, MARGIN, "Turns by phase, modelled") | {
        "xaxis": titled(colours, "modelled time, s") | {"rangemode": "tozero"},
        "yaxis": titled(colours, "turns") | {"rangemode": "tozero"},
        "hovermode": "x unified",
        "legend": {"orientation": "h", "y": -0.24, "x": 0, "yanchor": "top", "font": {"size": 11.5}},
        "uirevision": words,
    }  # fmt: skip
    head = ("modelled time (s)", *(f"{NAMES[phase]} (turns)" for phase, _ in PHASES), "host pool in use (bytes)")
    columns = [chart.values(at), *(chart.part(index, "y") for index in range(len(PHASES)))]
    table = chart.table(head, [*columns, chart.values([point.host_bytes for point in points])])
    return {"data": traces, "layout": layout, "alt": sentence(points, words), "table": table}


def sentence(points: Sequence[Point], words: str) -> str:
    """The most turns of each phase, in words."""
    if not points:
        return f"{words}: the run was too short for a timeline."
    most = ", ".join(f"{max(getattr(p, phase) for p in points):,} {NAMES[phase]}" for phase, _ in PHASES)
    host = size(max(point.host_bytes for point in points))
    return f"{words}, over {seconds(points[-1].at)} of modelled time; at most {most}; at most {host} in the host pool."


def render(grid: Grid, number: int, index: int, result: CellResult, deck: DeckView | None, theme: ThemeName) -> None:
    """`number`: of the grid, whose cell `index` is shown."""
    words = cell_words(grid, grid.cells[index])
    st.markdown(f"#### {plain(words)} &nbsp; :gray-badge[modelled]")
    shown = [asdict(figure) for figure in tiles(result.summary)]
    components.tiles({"tiles": shown, "colours": components.colours(palette(theme))}, key="whatif_tiles")
    source = f"{of_what(grid)} · {words} · modelled"
    files = chart.files("what-if", "timeline", f"{grid.base.card.id}-{words}", f"Turns by phase: {words}", source)
    components.live_plot(spec(result.timeline, words, theme) | files, key="whatif_timeline")
    st.caption(plain(sentence(result.timeline, words)))
    _apply_row(grid, (number, index), deck)


def apply(deck: DeckView, grid: Grid, index: int, author: str) -> tuple[Answer, ...]:
    """Asks the live engine for what it has of the cell; an answer for its knobs and one for the agents."""
    cell = grid.cells[index]
    live = live_of(deck.control.snapshot, deck.swarm.state().agents)
    answers = []
    if changes := knob_changes(grid, cell, live):
        named = ", ".join(_of(grid, index, live, name) for name in appliable(grid) if name in changes)
        answer = asking.outcome(deck.control.set_knobs(changes, author=author), named)
        answers.append(Answer(f"{named}: set on the live engine.") if answer.tone == "good" else answer)
    values = {grid.down.name: cell.down, grid.across.name: cell.across}
    if "agents" in values:
        try:
            answers.append(Answer(f"The swarm: {deck.swarm.set_agents(int(values['agents']), author)}"))
        except ParkdeckError as refusal:
            answers.append(Answer(str(refusal), "bad"))
    return tuple(answers)


def _apply_row(grid: Grid, place: tuple[int, int], deck: DeckView | None) -> None:
    snapshot = deck.control.snapshot if deck else None
    names = appliable(grid)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.button(
            "Apply to the engine", key="whatif_apply", icon=":material/tune:",
            disabled=not names or snapshot is None or not snapshot.state.serving,
            on_click=_press, args=(deck, grid, place),
        )  # fmt: skip
        st.caption(plain(_what_apply_does(grid, place[1], deck)))
    answers = st.container()
    asked_for, given = st.session_state.get(SAID, (None, ()))
    if asked_for == place:
        for answer in given:
            ink = {"good": "green", "bad": "red", "wait": "orange"}[answer.tone]
            answers.markdown(f":{ink}[{plain(answer.text)}]")


def _what_apply_does(grid: Grid, index: int, deck: DeckView | None) -> str:
    snapshot = deck.control.snapshot if deck else None
    names, why = appliable(grid), not_applied(grid)
    if not names:
        return why
    if deck is None or snapshot is None or not snapshot.state.serving:
        return f"No engine runs that it could be applied to. {why}".strip()
    live = live_of(snapshot, deck.swarm.state().agents)
    sets = " and ".join(_of(grid, index, live, name) for name in names)
    return f"Sets {sets} of the live engine, at its next token boundary. {why}".strip()


def _of(grid: Grid, index: int, live: Live, name: Any) -> str:
    """One value of the cell as it is set on the live engine."""
    cell = grid.cells[index]
    value = cell.down if name == grid.down.name else cell.across
    text = f"{LABELS[name]} {said(name, value)}"
    if name != "host_pool_bytes" or live.bytes_factor == 1.0:
        return text
    return f"{text} ({size(float(value) / live.bytes_factor)} of this machine, at the card's scale)"


def _press(deck: DeckView, grid: Grid, place: tuple[int, int]) -> None:
    answers = apply(deck, grid, place[1], tab.open_tab(deck))
    st.session_state[SAID] = (place, answers)


def _layer(points: Sequence[Point], at: Sequence[float], phase: str, meaning: str, colours: Palette) -> dict[str, Any]:
    ink: str = getattr(colours, meaning)
    return scatter(
        x=at, y=[getattr(point, phase) for point in points], name=NAMES[phase], mode="lines", stackgroup="turns",
        line={"width": 0.5, "color": colours.surface, "shape": "vh"}, fillcolor=ink,
        hovertemplate="%{y:,}<extra>%{fullData.name}</extra>",
    )  # fmt: skip
