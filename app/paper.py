"""`parkdeck plan` and `parkdeck prices`: the paper pages' arithmetic for scripts and terminals."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import typer

from app.columns import print_columns
from engine.cards.fields import checked_figure
from engine.cards.model import with_model
from engine.cards.profile import GIB, CardProfile, Preset
from engine.cards.store import load_card
from engine.errors import Refused
from engine.layout import Store
from engine.models.stated import printable
from engine.paper.ceiling import Fit, Plan, checked_count, load_of, plan
from engine.paper.prices import CONTEXTS, Prices, prices
from panels.planner_words import HEADS, filling
from panels.prices_text import cell, times
from panels.units import axis_unit, count, seconds, short, unit_name

GIVEN = "given on the command line"


def chosen(model: str | None, card: str, preset: str | None) -> tuple[CardProfile, Preset]:
    """The card, and the shape: of a model's own files, of a named preset, or of the card's first. A model's weights
    take the place of the card's. Raises Refused or ModelError."""
    profile = load_card(card)
    if model is None:
        return profile, profile.preset(preset) if preset else profile.presets[0]
    if preset:
        raise Refused(f"a model and --preset {preset} exclude each other; give one of them")
    from engine.models.layout_reader import read_layout

    read = read_layout(model)
    shape = Preset(read.layout, "published", read.source)
    return with_model(profile, shape, read.weights_bytes), shape


def changed(card: CardProfile, **figures: tuple[float | None, str]) -> CardProfile:
    """The card with what was given instead: field -> value, unit. Raises BadField."""
    given: dict[str, Any] = {
        name: checked_figure(name, value, unit, "assumed", GIVEN)
        for name, (value, unit) in figures.items()
        if value is not None
    }
    return replace(card, **given)


def run_plan(model: str | None, card: str, preset: str | None, load: dict[str, int | None], *, as_json: bool) -> None:
    """`load`: fields of Load, None for the card's own."""
    profile, shape = chosen(model, card, preset)
    given: dict[str, Any] = {name: checked_count(name, value) for name, value in load.items() if value is not None}
    made = plan(profile, shape.layout, replace(load_of(profile), **given))
    if as_json:
        typer.echo(json.dumps(plan_object(made)))
    else:
        _print_plan(made, shape)


def plan_object(made: Plan) -> dict[str, dict[str, Any]]:
    """Unrounded; sizes in bytes or GiB as each key says."""
    return {store.value: _fit_object(made, fit) for store, fit in made.fits.items()}


def _fit_object(made: Plan, fit: Fit) -> dict[str, Any]:
    return {
        "bytes_per_token": fit.bytes_per_token,
        "turn_gib": fit.turn_bytes / GIB,
        "running_gib": fit.running_bytes / GIB,
        "used_gib": fit.used_bytes / GIB,
        "headroom_gib": fit.headroom_bytes / GIB,
        "paused_fit": fit.paused_fit,
        "long_turn_gib": fit.long_turn_bytes / GIB,
        "long_fits": fit.long_fits,
        "fill_context": fit.fill_context,
        "reserve_slots": made.reserves[fit.store].slots,
        "decode_step_ms": fit.step_s * 1000,
    }


def _print_plan(made: Plan, shape: Preset) -> None:
    card, load = made.card, made.load
    typer.echo(_heading(card, shape))
    unit = axis_unit(card.usable.amount)

    def sized(nbytes: float) -> str:
        return f"{nbytes / unit:,.4g} {unit_name(unit)}"

    usable, weights, runtime = (sized(figure.amount) for figure in (card.usable, card.weights, card.runtime))
    typer.echo(
        f"{usable} usable, weights {weights}, runtime {runtime}; "
        f"{load.slots} slots of {load.mean_context:,} tokens, a long turn of {load.long_context:,}."
    )
    rows = [
        ("bytes per token", *(f"{fit.bytes_per_token:,} B" for fit in made.fits.values())),
        ("KV of a turn", *(sized(fit.turn_bytes) for fit in made.fits.values())),
        ("KV of running turns", *(sized(fit.running_bytes) for fit in made.fits.values())),
        ("used", *(sized(fit.used_bytes) for fit in made.fits.values())),
        ("headroom", *(sized(fit.headroom_bytes) for fit in made.fits.values())),
        ("paused turns that fit", *(count(fit.paused_fit) for fit in made.fits.values())),
        ("KV of a long turn", *(sized(fit.long_turn_bytes) for fit in made.fits.values())),
        ("a long turn fits", *("yes" if fit.long_fits else "no" for fit in made.fits.values())),
        ("running turns fill the card at", *(filling(fit.fill_context) for fit in made.fits.values())),
        (f"slots if each reserves {load.max_context:,} tokens", *(count(r.slots) for r in made.reserves.values())),
        ("decode step", *(seconds(fit.step_s) for fit in made.fits.values())),
    ]
    print_columns("", *(HEADS[store] for store in made.fits), rows=rows, numbers=True)
    _print_notes(shape.layout.notes)


