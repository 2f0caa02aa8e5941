"""A profile as text reads back to the equal profile."""

from hypothesis import given, settings

from engine.cards.profile import CardProfile
from engine.cards.read import profile_from_text
from engine.cards.store import load_card, shipped_ids
from engine.cards.write import profile_text
from tests.engine.cards.profiles import profiles


@settings(max_examples=150)
@given(profiles())
def test_any_profile_reads_back_as_it_was(card: CardProfile) -> None:
    assert profile_from_text(profile_text(card), "card") == card


def test_what_ships_reads_back_as_it_was() -> None:
    for name in shipped_ids():
        card = load_card(name)
        assert profile_from_text(profile_text(card), name) == card
