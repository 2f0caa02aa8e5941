"""The twin on the Live page: one click there and back, its pace, and the sliders of the card that it runs. A widget
shows the engine's value and sends only what its user has just moved (following.py)."""

from collections.abc import Callable, Hashable
from concurrent.futures import Future
from functools import partial
from typing import Any

import streamlit as st

from engine.cards.fields import FIELDS
from engine.cards.profile import GIB, UNITS
from engine.cards.store import load_card
from engine.control import Control, TwinControl
from engine.errors import ParkdeckError
from engine.events import PACE
from engine.live_card import FIGURES, OVERLAP, PACES, pace_word
from engine.snapshot import ModelledCard, Snapshot
from engine.virtual_clock import FASTEST
from panels import following, tab
from panels.asking import Answer, outcome
from panels.card_state import kept
from panels.plain import plain

NOTE = "twin_note"
SHARES = (0.1, 0.2, 0.25, 0.4, 0.5, 0.6, 0.75, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 2.5, 4.0, 5.0, 10.0)
"""What a slider offers, of the card's own."""
ROUND = (0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""The same in the figure's unit, where the card's own is nothing."""
GIB_STEPS = 16
"""Half GiB that a slider of bytes offers on either side."""


def shown(snapshot: Snapshot) -> Hashable | None:
    """All that `render` draws from; None while an answer is to come."""
    if not following.settled(map(_widget, (PACE, OVERLAP, *FIGURES))):
        return None
    return snapshot.twin, snapshot.modelled, snapshot.session if snapshot.twin else "", kept().card


def render(twin: TwinControl, control: Control) -> None:
    """In a fragment in the sidebar that runs when `shown` is another. What comes and goes has a place of its own."""
    _late_answers(twin, control)
    snapshot = control.snapshot
    pressed, said, paced, listed = (st.container(gap="xsmall") for _ in range(4))
    with pressed:
        _button(twin, snapshot)
    with said:
        _say()
    card = snapshot.modelled
    if card is not None:
        with paced:
            _pace(twin, control, card)
        with listed, st.expander(f"Card: {plain(card.name)}, modelled", icon=":material/tune:"):
            _figures(twin, control, card)


def stops(name: str, own: float, now: float) -> list[float]:
    """What the slider of a figure offers, by size: around the card's own, which is among them, and the present one."""
    field = FIELDS[name]
    if field.units[0] == "GiB":
        around = [own + step * GIB / 2 for step in range(-GIB_STEPS, GIB_STEPS + 1)]
    elif own == 0:
        around = [each * UNITS[field.units[0]] for each in ROUND]
    else:
        around = [own * share for share in SHARES]
    return sorted({own, now, *(value for value in around if field.low <= value <= field.high)})


def figure_word(name: str, amount: float) -> str:
    """'50 GB/s'."""
    unit = FIELDS[name].units[0]
    return f"{_in_unit(name, amount)} {unit}"


def value_word(name: str, value: Any) -> str:
    """Of what can be set of a card: '50 GB/s', 'on'."""
    return ("on" if value else "off") if name == OVERLAP else figure_word(name, value)


def label(name: str) -> str:
    words = {PACE: "Pace", OVERLAP: "Overlap of copies"}
    return words.get(name) or FIELDS[name].label


def kept_line(card: ModelledCard) -> str:
    """How fast modelled time goes."""
    asked = "as fast as it goes" if card.pace == FASTEST else f"{card.pace:g}x real time"
    return f"Modelled time: {asked}." + (f" Lately {card.kept:g}x." if card.kept is not None else "")


def _button(twin: TwinControl, snapshot: Snapshot) -> None:
    if snapshot.twin:
        st.button(
            "Back to the real engine", key="twin_leave", icon=":material/undo:", width="stretch",
            on_click=_press, args=(lambda: twin.leave_twin(tab.author()),),
            help="Ends the twin's turns and starts what ran before: model, backend and knobs.",
        )  # fmt: skip
        return
    card = _chosen()
    st.button(
        f"Twin: {plain(_name(card))}", key="twin_start", icon=":material/memory_alt:", width="stretch",
        on_click=_press, args=(lambda: twin.start_twin(card, tab.author()),),
        help="The same engine over a modelled card, on a modelled clock, in the real one's place. Ends the present "
        "turns; one click brings the real engine back. The card is the one chosen on Planner or Prices.",
    )  # fmt: skip


def _press(verb: Callable[[], str]) -> None:
    try:
        st.session_state[NOTE] = Answer(verb())
    except ParkdeckError as refusal:
        st.session_state[NOTE] = Answer(str(refusal), "bad")


def _say() -> None:
    note: Answer | None = st.session_state.get(NOTE)
    if note is not None and note.tone == "bad":
        st.markdown(f":small[:red[{plain(note.text)}]]")
    elif note is not None:
        st.caption(plain(note.text))


def _pace(twin: TwinControl, control: Control, card: ModelledCard) -> None:
    key, value = following.follow(_widget(PACE), card.pace, control.snapshot.at)
    st.segmented_control(
        "Pace", sorted({*PACES, value}), default=value, required=True, key=key, format_func=pace_word, width="stretch",
        on_change=_moved, args=(twin, control, PACE), help="Modelled seconds for each real one; max: all it can.",
    )  # fmt: skip
    st.caption(kept_line(card))


def _figures(twin: TwinControl, control: Control, card: ModelledCard) -> None:
    now = dict(card.now)
    for name, own in card.own:
        with st.container(gap=None):
            key, value = following.follow(_widget(name), now[name], control.snapshot.at)
            st.select_slider(
                f"{FIELDS[name].label}, {FIELDS[name].units[0]}", stops(name, own, value), value=value, key=key,
                format_func=partial(_in_unit, name), help=FIELDS[name].hint,
                on_change=_moved, args=(twin, control, name),
            )  # fmt: skip
            if now[name] != own:
                st.markdown(f":small[:orange[changed], card: {figure_word(name, own)}]")
    key, on = following.follow(_widget(OVERLAP), card.overlap, control.snapshot.at)
    st.toggle(
        "Copies overlap the steps", value=on, key=key, on_change=_moved, args=(twin, control, OVERLAP),
        help="Off: the engine stands still for each copy.",
    )  # fmt: skip
    st.button(
        "Reset to the card", key="twin_reset", icon=":material/restart_alt:", width="stretch",
        disabled=not card.changed, on_click=_reset, args=(twin, control),
    )  # fmt: skip


def _moved(twin: TwinControl, control: Control, name: str) -> None:
    wanted = following.moved(_widget(name))
    if wanted is not None:
        _ask(twin, control, {name: wanted})


def _reset(twin: TwinControl, control: Control) -> None:
    card = control.snapshot.modelled
    if card is not None and card.changed:
        _ask(twin, control, dict(card.changed))


def _ask(twin: TwinControl, control: Control, changes: dict[str, float]) -> None:
    future = twin.set_card(changes, tab.author())
    _take(control, tuple(changes), outcome(future, _labels(tuple(changes))), future)


def _take(control: Control, names: tuple[str, ...], answer: Answer, future: "Future[ModelledCard]") -> None:
    st.session_state[NOTE] = answer
    snapshot = control.snapshot
    for name in names:
        if answer.tone == "wait":
            following.ask(_widget(name), future)
        elif answer.tone == "good":
            following.settle(_widget(name), _value(future.result(), name), snapshot.at)
        elif snapshot.modelled is not None:
            following.refuse(_widget(name), _value(snapshot.modelled, name))


def _late_answers(twin: TwinControl, control: Control) -> None:
    for name in (PACE, OVERLAP, *FIGURES):
        future = following.answered(_widget(name))
        if future is not None:
            _take(control, (name,), outcome(future, _labels((name,))), future)


def _value(card: ModelledCard, name: str) -> Any:
    return {**dict(card.now), PACE: card.pace, OVERLAP: card.overlap}[name]


def _labels(names: tuple[str, ...]) -> str:
    return ", ".join(map(label, names))


def _in_unit(name: str, amount: float) -> str:
    return f"{amount / UNITS[FIELDS[name].units[0]]:.5g}"


def _widget(name: str) -> str:
    return f"twin_{name}"


def _chosen() -> str:
    """The card that the tab has chosen on the paper pages."""
    return kept().card


def _name(card: str) -> str:
    """A card's own name; its id for one that cannot be read, which the start then says."""
    try:
        return load_card(card).name
    except ParkdeckError:
        return card
