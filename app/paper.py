"""`parkdeck plan` and `parkdeck prices`: the paper pages' arithmetic for scripts and terminals."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import typer

from app.columns import print_columns
from app.sizes import size_of
from engine.cards.fields import checked_figure
from engine.cards.model import with_model
from engine.cards.profile import GIB, CardProfile, Preset
from engine.cards.store import list_cards, load_card
from engine.errors import Refused
from engine.layout import Store
from engine.models.stated import printable
from engine.paper.ceiling import Fit, Plan, checked_count, load_of, plan
from engine.paper.prices import CONTEXTS, Prices, prices
from panels.planner_words import HEADS, filling
from panels.planner_words import notes as plan_notes
from panels.prices_text import cell, times
from panels.prices_text import notes as prices_notes
from panels.units import axis_unit, count, seconds, short, unit_name

GIVEN = "given on the command line"


@dataclass(frozen=True, slots=True)
class Chosen:
    """`notes`: what of `card` was not said of this model."""

    card: CardProfile
    preset: Preset
    notes: tuple[str, ...] = ()


def chosen(model: str | None, card: str, preset: str | None, weights: str | None) -> Chosen:
    """The card, and the shape: of a model's own files, of a named preset, or of the card's first. The model's weights,
    or those given, take the place of the card's. Raises Refused or ModelError."""
    profile = load_card(card)
    given = None if weights is None else size_of(weights)
    if model is None:
        shape = profile.preset(preset) if preset else profile.presets[0]
        return Chosen(with_model(profile, shape, given, GIVEN) if given is not None else profile, shape)
    if preset:
        raise Refused(f"a model and --preset {preset} exclude each other; give one of them")
    from engine.models.layout_reader import read_layout

    read = read_layout(model)
    shape = Preset(read.layout, "published", read.source)
    if given is not None:
        loaded = with_model(profile, shape, given, GIVEN)
    else:
        loaded = with_model(profile, shape, read.weights_bytes)
    return Chosen(loaded, shape, of_another(profile, loaded))


def of_another(card: CardProfile, loaded: CardProfile) -> tuple[str, ...]:
    """What stays the card's though the model is another."""
    whose = f", which are of {card.model}" if card.model else ""
    kept = "Decode step and prefill rate" if loaded.weights != card.weights else "Weights, decode step and prefill rate"
    hint = "" if loaded.weights != card.weights else "; give the model's own with --weights 8.5GiB"
    return (f"{kept} are the card's{whose}{hint}.",)


def print_cards() -> None:
    """Each card with what it has and the shapes that it names; one that cannot be read has its reason on stderr."""
    found = list_cards()
    for problem in (found.problem, *(entry.problem for entry in found.cards)):
        if problem:
            typer.echo(printable(problem), err=True)
    rows = []
    for entry in found.usable():
        card = load_card(entry.id)
        presets = ", ".join(preset.name for preset in card.presets)
        rows.append((card.id, card.name, f"{card.usable.value:g} {card.usable.unit}", card.model, presets))
    print_columns("card", "name", "usable", "model", "presets", rows=[tuple(map(printable, row)) for row in rows])


def changed(card: CardProfile, **figures: tuple[float | None, str]) -> CardProfile:
    """The card with what was given instead: field -> value, unit. Raises BadField."""
    given: dict[str, Any] = {
        name: checked_figure(name, value, unit, "assumed", GIVEN)
        for name, (value, unit) in figures.items()
        if value is not None
    }
    return replace(card, **given)


def run_plan(choice: Chosen, load: dict[str, int | None], *, as_json: bool) -> None:
    """`load`: fields of Load, None for the card's own."""
    given: dict[str, Any] = {name: checked_count(name, value) for name, value in load.items() if value is not None}
    made = plan(choice.card, choice.preset.layout, replace(load_of(choice.card), **given))
    if as_json:
        typer.echo(json.dumps(plan_object(made)))
    else:
        _print_plan(made, choice)


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


def _print_plan(made: Plan, choice: Chosen) -> None:
    card, load = made.card, made.load
    typer.echo(_heading(card, choice.preset))
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
    _print_notes((*plan_notes(made, choice.preset), *choice.notes))


def run_prices(
    choice: Chosen,
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
    both = (link, "GB/s")
    profile = changed(choice.card, link_out=both, link_back=both, prefill=(prefill, "tok/s"), pinned_host=(host, "GB"))
    if store not in (Store.FP16, Store.Q8):
        raise Refused(f"--kv-dtype {store!r} is no KV precision; choose fp16 or q8")
    asked = tuple(checked_count("mean_context", tokens) for tokens in contexts) or CONTEXTS
    made = prices(profile, choice.preset, store=Store(store), exact=exact)
    if as_json:
        typer.echo(json.dumps(prices_object(made, asked)))
    else:
        _print_prices(replace(choice, card=profile), choice.card, made, asked)


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


def _print_prices(choice: Chosen, stored: CardProfile, made: Prices, contexts: Sequence[int]) -> None:
    """`stored`: the card without what was given on the command line."""
    typer.echo(_heading(choice.card, choice.preset))
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
    where = "" if made.fixed_ratio else f" {made.context:,} tokens"
    turns = "" if made.fixed_ratio else f", in turns of {made.context:,}"
    typer.echo(
        f"Recomputing{where} breaks even at {made.break_even_prefill_tok_s:,.0f} tok/s of prefill, "
        f"against the way back alone at {made.break_even_restore_only_tok_s:,.0f}."
    )
    typer.echo(f"The card holds {made.card_tokens:,} KV tokens, the pinned host memory {made.host_tokens:,}{turns}.")
    _print_notes((*prices_notes(made, stored, choice.preset), *choice.notes))


def _print_notes(notes: Sequence[str]) -> None:
    for note in notes:
        typer.echo(f"Note: {printable(note)}")


def _heading(card: CardProfile, shape: Preset) -> str:
    measured = f"its rates measured {card.calibration.at}" if card.calibration else "nothing measured on this machine"
    whose = f" ({card.model})" if card.model and card.model != shape.name else ""
    return printable(f"{card.name}{whose}, shape {shape.name}: modelled from the card's profile, {measured}.")
