"""The price list by context, the chosen one among them: on the page in few digits, as CSV in all of them."""

from collections.abc import Sequence
from dataclasses import astuple, fields
from typing import Any

from engine.cards.profile import CardProfile, Preset
from engine.paper.prices import CONTEXTS, PriceRow, Prices
from panels import components, table_csv
from panels.palette import ThemeName, palette
from panels.prices_text import cell, notes, times
from panels.units import seconds

HEAD = ("tokens", "KV", "out and back", "recompute", "ratio")
CSV_HEAD = tuple(column.name for column in fields(PriceRow))


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


def as_csv(listed: Prices, card: CardProfile, preset: Preset) -> bytes:
    """The table, for the card, the model and the rates that it was asked for."""
    about = (
        ("card", card.name),
        ("model", preset.name),
        ("kv_precision", str(listed.store)),
        ("context_tokens", listed.context),
        ("rounded_bytes_per_token", listed.rounded),
        ("link_out_bytes_per_s", listed.out_bytes_per_s),
        ("link_back_bytes_per_s", listed.back_bytes_per_s),
        ("prefill_tokens_per_s", listed.prefill_tokens_per_s),
        ("card_kv_bytes", listed.card_bytes),
        ("pinned_host_bytes", listed.host_bytes),
    )
    return table_csv.content(about, CSV_HEAD, map(astuple, rows(listed)))


def sentence(listed: Prices) -> str:
    if listed.fixed_ratio:
        return "Both grow with the context alike, so the ratio is the same at every one."
    return "A turn keeps some bytes whatever its context, so the ratio depends on the context."


def render(listed: Prices, card: CardProfile, preset: Preset, theme: ThemeName) -> None:
    components.figures(table(listed, notes(listed, card, preset), theme), key="prices_table")
    table_csv.download(
        as_csv(listed, card, preset), f"parkdeck-prices-{card.id}-{preset.name}-{listed.store}", key="prices_csv"
    )
