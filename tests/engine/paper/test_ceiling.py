"""The ceiling study's numbers, through the functions that the Planner page and `parkdeck plan` use."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.cards.fields import checked_figure
from engine.cards.profile import GIB, CardProfile
from engine.cards.store import load_card
from engine.errors import BadField
from engine.geometry import KVGeometry
from engine.layout import LayerGroup, Store, TurnLayout, uniform
from engine.paper.ceiling import Fit, Load, Plan, columns_for, load_of, plan

CARD = load_card("rx9070xt")
LAYOUT = CARD.preset("ceiling").layout


def study() -> Plan:
    return plan(CARD, LAYOUT, load_of(CARD))


def gib(nbytes: float) -> float:
    return nbytes / GIB


def test_the_cards_own_load_is_the_studys() -> None:
    assert load_of(CARD) == Load(slots=8, mean_context=6_144, long_context=16_384, max_context=32_768)


def test_fp16() -> None:
    fit = study().fits[Store.FP16]
    assert fit.bytes_per_token == 163_840 == 160 * 1024
    assert gib(fit.turn_bytes) == 0.9375
    assert gib(fit.running_bytes) == 7.5
    assert gib(fit.used_bytes) == 13.5
    assert gib(fit.headroom_bytes) == 2.0
    assert fit.paused_fit == 2
    assert gib(fit.long_turn_bytes) == 2.5
    assert not fit.long_fits
    assert fit.fill_context == 7_782


def test_q8_with_its_scales() -> None:
    fit = study().fits[Store.Q8]
    assert fit.bytes_per_token / 163_840 == pytest.approx((128 + 4) / 256) == pytest.approx(0.5156, abs=5e-5)
    assert gib(fit.turn_bytes) == pytest.approx(0.4834, abs=5e-5)
    assert gib(fit.running_bytes) == pytest.approx(3.867, abs=5e-4)
    assert gib(fit.headroom_bytes) == pytest.approx(5.633, abs=5e-4)
    assert fit.paused_fit == 11
    assert fit.long_fits
    assert fit.fill_context == 15_093


def test_q8_as_exactly_half() -> None:
    fit = study().fits[Store.Q8_HALF]
    assert gib(fit.turn_bytes) == pytest.approx(0.469, abs=5e-4)
    assert gib(fit.running_bytes) == 3.75
    assert gib(fit.headroom_bytes) == 5.75
    assert fit.paused_fit == 12
    assert fit.long_fits
    assert gib(fit.headroom_bytes - fit.long_turn_bytes) == 4.5


def test_the_states_to_draw() -> None:
    states = study().states
    assert [(state.label, gib(state.used_bytes)) for state in states] == [
        ("running only", 13.5),
        ("+1 paused", 14.4375),
        ("+2 paused", 15.375),
        ("+3 paused", 16.3125),
        ("+4 paused", 17.25),
        ("+1 long", 16.0),
    ]
    assert [gib(state.over_bytes) for state in states] == [0, 0, 0, 0.8125, 1.75, 0.5]
    assert max(gib(state.used_q8_bytes) for state in states) < 15.5


def test_reserving_up_front_fits_far_fewer_than_eight_turns() -> None:
    reserve = study().reserves[Store.FP16]
    assert reserve.slots == 1
    assert gib(reserve.slot_bytes) == 5.0
    assert gib(reserve.skipped_bytes) == 8 * 5.0 - 7.5
    half = plan(CARD, LAYOUT, replace(load_of(CARD), max_context=16_384))
    assert half.reserves[Store.FP16].slots == 3


def test_the_decode_step_that_pins_the_card() -> None:
    """18 ms alone, and eight turns give 5.6 times the tokens: at 6k of the shape that the model really has."""
    kv = CARD.preset("qwen3.5-9b").layout.kv_bytes(6_144, Store.FP16)
    alone, eight = CARD.decode_step_s(1, kv), CARD.decode_step_s(8, 8 * kv)
    assert alone == pytest.approx(0.018, rel=1e-4)
    assert 8 * alone / eight == pytest.approx(5.6, rel=1e-4)
    assert 0.025 < eight < 0.030
    assert 1 / eight == pytest.approx(39, abs=0.2)


def test_the_presets_bytes_per_token() -> None:
    sizes = {preset.name: preset.layout.bytes_per_token(Store.FP16) for preset in CARD.presets}
    assert sizes == {"ceiling": 163_840, "swap": 147_456, "qwen3.5-9b": 32_768}


def test_the_real_shape_keeps_a_state_beside_its_kv() -> None:
    """24 layers: a convolution of (2 x 16 + 32) x 128 channels over 3 inputs of 2 bytes, and 32 x 128 x 128 in fp32."""
    layout = CARD.preset("qwen3.5-9b").layout
    assert layout.state_bytes == 24 * ((2 * 16 * 128 + 32 * 128) * 3 * 2 + 32 * 128 * 128 * 4)
    for store, per_token in ((Store.FP16, 32_768), (Store.Q8, 2 * 8 * 4 * (256 + 4))):
        assert layout.turn_bytes(6_144, store) == layout.state_bytes + 6_144 * per_token


@pytest.mark.parametrize("value", [0, -1, 1.5, 10**9, None, float("nan"), float("inf"), "8", True, 10**400])
@pytest.mark.parametrize("name", ["slots", "mean_context", "long_context", "max_context"])
def test_a_load_that_cannot_be_names_its_field(name: str, value: object) -> None:
    with pytest.raises(BadField) as caught:
        replace(Load(), **{name: value})  # type: ignore[arg-type]
    assert caught.value.field == name
    assert "give a whole number from 1 to" in str(caught.value)


def test_columns_show_what_fits_and_what_goes_over() -> None:
    assert columns_for(2) == (0, 1, 2, 3, 4)
    assert columns_for(0) == (0, 1, 2)
    for fit in (7, 42, 100_000):
        columns = columns_for(fit)
        assert len(columns) == 9
        assert columns[0] == 0
        assert columns[-3:] == (fit, fit + 1, fit + 2)


def card_with(usable_gib: float) -> CardProfile:
    return replace(CARD, usable=checked_figure("usable", usable_gib, "GiB", "assumed", "a test"))


def test_what_does_not_fit_at_all_is_over_and_never_negative_turns() -> None:
    full = plan(card_with(6.5), LAYOUT, load_of(CARD))
    fit = full.fits[Store.FP16]
    assert gib(fit.headroom_bytes) == -7.0
    assert (fit.paused_fit, fit.long_fits) == (0, False)
    assert full.states[0].over_bytes == 7.0 * GIB
    assert full.reserves[Store.FP16].slots == 0


def test_a_model_without_kv_never_fills_the_card() -> None:
    made = plan(CARD, TurnLayout("state only", (), state_bytes=1 << 20), load_of(CARD))
    fit = made.fits[Store.FP16]
    assert fit.fill_context is None
    assert fit.turn_bytes == 1 << 20
    assert fit.paused_fit == int(9.5 * 1024) - 8


def test_full_windows_never_fill_the_card_and_a_state_that_does_not_fit_allows_no_context() -> None:
    sliding = TurnLayout("sliding", (LayerGroup(10, 8, (128, 128), window=1024),))
    assert plan(CARD, sliding, Load(mean_context=10**6)).fits[Store.FP16].fill_context is None
    heavy = TurnLayout("heavy", (LayerGroup(1, 1, (64, 64)),), state_bytes=2 * GIB)
    assert plan(CARD, heavy, Load()).fits[Store.FP16].fill_context == 0


@given(
    slots=st.integers(1, 1024),
    mean=st.integers(1, 10_000_000),
    usable=st.floats(6.01, 1000),
    layers=st.integers(1, 200),
    state=st.integers(0, 1 << 32),
)
def test_paused_turns_fit_up_to_the_ceiling_and_not_one_more(
    slots: int, mean: int, usable: float, layers: int, state: int
) -> None:
    base = uniform("a", KVGeometry(layers, 8, 128))
    layout = replace(base, state_bytes=state)
    made = plan(card_with(usable), layout, Load(slots=slots, mean_context=mean))
    for fit in made.fits.values():
        _check(fit, layout, made.card, slots)
    assert made.fits[Store.Q8_HALF].turn_bytes <= made.fits[Store.Q8].turn_bytes <= made.fits[Store.FP16].turn_bytes


def _check(fit: Fit, layout: TurnLayout, card: CardProfile, slots: int) -> None:
    room = card.usable.amount
    if fit.headroom_bytes >= 0:
        assert fit.used_bytes + fit.paused_fit * fit.turn_bytes <= room * (1 + 1e-12)
        assert fit.used_bytes + (fit.paused_fit + 1) * fit.turn_bytes > room * (1 - 1e-12)
    else:
        assert fit.paused_fit == 0
    assert fit.fill_context is not None
    if fit.fill_context:
        assert slots * layout.turn_bytes(fit.fill_context, fit.store) <= card.kv_budget_bytes
    assert slots * layout.turn_bytes(fit.fill_context + 1, fit.store) > card.kv_budget_bytes * (1 - 1e-12)
