"""A form's entries: what is good becomes the card, what is wrong gets its sentence, and nothing in between."""

from dataclasses import replace

import pytest
from hypothesis import given, settings

from engine.cards.edit import BY_HAND, Entry, edited, entry_of
from engine.cards.fields import FIELDS
from engine.cards.profile import GIB, Calibration, CardProfile
from engine.cards.store import load_card
from engine.paper.prices import prices
from tests.engine.cards.profiles import profiles

CARD = load_card()


def entries(**changes: Entry) -> dict[str, Entry]:
    return {name: changes.get(name, entry_of(getattr(CARD, name))) for name in FIELDS}


def typed(field: str, value: str, **parts: str) -> dict[str, Entry]:
    return entries(**{field: replace(entry_of(getattr(CARD, field)), value=value, **parts)})


@settings(max_examples=50)
@given(profiles())
def test_a_form_that_nobody_touched_changes_nothing(card: CardProfile) -> None:
    untouched = {name: entry_of(getattr(card, name)) for name in FIELDS}
    assert edited(card, card.name, untouched).card == card


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("usable", "0", "out of range; give more than 0 and at most 16,384 GiB"),
        ("usable", "-3", "Usable memory -3 GiB is out of range"),
        ("usable", "1e300", "out of range"),
        ("usable", "", "is empty"),
        ("usable", "  ", "is empty"),
        ("usable", "nan", "is not a number"),
        ("usable", "inf", "is not a number"),
        ("usable", "many", "'many' is not a number"),
        ("usable", "15,5", "'15,5' is not a number"),
        ("usable", "1_5", "is not a number"),
        ("slots", "0", "a whole number from 1 to 1,024 turns"),
        ("slots", "7.5", "a whole number"),
        ("prefill", "0", "out of range"),
        ("link_out", "0", "out of range"),
        ("decode_base", "0", "out of range"),
        ("mean_context", "99999999999", "out of range"),
    ],
)
def test_a_wrong_value_has_its_sentence(field: str, value: str, words: str) -> None:
    result = edited(CARD, CARD.name, typed(field, value))
    assert result.card is None
    assert list(result.problems) == [field]
    assert words in result.problems[field]


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"unit": "gigs"}, "unit 'gigs'"),
        ({"unit": "tok/s"}, "choose GiB, GB, MiB, B"),
        ({"known": "felt"}, "choose measured, published, assumed"),
        ({"source": "  "}, "names no source"),
    ],
)
def test_a_wrong_unit_kind_or_source(parts: dict[str, str], words: str) -> None:
    assert words in edited(CARD, CARD.name, typed("usable", "12", **parts)).problems["usable"]


def test_every_wrong_field_is_told_at_once_and_so_is_the_name() -> None:
    both = entries(
        usable=Entry("-1", "GiB", "assumed", "x"), prefill=Entry("fast", "tok/s", "assumed", "x"),
    )  # fmt: skip
    assert set(edited(CARD, " ", both).problems) == {"name", "usable", "prefill"}


def test_figures_that_contradict_each_other() -> None:
    result = edited(CARD, CARD.name, typed("weights", "15"))
    assert "leave no bytes" in result.problems["usable"]


def test_a_changed_value_does_not_keep_the_sources_word() -> None:
    prefill = edited(CARD, CARD.name, typed("prefill", "1,200")).card
    assert prefill is not None
    assert (prefill.prefill.value, prefill.prefill.known, prefill.prefill.source) == (1200, "assumed", BY_HAND)
    sourced = edited(CARD, CARD.name, typed("prefill", "1200", source="my own run")).card
    assert sourced is not None
    assert (sourced.prefill.known, sourced.prefill.source) == ("measured", "my own run")


def test_the_same_amount_in_another_unit_keeps_its_source() -> None:
    card = edited(CARD, CARD.name, typed("pinned_host", "48000000000", unit="B")).card
    assert card is not None
    assert card.pinned_host.source == CARD.pinned_host.source


def test_a_calibration_goes_with_the_figures_that_it_states() -> None:
    calibration = Calibration("2026-11-30T08:00:00Z", "torch", "m", 64, (), (), (), 0.01, 0.02)
    measured = replace(CARD, calibration=calibration)
    slower = edited(measured, "x", typed("prefill", "100")).card
    smaller = edited(measured, "x", typed("usable", "12")).card
    assert slower is not None
    assert slower.calibration is None
    assert smaller is not None
    assert smaller.calibration == calibration


def test_a_studys_room_for_kv_goes_with_its_card() -> None:
    """With other memory the tokens that the card holds follow from it."""
    larger = edited(CARD, CARD.name, typed("usable", "24")).card
    slower = edited(CARD, CARD.name, typed("link_out", "25")).card
    assert larger is not None
    assert slower is not None
    assert larger.preset("swap").kv_room is None
    assert slower.preset("swap").kv_room is not None
    assert prices(larger, larger.preset("swap")).card_bytes == 18 * GIB


def test_what_a_card_says_of_itself_may_be_changed() -> None:
    mine = edited(CARD, "Mine", entries(), {"memory": " 16 GB ", "model": ""}).card
    assert mine is not None
    assert (mine.memory, mine.architecture, mine.model) == ("16 GB", CARD.architecture, "")
    assert set(edited(CARD, "Mine", entries(), {"model": "x" * 501}).problems) == {"model"}


def test_a_studys_notes_hold_for_its_own_figures_alone() -> None:
    assert CARD.preset("ceiling").plan_notes
    smaller = edited(CARD, CARD.name, typed("weights", "8.5")).card
    assert smaller is not None
    assert not any(preset.plan_notes or preset.prices_notes for preset in smaller.presets)
