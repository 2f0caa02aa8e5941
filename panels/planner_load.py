"""The load that the planner asks about: slots and contexts, each a slider with a number field."""

from dataclasses import asdict
from functools import partial

import streamlit as st

from engine.cards.fields import FIELDS
from engine.paper.ceiling import Load, checked_count, load_of
from panels import fields
from panels.card_box import Choice

STOPS: dict[str, tuple[int, ...]] = {
    "slots": (1, 2, 3, 4, 6, 8, 10, 12, 16, 24, 32, 48, 64),
    "mean_context": (512, 1024, 2048, 3072, 4096, 5120, 6144, 7168, 8192, 10240, 12288, 16384, 24576, 32768),
    "long_context": (2048, 4096, 8192, 12288, 16384, 24576, 32768, 49152, 65536, 98304, 131072),
    "max_context": (4096, 8192, 16384, 24576, 32768, 49152, 65536, 98304, 131072, 262144),
}
_FOR = "planner_load_for"


def render(choice: Choice) -> Load:
    """Draws the fields and returns the load in force: the card's own until this tab changes it, and again when the
    card, the model or the card's own load changes."""
    defaults = load_of(choice.card)
    asked_for = (choice.card.id, choice.preset.name, defaults)
    if st.session_state.get(_FOR) != asked_for:
        st.session_state[_FOR] = asked_for
        for name, value in asdict(defaults).items():
            fields.put(_key(name), value)
    values = {
        name: fields.figure(
            _key(name),
            FIELDS[name].label,
            value,
            STOPS[name],
            partial(checked_count, name),
            unit=FIELDS[name].units[0],
            hint=FIELDS[name].hint,
        )
        for name, value in asdict(defaults).items()
    }
    return Load(**{name: int(value) for name, value in values.items()})


def _key(name: str) -> str:
    return f"planner_{name}"
