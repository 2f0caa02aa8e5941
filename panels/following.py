"""Widgets that show the engine's value and never send an old one back.

A browser tab reports the values of all its widgets with every rerun, so a tab that has not yet drawn a new value would
report the old one, and Streamlit would take that for its user's wish. Therefore a value that comes from elsewhere is
shown by a NEW widget (its key carries a revision): what a tab still says of the old one concerns nobody. A widget that
its own user has moved keeps its key, so no drag is cut short. A page that outlives its server tells the next one of
its widgets too, and Streamlit would show their old values: so a key carries a word of its session's own. A draft, moved
and not to be sent yet, stays in its widget whatever the engine's value becomes, until it is settled or discarded.
"""

import secrets
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import streamlit as st


@dataclass(slots=True)
class _Shown:
    """`value` is the engine's; `until`: this tab's own change has been answered, and readings up to that time may be
    from before it; `pending`: asked and not yet answered; `draft`: the user's value that the engine shall not have
    yet."""

    value: Any
    revision: int = 0
    until: float | None = None
    pending: "Future[Any] | None" = None
    draft: Any = None


def follow(name: str, value: Any, at: float) -> tuple[str, Any]:
    """The key for the widget of `name` and the value to start it with. `value` is the engine's, `at` its clock."""
    shown = _all().setdefault(name, _Shown(value))
    if shown.draft is not None and (shown.pending is not None or value != shown.draft):
        return key(name), shown.draft
    if shown.pending is not None:
        return key(name), shown.value
    if shown.draft is not None:
        shown.value, shown.draft = value, None
    if value == shown.value:
        shown.until = None
    elif shown.until is None or at > shown.until:
        _show(shown, value)
    return key(name), shown.value


def key(name: str) -> str:
    shown = _all().get(name)
    return f"{name}_{session_word()}_{shown.revision if shown else 0}"


def session_word() -> str:
    """Of this session alone: no widget of an earlier one has it in its key."""
    word: str = st.session_state.setdefault("followed_in", secrets.token_hex(4))
    return word


def moved(name: str) -> Any:
    """What the user has set the widget to, in the widget's own units."""
    return st.session_state[key(name)]


def settle(name: str, value: Any, until: float) -> None:
    """The engine has taken the user's value. Readings up to the time `until` may be older than that."""
    shown = _all()[name]
    shown.value, shown.until, shown.pending, shown.draft = value, until, None, None


def refuse(name: str, value: Any) -> None:
    """The engine has not: show its own value again. A draft stays."""
    shown = _all()[name]
    shown.until = shown.pending = None
    if shown.draft is None:
        _show(shown, value)


def draft(name: str, value: Any) -> None:
    """The user's value, in the engine's units, is not to be sent yet."""
    _all()[name].draft = value


def drafted(name: str) -> Any:
    """The draft that waits to be sent; None: there is none, or it has been sent."""
    shown = _all().get(name)
    return None if shown is None or shown.pending is not None else shown.draft


def discard(name: str, value: Any) -> None:
    """No draft any more: show the engine's `value`."""
    shown = _all()[name]
    shown.draft = None
    _show(shown, value)


def settled(names: Iterable[str]) -> bool:
    """Nothing is under way in these widgets: no draft, no answer to come, no reading that may be older than one."""
    shown = [found for name in names if (found := _all().get(name)) is not None]
    return all(one.pending is None and one.until is None and one.draft is None for one in shown)


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
