"""A card with another model on it than the one its profile names."""

from dataclasses import replace

from engine.cards.fields import checked_figure
from engine.cards.profile import GIB, CardProfile, Known, Preset
from engine.cards.read import check_profile
from engine.errors import BadField


def with_model(card: CardProfile, preset: Preset, weights_bytes: int | None, given: str = "") -> CardProfile:
    """The card whose weights are the model's, where its files tell them; decode step and prefill rate stay the card's.
    `given`: who has stated the weights instead. Raises BadField for weights that leave no bytes for KV."""
    if weights_bytes is None:
        return card
    known: Known = "assumed" if given else "measured"
    weights = checked_figure("weights", weights_bytes, "B", known, given or preset.source)
    loaded = replace(card, weights=weights, model=preset.name)
    try:
        check_profile(loaded)
    except BadField:
        raise BadField(
            "weights",
            f"{preset.name} has {weights_bytes / GIB:.2f} GiB of weights, which leave no bytes for KV under "
            f"{card.usable.amount / GIB:.2f} GiB; choose a larger card or a smaller model",
        ) from None
    return loaded
