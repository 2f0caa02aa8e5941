"""Where a card's figures are from: each with its value, how it is known, and its source."""

from dataclasses import dataclass

import streamlit as st

from engine.cards.fields import FIELDS
from engine.cards.profile import Calibration, CardProfile, Figure, Known, Preset
from engine.layout import LayerGroup, Store
from engine.words import counted, percent
from panels.plain import plain
from panels.units import size

BADGES: dict[Known, str] = {
    "measured": ":green-badge[:material/check: measured]",
    "published": ":gray-badge[:material/menu_book: published]",
    "assumed": ":gray-badge[:material/edit_note: assumed]",
}


@dataclass(frozen=True, slots=True)
class Row:
    figure: str
    value: str
    known: Known
    source: str


def rows(card: CardProfile, preset: Preset) -> tuple[Row, ...]:
    """The card's figures, then the model's shape and what its study states."""
    stated = [_row(field.label, getattr(card, field.name)) for field in FIELDS.values()]
    layout = preset.layout
    shape = " and ".join(_group(group) for group in layout.groups)
    stated.append(Row(f"{preset.name}: shape", shape, preset.known, preset.source))
    per_token = layout.bytes_per_token(Store.FP16)
    counted = f"{per_token:,} B ({size(per_token)})"
    stated.append(Row(f"{preset.name}: bytes per token, fp16", counted, preset.known, "counted from the shape"))
    if layout.state_bytes:
        stated.append(Row(f"{preset.name}: state per turn", size(layout.state_bytes), preset.known, preset.source))
    if preset.rounded_bytes_per_token:
        stated.append(_row(f"{preset.name}: bytes per token as its study rounds", preset.rounded_bytes_per_token))
    if preset.kv_room:
        stated.append(_row(f"{preset.name}: room for KV as its study says", preset.kv_room))
    return tuple(stated)


def render(card: CardProfile, preset: Preset) -> None:
    """A closed expander with the table and what was calibrated; the preset's notes stand beside the page's figures."""
    with st.expander("Where the figures are from", icon=":material/fact_check:"):
        lines = ["| Figure | Value | Known | Source |", "|:--|--:|:--|:--|"]
        lines += [
            f"| {plain(row.figure)} | {plain(row.value)} | {BADGES[row.known]} | {plain(row.source)} |"
            for row in rows(card, preset)
        ]
        st.markdown("\n".join(lines))
        if card.calibration:
            st.caption(plain(calibrated(card.calibration)))


def calibrated(calibration: Calibration) -> str:
    """What was measured, and how far the fitted decode step is from it."""
    return (
        f"Calibrated {calibration.at} on {calibration.backend or 'n/a'} with {calibration.model or 'n/a'}: "
        f"{len(calibration.decodes)} decode steps, which the fit misses by {percent(calibration.decode_error, 1)} "
        f"(at worst {percent(calibration.decode_worst, 1)}), {len(calibration.prefills)} prefill rates, "
        f"{len(calibration.copies)} copy sizes."
    )


def _row(label: str, figure: Figure) -> Row:
    return Row(label, f"{figure.value:,.10g} {figure.unit}", figure.known, figure.source)


def _group(group: LayerGroup) -> str:
    kept = "" if group.window is None else f", last {group.window:,} tokens"
    shape = f"{counted(group.layers, 'layer')} × {counted(group.heads, 'head')}"
    return f"{shape} × ({' + '.join(map(str, group.widths))}){kept}"
