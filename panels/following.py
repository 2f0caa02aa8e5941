"""Widgets that show the engine's value and never send an old one back.

A browser tab reports the values of all its widgets with every rerun, so a tab that has not yet drawn a new value would
report the old one, and Streamlit would take that for its user's wish. Therefore a value that comes from elsewhere is
shown by a NEW widget (its key carries a revision): what a tab still says of the old one concerns nobody. A widget that
its own user has moved keeps its key, so no drag is cut short.
"""

from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import streamlit as st


@dataclass(slots=True)
class _Shown:
    """`value` is the engine's; `until`: this tab's own change has been answered, and readings up to that time may be
    from before it; `pending`: asked and not yet answered."""

    value: Any
    revision: int = 0
    until: float | None = None
    pending: "Future[Any] | None" = None


def follow(name: str, value: Any, at: float) -> tuple[str, Any]:
    """The key for the widget of `name` and the value to start it with. `value` is the engine's, `at` its clock."""
    shown = _all().setdefault(name, _Shown(value))
    if shown.pending is not None:
        return key(name), shown.value
    if value == shown.value:
        shown.until = None
    elif shown.until is None or at > shown.until:
        _show(shown, value)
    return key(name), shown.value


def key(name: str) -> str:
    shown = _all().get(name)
    return f"{name}_{shown.revision if shown else 0}"


def moved(name: str) -> Any:
    """What the user has set the widget to, in the widget's own units."""
    return st.session_state[key(name)]


def settle(name: str, value: Any, until: float) -> None:
    """The engine has taken the user's value. Readings up to the time `until` may be older than that."""
    shown = _all()[name]
    shown.value, shown.until, shown.pending = value, until, None


def refuse(name: str, value: Any) -> None:
    """The engine has not: show its own value again."""
    shown = _all()[name]
    shown.until = shown.pending = None
    _show(shown, value)


def ask(name: str, future: "Future[Any]") -> None:
    """The engine has not answered yet: leave the widget alone until it has."""
    _all()[name].pending = future


def answered(name: str) -> "Future[Any] | None":
    """The answer that came late, once; None while there is none."""
    shown = _all().get(name)
    if shown is None or shown.pending is None or not shown.pending.done():
        return None
    future, shown.pending = shown.pending, None
    return future


def _show(shown: _Shown, value: Any) -> None:
    shown.value, shown.revision, shown.until = value, shown.revision + 1, None


def _all() -> dict[str, _Shown]:
    table: dict[str, _Shown] = st.session_state.setdefault("followed_widgets", {})
    return table
