"""What is moved and not applied: the choice of a preview first, its sentence as things are now, Apply and Discard."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass

import streamlit as st

from engine.control import Control
from engine.errors import ParkdeckError
from engine.preview import Preview
from engine.snapshot import Snapshot
from panels.asking import Answer
from panels.plain import plain
from panels.preview_words import change, effects

AT_ONCE, FIRST = "apply at once", "preview first"
PATIENCE_S = 0.3
WAITING = Answer("Asked what it would do; the answer comes at the next token boundary.", "wait")


@dataclass(slots=True)
class _Asked:
    """`told`: the latest answer for these `changes`, while a newer one is on its way."""

    changes: dict[str, object]
    future: "Future[Preview]"
    told: Preview | Answer


def wanted() -> bool:
    """This tab wants a preview before a change."""
    return bool(st.session_state.get("knobs_preview_first"))


def choice(discard: Callable[[], None]) -> None:
    """At once or preview first, per tab. Turning the preview off discards what is not applied."""

    def moved() -> None:
        st.session_state.knobs_preview_first = st.session_state.knobs_mode == FIRST
        if not wanted():
            discard()

    shown = st.segmented_control(
        "A change applies",
        (AT_ONCE, FIRST),
        default=FIRST if wanted() else AT_ONCE,
        key="knobs_mode",
        on_change=moved,
        label_visibility="collapsed",
        required=True,
        width="stretch",
    )
    # A page that outlives its server still shows its own choice, and nobody has moved it.
    st.session_state.knobs_preview_first = shown == FIRST


def render(
    control: Control,
    snapshot: Snapshot,
    changes: Mapping[str, object],
    apply: Callable[[], None],
    discard: Callable[[], None],
) -> None:
    told = ask(control, changes)
    refused = isinstance(told, Answer) and told.tone == "bad"
    with st.container(border=True, gap="small"):
        with st.container(gap="small"):
            if isinstance(told, Preview):
                agents = {row.id: row.agent for row in snapshot.turns}
                lines = ";  \n".join(plain(effect) for effect in effects(told, agents, snapshot.average_turn_tokens))
                st.markdown(f"**{plain(change(told.old, told.new))}:** {lines}")
                st.caption("Now, on this machine; times from measured rates.")
            elif refused:
                st.error(plain(told.text))
            else:
                st.caption(told.text)
        with st.container(horizontal=True, gap="small"):
            st.button(
                "Apply", key="knobs_apply", type="primary", on_click=apply, width="stretch",
                disabled=refused or snapshot.bands is None,
            )  # fmt: skip
            st.button("Discard", key="knobs_discard", on_click=discard, width="stretch")


def ask(control: Control, changes: Mapping[str, object]) -> Preview | Answer:
    """The engine's answer as its state is now; the last one while it is in a long step."""
    asked: _Asked | None = st.session_state.get("preview_asked")
    if asked is None or asked.changes != changes:
        asked = _Asked(dict(changes), control.preview(changes), WAITING)
    elif asked.future.done():
        asked = _Asked(asked.changes, control.preview(changes), _answer(asked, 0.0))
    st.session_state.preview_asked = asked
    asked.told = _answer(asked, PATIENCE_S)
    return asked.told


def _answer(asked: _Asked, patience: float) -> Preview | Answer:
    """What was answered within `patience` seconds, else what was told before."""
    try:
        return asked.future.result(timeout=patience)
    except TimeoutError:
        return asked.told
    except ParkdeckError as refusal:
        return Answer(str(refusal), "bad")
