"""The effect card: what the latest change of knobs, or of a twin's card, did, below the chart of every tab, with its
undo. Figures come from engine/effect.py, their words from effect_words.py."""

from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, replace
from typing import Any

import streamlit as st

from engine.changes import Change, changes, latest_change, overruled
from engine.control import Control, TwinControl
from engine.effect import Effect, Stage, effect
from engine.events import Event
from engine.knob_words import label, names
from engine.snapshot import Sample, Snapshot
from panels import components, effect_words, tab, twin_box
from panels.asked import Request
from panels.asking import Answer, outcome
from panels.palette import ThemeName, palette
from panels.preview_words import in_unit
from panels.scale import Scale
from panels.units import clock
from panels.whole import keep

KEY = "effect"
DISMISSED = "effect_dismissed"
MEASURED = "effect_measured"
TOLD = "effect_told"
TOLD_S = 20.0


@dataclass(frozen=True, slots=True)
class Undone:
    """What became of this tab's last undo, asked at `at`, engine clock; `future`: while it is not carried out."""

    answer: Answer
    at: float
    future: "Future[Any] | None" = None


def undo(control: Control, twin: TwinControl, key: str, author: str) -> Undone:
    """Set what the change named `key` set back, unless some of it was set again since."""
    at = control.snapshot.at
    known = changes(control.events())
    change = next((found for found in known if found.key == key), None)
    if change is None:
        return Undone(Answer("Not undone: that change is no longer known; set it back by hand.", "bad"), at)
    since = overruled(change, known)
    if since is not None:
        return Undone(Answer(f"Not undone: {_set_again(*since)}.", "bad"), at)
    future: Future[Any] = (twin.set_card if change.of_card else control.set_knobs)(change.old, author=author)
    answer = outcome(future, "Undo")
    if answer.tone == "good":
        answer = Answer(f"Undone: {_back(change)}.")
    return Undone(answer, at, future if answer.tone == "wait" else None)


def settled(undone: Undone) -> Undone:
    """The same with its answer, once it has been carried out."""
    if undone.future is None or not undone.future.done():
        return undone
    return replace(undone, answer=outcome(undone.future, "Undo", patience=0), future=None)


def card(shown: Effect, snapshot: Snapshot, scale: Scale, undone: Undone | None) -> dict[str, Any]:
    """What the element shows."""
    change = shown.change
    recent = undone is not None and snapshot.at - undone.at < TOLD_S
    return {
        "key": change.key,
        "title": change.text,
        "meta": [tab.by(change.author), f"{clock(change.utc)} UTC", f"step {change.step:,}", effect_words.took(shown)],
        "cells": [asdict(cell) for cell in effect_words.cells(shown, scale, snapshot.bands)],
        "note": effect_words.note(shown),
        "told": undone.answer.text if undone and recent else "",
        "tone": undone.answer.tone if undone and recent else "",
        "can_undo": snapshot.state.serving and snapshot.twin >= change.of_card,
    }


def render(
    control: Control,
    twin: TwinControl,
    snapshot: Snapshot,
    events: Sequence[Event],
    samples: Sequence[Sample],
    scale: Scale,
    theme: ThemeName,
) -> None:
    """Of the latest change; nothing before the first, and once it is dismissed in this tab. All of one reading."""
    change = latest_change(events)
    if change is None or st.session_state.get(DISMISSED) == change.key:
        return
    undone: Undone | None = st.session_state.get(TOLD)
    if undone is not None:
        undone = st.session_state[TOLD] = settled(undone)
    data = card(_measured(snapshot, events, samples, change), snapshot, scale, undone)

    author = tab.author()

    def act(requests: Iterable[Request]) -> None:
        for request in requests:
            match request:
                case {"verb": "undo", "change": str(key)}:
                    keep(TOLD, undo(control, twin, key, author))
                case {"verb": "dismiss", "change": str(key)}:
                    keep(DISMISSED, key)

    data["colours"] = components.colours(palette(theme))
    components.effect(data, key=KEY, on_asked=act)


def _measured(snapshot: Snapshot, events: Sequence[Event], samples: Sequence[Sample], change: Change) -> Effect:
    """Once it is complete it stays, though the samples of its time are thinned later."""
    kept: Effect | None = st.session_state.get(MEASURED)
    if kept is not None and kept.change == change:
        return kept
    shown = effect(change, events, samples, snapshot.at)
    if shown.stage is Stage.DONE:
        st.session_state[MEASURED] = shown
    return shown


def _set_again(event: Event, since: Change) -> str:
    name = event.name or ""
    return f"{_label(name)} was changed since {tab.by(since.author)}, to {_value(name, since)}, at step {since.step:,}"


def _value(name: str, change: Change) -> str:
    return next(event.text for event in change.events if event.name == name).partition(" → ")[2]


def _back(change: Change) -> str:
    return ", ".join(f"{_label(name)} is {_said(name, value)} again" for name, value in change.old.items())


def _label(name: str) -> str:
    return label(name) if name in names() else twin_box.label(name)


def _said(name: str, value: object) -> str:
    return in_unit(name, value) if name in names() else twin_box.value_word(name, value)
