"""Card scale, and the stand-in's sizes."""

import pytest

from engine.cards.profile import GIB
from engine.cards.scale import card_scale, standin_arena_tokens
from engine.cards.store import load_card
from engine.errors import Refused


def test_the_standin_keeps_the_cards_proportion() -> None:
    """Eight average turns run and two are paused; the third goes over, and a long turn overflows alone."""
    assert standin_arena_tokens() == 10 * 768 + 8 * 16 == 7808
    arena = standin_arena_tokens()
    assert 8 * 768 + 2 * 768 <= arena < 8 * 768 + 3 * 768
    assert arena < 8 * 768 + 2048


def test_card_scale_fills_the_card_when_the_arena_is_full() -> None:
    card = load_card()
    arena = standin_arena_tokens() * 23_040
    scale = card_scale(card, arena)
    assert (
        scale.weights_bytes + scale.runtime_bytes + round(arena * scale.factor)
        == scale.ceiling_bytes
        == int(15.5 * GIB)
    )
    assert scale.card == "RX 9070 XT"
    for nbytes in (0, -5):
        with pytest.raises(Refused, match="arena"):
            card_scale(card, nbytes)
