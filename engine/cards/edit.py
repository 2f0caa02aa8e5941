"""A profile from what somebody typed into a form: every figure is checked, and every wrong one has its sentence."""

import re
from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from typing import Any

from engine.cards.fields import FIELDS, checked_figure
from engine.cards.profile import CardProfile, Figure, Preset
from engine.cards.read import LONGEST_TEXT, check_profile
from engine.errors import BadField

BY_HAND = "set by hand"
MEASURED = frozenset({"decode_base", "decode_per_turn", "decode_per_kv_byte", "prefill", "link_out", "link_back"})
"""The figures that a calibration states."""
ROOM = frozenset({"usable", "weights", "runtime"})
"""The figures that a study's own room for KV belongs to: with others it is what they leave."""
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?")


@dataclass(frozen=True, slots=True)
class Entry:
    """One figure as it stands in a form. `value`: as typed."""

    value: str
    unit: str
    known: str
    source: str


@dataclass(frozen=True, slots=True)
class Edited:
    """`card`: None while `problems` (field -> sentence; `name` is the card's) are not empty."""

    card: CardProfile | None
    problems: dict[str, str]


def entry_of(figure: Figure) -> Entry:
    return Entry(f"{figure.value:.15g}", figure.unit, figure.known, figure.source)


ABOUT = {"memory": "Memory", "architecture": "Architecture", "model": "Model"}
"""What a card says of itself in words, and how a form calls it."""


def edited(
    card: CardProfile, name: str, entries: Mapping[str, Entry], about: Mapping[str, str] | None = None
) -> Edited:
    """`card` with the figures of `entries` (all of FIELDS). A value that was changed while its source was left as it
    was is no longer what that source says: it becomes assumed, set by hand. What a study says of its card goes with
    it. `about`: words of ABOUT, None for those that the card has."""
    problems: dict[str, str] = {}
    figures: dict[str, Any] = {}
    for field in FIELDS:
        try:
            figures[field] = _figure(field, entries[field], getattr(card, field))
        except BadField as refusal:
            problems[field] = str(refusal)
    stated = name.strip()
    if not stated or len(stated) > LONGEST_TEXT:
        problems["name"] = f"The name is {'too long' if stated else 'empty'}; give 1 to {LONGEST_TEXT} characters"
    words: dict[str, Any] = {field: text.strip() for field, text in (about or {}).items()}
    for field, text in words.items():
        if len(text) > LONGEST_TEXT:
            problems[field] = f"{ABOUT[field]} is too long; give at most {LONGEST_TEXT} characters"
    if problems:
        return Edited(None, problems)
    changed = replace(card, name=stated, **figures, **words)
    try:
        check_profile(changed)
    except BadField as refusal:
        return Edited(None, {refusal.field: str(refusal)})
    if any(getattr(changed, field) != getattr(card, field) for field in MEASURED):
        changed = replace(changed, calibration=None)
    moved = {field for field in FIELDS if getattr(changed, field).amount != getattr(card, field).amount}
    if moved:
        changed = replace(changed, presets=tuple(_without_study(preset, moved) for preset in changed.presets))
    return Edited(changed, {})


def _without_study(preset: Preset, moved: Set[str]) -> Preset:
    """What a study says of its own card is not true of another."""
    room = None if moved & ROOM else preset.kv_room
    return replace(preset, kv_room=room, plan_notes=(), prices_notes=())


def _figure(field: str, entry: Entry, before: Figure) -> Figure:
    if entry == entry_of(before):
        return before
    figure = checked_figure(field, _number(entry.value), entry.unit, entry.known, entry.source)
    moved = figure.amount != before.amount
    if moved and (figure.known, figure.source) == (before.known, before.source):
        return replace(figure, known="assumed", source=BY_HAND)
    return figure


def _number(typed: str) -> float | str:
    """The number, or the text itself where it is none."""
    text = typed.strip()
    if _THOUSANDS.fullmatch(text):
        text = text.replace(",", "")
    try:
        return text if "_" in text else float(text)
    except ValueError:
        return text
