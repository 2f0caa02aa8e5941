"""The price list's figures for the chosen context. `tiles` is pure; `render` puts them on a page."""

from dataclasses import asdict

from engine.paper.prices import Prices
from panels import components
from panels.figures import Tile
from panels.palette import ThemeName, palette
from panels.prices_text import times
from panels.units import seconds, short


def tiles(listed: Prices) -> tuple[Tile, ...]:
    """Six figures, all modelled."""
    row = listed.row(listed.context)
    trip, alone = listed.break_even_prefill_tok_s, listed.break_even_restore_only_tok_s
    turn = f"of a turn of {row.tokens:,} tokens; modelled."
    return (
        Tile(
            "trip", "Out and back", seconds(row.swap_s), f"way back alone {seconds(row.restore_s)}",
            f"Copying the KV to the host and back, {turn}",
        ),
        Tile(
            "recompute", "Recompute", seconds(row.recompute_s), f"at {short(listed.prefill_tokens_per_s)} tok/s",
            f"Prefilling prompt and generated tokens again, {turn}",
        ),
        Tile(
            "ratio", "Recompute ÷ out and back", f"{times(row.ratio)}×", f"{times(row.restore_ratio)}× the way back",
            "How many times as long the recompute takes; below, against the way back alone. "
            + ("The same at every context" if listed.fixed_ratio else "It depends on the context") + "; modelled.",
        ),
        Tile(
            "even_wait", "Break-even wait", seconds(listed.break_even_wait_s), "a longer wait pays",
            "Swapping out pays when the turn waits longer than its round trip; modelled.",
        ),
        Tile(
            "even_prefill", "Break-even prefill", f"{short(trip)} tok/s", f"way back alone {short(alone)}",
            "The prefill rate from which computing again is as fast as the round trip; below, as the way back alone; "
            "modelled.",
        ),
        Tile(
            "per_token", "Out and back, per token", seconds(row.swap_s / row.tokens),
            f"recompute {seconds(row.recompute_s / row.tokens)}",
            f"Out and back, and the recompute, divided by the {row.tokens:,} tokens; modelled.",
        ),
    )  # fmt: skip


def render(listed: Prices, theme: ThemeName) -> None:
    data = {"tiles": [asdict(tile) for tile in tiles(listed)], "colours": components.colours(palette(theme))}
    components.tiles(data, key="prices_figures")
