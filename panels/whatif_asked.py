"""What a grid is asked for: workload, agents, how long, and two axes with their values. It is kept apart from the
widgets, whose own state Streamlit drops when the page is left."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial

import streamlit as st

from engine.cards.fields import finite
from engine.cards.store import DEFAULT_CARD, list_cards, load_card
from engine.errors import BadField, Refused
from engine.policies import policies
from engine.twin.grid import AXES, LABELS, MOST_CELLS, TYPED, Axis, AxisName, Grid, grid_of, parsed
from engine.twin.setup import TwinSetup
from engine.twin_body import TwinConfig, refusal
from engine.workload.readers import load_workload, nearest, shipped
from engine.workload.script import Workload
from panels import fields
from panels.card_box import Choice
from panels.plain import plain
from panels.whole import whole

ONCE, HOURS = "once", "for hours"
AGENT_STOPS = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
HOUR_STOPS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
AGENTS, HOURS_FIRST = 20, 0.25
"""So many that a card cannot hold all their turns, so that a grid has something to tell."""
MOST_AGENTS, MOST_HOURS = 256, 24.0
_KEY = "whatif_wish"


def _values() -> dict[AxisName, str]:
    return {"max_running": "4, 6, 8, 12", "agents": "8, 16, 32, 64", "host_pool_bytes": "0, 8, 24, 48",
            "link": "12.5, 25, 50"}  # fmt: skip


def _names() -> dict[AxisName, tuple[str, ...]]:
    return {"kv_dtype": ("fp16", "q8"), "policy": tuple(policies()), "card": (DEFAULT_CARD, "rx7900xtx", "rtx5090")}


@dataclass(frozen=True, slots=True)
class Wish:
    """`workload` "": the one whose turns are as long as the card's. `typed`: the values of axes of numbers, as they
    stand in the field; `names`: those of the others."""

    workload: str = ""
    span: str = ONCE
    across: AxisName = "max_running"
    down: AxisName = "kv_dtype"
    typed: Mapping[AxisName, str] = field(default_factory=_values)
    names: Mapping[AxisName, tuple[str, ...]] = field(default_factory=_names)


@dataclass(frozen=True, slots=True)
class Asked:
    """`grid` None: `problem` says why, one sentence, where no field beside has said it."""

    grid: Grid | None
    problem: str = ""


def wish() -> Wish:
    found: Wish = st.session_state.setdefault(_KEY, Wish())
    return found


def render(choice: Choice) -> Asked:
    """Draws the controls and returns the grid that they ask for."""
    run, axes = st.container(), st.container()
    with run:
        agents, hours = _run(_chosen_workload(wish(), choice))
    with axes:
        down, across = st.columns(2, gap="large")
        with down:
            rows = _axis("down", "Rows", wish().down)
        with across:
            columns = _axis("across", "Columns", wish().across)
    if rows is None or columns is None:
        return Asked(None)
    try:
        return Asked(asked_grid(choice, wish(), agents, hours, columns, rows))
    except Refused as problem:
        return Asked(None, str(problem))


def asked_grid(choice: Choice, now: Wish, agents: int, hours: float, columns: Axis, rows: Axis) -> Grid:
    """Raises Refused for what cannot be asked."""
    if (why := refusal(choice.preset.layout)) is not None:
        raise Refused(f"{why}; choose another model")
    base = TwinSetup(
        card=replace(choice.card, presets=(choice.preset,)),
        workload=_workload(_chosen_workload(now, choice)),
        twin=TwinConfig(choice.preset.name),
        agents=agents,
        hours=hours if now.span == HOURS else None,
    )
    cards = {card: load_card(card) for axis in (columns, rows) if axis.name == "card" for card in map(str, axis.values)}
    return grid_of(base, columns, rows, cards)


def checked_agents(value: object) -> float:
    """Raises BadField."""
    number = finite(value)
    if number is None or not number.is_integer() or not 1 <= number <= MOST_AGENTS:
        raise BadField("agents", f"Agents cannot be {_given(value)}; give a whole number from 1 to {MOST_AGENTS}")
    return number


def checked_hours(value: object) -> float:
    """Raises BadField."""
    number = finite(value)
    if number is None or not 0 < number <= MOST_HOURS:
        raise BadField("hours", f"Hours cannot be {_given(value)}; give more than 0 and at most {MOST_HOURS:g}")
    return number


def _chosen_workload(now: Wish, choice: Choice) -> str:
    """The user's, or the card's."""
    return now.workload or nearest(choice.card.mean_context.amount)


def _run(workload: str) -> tuple[int, float]:
    """Draws workload, agents and how long."""
    left, middle, right = st.columns([1, 1.3, 1.3], gap="large")
    now = wish()
    with left:
        st.session_state.whatif_workload = workload
        st.selectbox(
            "Workload", shipped(), key="whatif_workload", on_change=_chose, args=("workload", "whatif_workload"),
            help=plain(_workload(workload).title),
        )  # fmt: skip
        st.session_state.whatif_span = now.span
        st.segmented_control(
            "Turns", (ONCE, HOURS), key="whatif_span", on_change=_chose, args=("span", "whatif_span"), required=True,
            help="Once: each agent takes its turns once, the run ends with the last and has a makespan.",
        )  # fmt: skip
    with middle:
        agents = fields.figure(
            "whatif_agents", "Agents", AGENTS, AGENT_STOPS, checked_agents, step=1,
            hint="How many run in each cell; more than the workload has go through it again.",
        )  # fmt: skip
        if "agents" in (now.across, now.down):
            st.caption("The axis Agents goes first.")
    with right:
        hours = fields.kept("whatif_hours", HOURS_FIRST)
        if now.span == HOURS:
            hours = fields.figure(
                "whatif_hours", "Modelled time", HOURS_FIRST, HOUR_STOPS, checked_hours, unit="h", step=0.05,
                hint="Agents take their turns over and over; a cell is told by its rate.",
            )  # fmt: skip
    return int(agents), hours


def _axis(which: str, label: str, name: AxisName) -> Axis | None:
    """Draws one axis; None where its values cannot be taken, which is said below the field."""
    key, values = f"whatif_{which}", f"whatif_values_{which}_{name}"
    st.session_state[key] = name
    st.selectbox(label, AXES, key=key, format_func=lambda one: LABELS[one], on_change=_chose, args=(which, key))
    if name in TYPED:
        st.session_state[values] = wish().typed[name]
        unit = f", {TYPED[name]}" if TYPED[name] else ""
        st.text_input(
            f"{LABELS[name]}: values{unit}", key=values, autocomplete="off", on_change=_typed, args=(name, values),
            help=f"Numbers with commas between them; a grid has at most {MOST_CELLS} cells.",
        )  # fmt: skip
        read: Callable[[], Axis] = partial(_typed_axis, name)
    else:
        options = _options(name)
        st.session_state[values] = [one for one in wish().names[name] if one in options]
        st.multiselect(
            f"{LABELS[name]}: values", list(options), key=values, format_func=lambda one: options.get(one, one),
            on_change=_named, args=(name, values),
        )  # fmt: skip
        read = partial(_named_axis, name, tuple(options))
    said = st.container()
    try:
        return read()
    except BadField as problem:
        said.markdown(f":small[:red[{plain(str(problem))}]]")
        return None


def _typed_axis(name: AxisName) -> Axis:
    return Axis(name, parsed(name, wish().typed[name]))


def _named_axis(name: AxisName, options: tuple[str, ...]) -> Axis:
    return Axis(name, tuple(one for one in wish().names[name] if one in options))


def _options(name: AxisName) -> dict[str, str]:
    """Value -> what it is called."""
    if name == "card":
        return {card.id: card.name for card in list_cards().usable()}
    return {one: one for one in (policies() if name == "policy" else ("fp16", "q8"))}


@cache
def _workload(name: str) -> Workload:
    """A shipped one, which does not change."""
    return load_workload(name)


def _given(value: object) -> str:
    return "empty" if value is None else f"{value:,.10g}" if isinstance(value, float) else f"{value!r}"


@whole
def _chose(part: str, key: str) -> None:
    st.session_state[_KEY] = replace(wish(), **{part: st.session_state[key]})


@whole
def _typed(name: AxisName, key: str) -> None:
    st.session_state[_KEY] = replace(wish(), typed={**wish().typed, name: st.session_state[key]})


@whole
def _named(name: AxisName, key: str) -> None:
    st.session_state[_KEY] = replace(wish(), names={**wish().names, name: tuple(st.session_state[key])})
