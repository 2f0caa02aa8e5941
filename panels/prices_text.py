"""Figures of the price list as people read them: decimal sizes and ratios."""

from engine.cards.profile import CardProfile, Preset
from engine.layout import Store
from engine.paper.prices import Prices
from panels.planner_words import HEADS, shape_notes
from panels.units import short

LINEAR = "A recompute is tokens / prefill rate: that prefill slows down as the context grows is not modelled."
SIZES = ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB"))


def decimal_size(nbytes: float) -> str:
    """Bytes in GB and its like, powers of ten, as link rates and studies count them."""
    for unit, name in SIZES:
        if nbytes >= 0.9995 * unit:
            return f"{short(nbytes / unit)} {name}"
    return f"{nbytes:.0f} B"


def source(listed: Prices, card: str) -> str:
    """Where the figures of a chart are from."""
    return f"{card} · model shape {listed.layout.name} at {HEADS[listed.store]} · modelled from the card's profile"


def times(ratio: float) -> str:
    """How many times, without a sign: '177', '5.9', '0.0042'."""
    if ratio >= 99.5:
        return f"{ratio:,.0f}"
    return f"{ratio:.1f}" if ratio >= 0.95 else f"{ratio:.2g}"


def cell(value: float, digits: int) -> str:
    """A figure of a column: `digits` after the point, more where the value would vanish."""
    return f"{value:,.{digits}f}" if value >= 10.0 ** (1 - digits) or value == 0 else f"{value:.3g}"


def notes(listed: Prices, card: CardProfile, preset: Preset) -> tuple[str, ...]:
    """What the model's shape says of itself; what its study prints otherwise, at the study's own rates; and what is
    left out."""
    rates = (listed.out_bytes_per_s, listed.back_bytes_per_s, listed.prefill_tokens_per_s)
    own = rates == (card.link_out.amount, card.link_back.amount, card.prefill.amount) and listed.store is Store.FP16
    return (*shape_notes(preset.layout), *(preset.prices_notes if own else ()), LINEAR)
