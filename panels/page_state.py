"""How a tab looks at the Live page: window, units, events, refresh. It stands in the address, so that it can be shared,
and in the tab's session, so that it is still there after a look at another page."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import streamlit as st

from panels.scale import ScaleName

WINDOWS = {"2min": "2 min", "10min": "10 min", "all": "all"}
WINDOWS_S = {"2min": 120.0, "10min": 600.0, "all": float("inf")}
UNITS: dict[str, ScaleName] = {"card": "card scale", "machine": "this machine"}
EVENTS = {"moves": "moves and knobs", "all": "all events"}
PERIODS_S = (0.5, 0.8, 2.0, 5.0, 10.0)
KEY = "page_state"


@dataclass(frozen=True, slots=True)
class PageState:
    """`every`: seconds between two refreshes; the default keeps two tabs within a second of each other."""

    window: str = "10min"
    units: str = "card"
    events: str = "moves"
    every: float = 0.8
    paused: bool = False

    @property
    def window_s(self) -> float:
        return WINDOWS_S[self.window]

    @property
    def scale(self) -> ScaleName:
        return UNITS[self.units]

    def changed(self, change: Mapping[str, Any]) -> "PageState":
        """With the values of `change` that are allowed; others change nothing."""
        taken = {name: value for name, value in change.items() if name in ALLOWED and value in ALLOWED[name]}
        return replace(self, **taken)


ALLOWED: dict[str, tuple[Any, ...]] = {
    "window": tuple(WINDOWS),
    "units": tuple(UNITS),
    "events": tuple(EVENTS),
    "every": PERIODS_S,
    "paused": (False, True),
}
PLAIN = PageState()


def from_query(query: Mapping[str, str]) -> PageState:
    """What an address says; the plain page's value for what it does not say, or says wrongly."""
    said = {name: value for name, text in query.items() if (value := _parsed(name, text)) is not None}
    return PLAIN.changed(said)


def to_query(state: PageState) -> dict[str, str]:
    """What differs from the plain page."""
    names = [field.name for field in fields(PageState)]
    return {name: _text(getattr(state, name)) for name in names if getattr(state, name) != getattr(PLAIN, name)}


def adopt() -> PageState:
    """At the start of the page: the address wins; without one of ours in it, the tab's own state goes into it."""
    ours = {name: value for name, value in st.query_params.items() if name in ALLOWED}
    if ours or KEY not in st.session_state:
        st.session_state[KEY] = from_query(ours)
    _write(current())
    return current()


def current() -> PageState:
    state: PageState = st.session_state.get(KEY, PLAIN)
    return state


def change(values: Mapping[str, Any]) -> None:
    st.session_state[KEY] = current().changed(values)
    _write(current())


def _write(state: PageState) -> None:
    wanted = to_query(state)
    for name in ALLOWED:
        if name not in wanted and name in st.query_params:
            del st.query_params[name]
        elif name in wanted and st.query_params.get(name) != wanted[name]:
            st.query_params[name] = wanted[name]


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else "yes" if value is True else str(value)


def _parsed(name: str, text: str) -> Any:
    match name:
        case "every":
            return next((period for period in PERIODS_S if _text(period) == text), None)
        case "paused":
            return True if text == "yes" else None
        case _:
            return text
