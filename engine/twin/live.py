"""A twin behind a host: what the page starts in an engine's place."""

from pathlib import Path

from engine.body import DEFAULT_CARD, BodyConfig
from engine.cards.store import load_card
from engine.run import HostConfig
from engine.twin_body import TwinConfig, card_knobs


def live_config(card: str | Path = DEFAULT_CARD, twin: TwinConfig | None = None, seed: int = 0) -> HostConfig:
    """A host that runs the card as its profile has it, with the card's own knobs. Raises Refused for a card that is not
    there."""
    profile = load_card(card)
    body = BodyConfig(
        backend="twin",
        card=card,
        slots=round(profile.slots.amount),
        average_turn_tokens=round(profile.mean_context.amount),
        twin=twin or TwinConfig(),
    )
    return HostConfig(body=body, knobs=card_knobs(profile), seed=seed)
