"""Card scale, and how large the stand-in's arena is.

Card scale: on a small machine the arena keeps the card's proportion, 8 running and 2 paused average turns. KV bytes are
then shown multiplied by (ceiling - weights - runtime) of the card / bytes of this arena.
"""

from engine.cards.profile import CardProfile
from engine.errors import Refused
from engine.snapshot import CardScale
from engine.turn import AVERAGE_TURN_TOKENS

PAUSED_TURNS_THAT_FIT = 2


def card_scale(profile: CardProfile, arena_bytes: int) -> CardScale:
    """Raises Refused for an arena of no bytes."""
    if arena_bytes <= 0:
        raise Refused(f"an arena of {arena_bytes} bytes has no card scale; it must hold something")
    return CardScale(
        card=profile.name,
        factor=profile.kv_budget_bytes / arena_bytes,
        weights_bytes=round(profile.weights.amount),
        runtime_bytes=round(profile.runtime.amount),
        ceiling_bytes=round(profile.usable.amount),
    )


def standin_arena_tokens(slots: int = 8, average: int = AVERAGE_TURN_TOKENS, block: int = 16) -> int:
    """Tokens of the stand-in's arena: `slots` running and two paused average turns, and one block per slot to grow
    by; so two paused average turns stay and the third must leave."""
    return (slots + PAUSED_TURNS_THAT_FIT) * average + slots * block
