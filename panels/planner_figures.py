"""The row of figures of the planner, all modelled. `tiles` is pure; `render` puts them on a page."""

from dataclasses import asdict

from engine.layout import Store
from engine.paper.ceiling import Fit, Plan
from engine.words import counted
from panels import components
from panels.figures import Tile
from panels.palette import ThemeName, palette
from panels.planner_words import filling
from panels.units import count, seconds, size, speed

MODELLED = "modelled from the card's profile"


def tiles(plan: Plan) -> tuple[Tile, ...]:
    fp16, q8 = plan.fits[Store.FP16], plan.fits[Store.Q8]
    return (
        _headroom(plan, fp16, q8),
        Tile(
            "paused_fit", "Paused turns that fit", count(fp16.paused_fit), f"fp16 · q8: {count(q8.paused_fit)}",
            f"Average turns ({plan.load.mean_context:,} tokens, {size(fp16.turn_bytes)} each at fp16) that stay paused "
            f"under the ceiling beside {counted(plan.load.slots, 'running turn')}; {MODELLED}.",
        ),
        _long(plan, fp16, q8),
        Tile(
            "fill_context", "Running alone fill it at", filling(fp16.fill_context),
            f"fp16 · q8: {filling(q8.fill_context)}",
            f"The longest context at which {counted(plan.load.slots, 'running turn')} alone still fit; {MODELLED}. "
            "Never: a turn stops growing before, because its windows are full or nothing grows.",
        ),
        Tile(
            "step", "Decode step", seconds(fp16.step_s),
            f"{speed(1 / fp16.step_s)} tok/s each · {speed(plan.load.slots / fp16.step_s)} in all",
            f"One step of {counted(plan.load.slots, 'running turn')} at the mean context, fp16: base, turns, reading "
            f"their KV; {MODELLED}. At q8 {seconds(q8.step_s)}.",
        ),
        _reserve(plan),
    )  # fmt: skip


def render(plan: Plan, theme: ThemeName) -> None:
    colours = components.colours(palette(theme))
    components.tiles({"tiles": [asdict(tile) for tile in tiles(plan)], "colours": colours}, key="planner_figures")


def _headroom(plan: Plan, fp16: Fit, q8: Fit) -> Tile:
    over = fp16.headroom_bytes < 0
    return Tile(
        "headroom", "Over the ceiling" if over else "Headroom", size(abs(fp16.headroom_bytes)),
        f"fp16 · q8: {signed(q8.headroom_bytes)}",
        f"Ceiling of {size(plan.card.usable.amount)} minus weights, runtime and the KV of "
        f"{counted(plan.load.slots, 'running turn')}; {MODELLED}.",
        "bad" if over else "",
    )  # fmt: skip


def _long(plan: Plan, fp16: Fit, q8: Fit) -> Tile:
    return Tile(
        "long_fits", "One long turn fits", yes(fp16.long_fits),
        f"{size(fp16.long_turn_bytes)} at fp16 · q8: {yes(q8.long_fits)}",
        f"A paused turn of {plan.load.long_context:,} tokens beside {counted(plan.load.slots, 'running turn')}; "
        f"{MODELLED}.",
        "" if fp16.long_fits else "bad",
    )  # fmt: skip


def _reserve(plan: Plan) -> Tile:
    fp16, q8, asked = plan.reserves[Store.FP16], plan.reserves[Store.Q8], plan.load.slots
    return Tile(
        "reserve", "Slots if all is reserved", f"{min(fp16.slots, asked):,} of {asked:,}",
        f"fp16 · q8: {count(min(q8.slots, asked))}",
        f"Turns that a server admits when it keeps {plan.load.max_context:,} tokens for each up front, "
        f"{size(fp16.slot_bytes)} at fp16; {MODELLED}.",
    )  # fmt: skip


def yes(true: bool) -> str:
    return "yes" if true else "no"


def signed(nbytes: float) -> str:
    """Headroom as a size; over the ceiling with its minus sign."""
    return size(nbytes) if nbytes >= 0 else f"−{size(-nbytes)}"
