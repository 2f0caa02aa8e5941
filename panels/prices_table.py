"""The price list by context, the chosen one among them: on the page in few digits, as CSV in all of them."""

import csv
import io
from collections.abc import Sequence
from typing import Any

import streamlit as st

from engine.cards.profile import CardProfile, Preset
from engine.paper.prices import CONTEXTS, PriceRow, Prices
from panels import components
from panels.palette import ThemeName, palette
from panels.prices_text import cell, times
from panels.units import seconds

HEAD = ("tokens", "KV", "out and back", "recompute", "ratio")
CSV_HEAD = ("tokens", "kv_bytes", "swap_ms", "restore_ms", "recompute_s", "ratio", "restore_ratio")


def rows(listed: Prices) -> tuple[PriceRow, ...]:
    """The usual contexts and the chosen one, by size."""
    return listed.rows(sorted({*CONTEXTS, listed.context}))


def cells(row: PriceRow) -> tuple[tuple[str, str], ...]:
    """One row under HEAD as number and unit; a column keeps its unit, so that its figures compare."""
    return (
        (f"{row.tokens:,}", ""),
        (cell(row.kv_bytes / 10**9, 2), "GB"),
        (cell(row.swap_s * 1000, 1), "ms"),
        (cell(row.recompute_s, 1), "s"),
        (f"{times(row.ratio)}×", ""),
    )


def table(listed: Prices, notes: Sequence[str], theme: ThemeName) -> dict[str, Any]:
    """The table as the page's own element takes it; the chosen context is pointed at."""
    return {
        "head": ["", *HEAD],
        "rows": [_row(row, row.tokens == listed.context) for row in rows(listed)],
        "notes": [sentence(listed), *notes],
        "colours": components.colours(palette(theme)),
    }


def _row(row: PriceRow, chosen: bool) -> dict[str, Any]:
    return {
        "key": str(row.tokens),
        "label": "▸" if chosen else "",
        "hint": f"Way back alone: {seconds(row.restore_s)}; recompute: {times(row.restore_ratio)} times that.",
        "cells": [{"text": number, "unit": unit, "tone": ""} for number, unit in cells(row)],
    }


def text(listed: Prices) -> str:
    """The same as CSV, unrounded."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(CSV_HEAD)
    for row in rows(listed):
        figures = (row.kv_bytes, row.swap_s * 1000, row.restore_s * 1000, row.recompute_s, row.ratio, row.restore_ratio)
        writer.writerow((row.tokens, *figures))
    return out.getvalue()


def sentence(listed: Prices) -> str:
    if listed.fixed_ratio:
        return "Both grow with the context alike, so the ratio is the same at every one."
    return "A turn keeps some bytes whatever its context, so the ratio depends on the context."


def render(listed: Prices, card: CardProfile, preset: Preset, theme: ThemeName) -> None:
    components.figures(table(listed, preset.layout.notes, theme), key="prices_table")
    name = components.file_name(f"prices-{card.id}-{preset.name}-{listed.store}")
    st.download_button(
        "Table as CSV", text(listed), file_name=f"{name}.csv", mime="text/csv", key="prices_csv",
        icon=":material/download:", help="Unrounded, sizes in bytes, times in ms and s.", on_click="ignore",
    )  # fmt: skip