def run_prices(
    model: str | None,
    card: str,
    preset: str | None,
    *,
    contexts: Sequence[int],
    store: str,
    link: float | None,
    prefill: float | None,
    host: float | None,
    exact: bool,
    as_json: bool,
) -> None:
    """`link` in GB/s each way, `prefill` in tok/s, `host` in GB; None for the card's own."""
    profile, shape = chosen(model, card, preset)
    both = (link, "GB/s")
    profile = changed(profile, link_out=both, link_back=both, prefill=(prefill, "tok/s"), pinned_host=(host, "GB"))
    if store not in (Store.FP16, Store.Q8):
        raise Refused(f"--kv-dtype {store!r} is no KV precision; choose fp16 or q8")
    asked = tuple(checked_count("mean_context", tokens) for tokens in contexts) or CONTEXTS
    made = prices(profile, shape, store=Store(store), exact=exact)
    if as_json:
        typer.echo(json.dumps(prices_object(made, asked)))
    else:
        _print_prices(profile, shape, made, asked)


def prices_object(made: Prices, contexts: Sequence[int] = CONTEXTS) -> dict[str, Any]:
    """Unrounded; GB are 10^9 bytes."""
    return {
        "rows": [
            {
                "tokens": row.tokens,
                "kv_gb": row.kv_bytes / 1e9,
                "swap_ms": row.swap_s * 1000,
                "restore_ms": row.restore_s * 1000,
                "recompute_s": row.recompute_s,
                "ratio": row.ratio,
                "restore_ratio": row.restore_ratio,
            }
            for row in made.rows(contexts)
        ],
        "break_even_prefill_tok_s": made.break_even_prefill_tok_s,
        "break_even_restore_only_tok_s": made.break_even_restore_only_tok_s,
        "card_tokens": made.card_tokens,
        "host_tokens": made.host_tokens,
    }


def _print_prices(card: CardProfile, shape: Preset, made: Prices, contexts: Sequence[int]) -> None:
    typer.echo(_heading(card, shape))
    out, back = (short(rate / 1e9) for rate in (made.out_bytes_per_s, made.back_bytes_per_s))
    typer.echo(f"Copies {out} GB/s out and {back} GB/s back; prefill {short(made.prefill_tokens_per_s)} tok/s.")
    rows = [
        (
            f"{row.tokens:,}",
            f"{cell(row.kv_bytes / 1e9, 2)} GB",
            f"{cell(row.swap_s * 1000, 1)} ms",
            f"{cell(row.recompute_s, 1)} s",
            f"{times(row.ratio)}×",
        )
        for row in made.rows(contexts)
    ]
    print_columns("context", "KV", "out and back", "recompute", "ratio", rows=rows, numbers=True)
    typer.echo(
        f"Recomputing breaks even at {made.break_even_prefill_tok_s:,.0f} tok/s of prefill, against the way back alone "
        f"at {made.break_even_restore_only_tok_s:,.0f}."
    )
    typer.echo(f"The card holds {made.card_tokens:,} KV tokens, the pinned host memory {made.host_tokens:,}.")
    _print_notes(shape.layout.notes)


def _print_notes(notes: Sequence[str]) -> None:
    for note in notes:
        typer.echo(f"Note: {printable(note)}")


def _heading(card: CardProfile, shape: Preset) -> str:
    measured = f"its rates measured {card.calibration.at}" if card.calibration else "nothing measured on this machine"
    return printable(f"{card.name}, {shape.name}: modelled from the card's profile, {measured}.")
