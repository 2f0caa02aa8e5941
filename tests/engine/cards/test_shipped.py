"""The shipped cards: their figures follow the rules that their sources state."""

from dataclasses import astuple

import pytest

from engine.cards.fields import FIELDS
from engine.cards.profile import GIB
from engine.cards.store import DEFAULT_CARD, load_card, shipped_ids
from engine.layout import Store

BANDWIDTH = {"rx9070xt": 640, "rx7900xtx": 960, "rtx5090": 1792, "rtx5090-32b": 1792}
"""Published memory bandwidth, GB/s."""
LINK = {"rx9070xt": 63, "rx7900xtx": 31.5, "rtx5090": 63, "rtx5090-32b": 63}
"""Signalled by PCIe 5.0 or 4.0 x16, GB/s."""


def test_the_default_comes_first_and_every_card_has_its_rules() -> None:
    assert shipped_ids()[0] == DEFAULT_CARD
    assert set(shipped_ids()) == set(BANDWIDTH)


@pytest.mark.parametrize("name", BANDWIDTH)
def test_figures_that_nobody_measured_follow_their_rule(name: str) -> None:
    card, base = load_card(name), load_card(DEFAULT_CARD)
    slower = 640 / BANDWIDTH[name]
    memory = float(card.memory.split()[0])
    weights = card.weights.amount / base.weights.amount
    parameters = 32.8 / 9 if card.model.startswith("Qwen3-32B") else 1.0
    assert card.usable.amount == pytest.approx(memory * 15.5 / 16 * GIB)
    assert card.decode_base.amount == pytest.approx(base.decode_base.amount * slower * weights, rel=1e-3)
    assert card.decode_per_turn.amount == pytest.approx(base.decode_per_turn.amount * slower * parameters, rel=1e-3)
    assert card.decode_per_kv_byte.amount == pytest.approx(1 / (BANDWIDTH[name] * 1e9), rel=1e-3)
    assert card.prefill.amount == pytest.approx(962 / parameters, rel=1e-3)
    assert card.link_out.amount == card.link_back.amount == pytest.approx(LINK[name] * 50 / 63 * 1e9)


@pytest.mark.parametrize("name", set(BANDWIDTH) - {DEFAULT_CARD})
def test_only_the_default_claims_a_measurement(name: str) -> None:
    card = load_card(name)
    assert {astuple(getattr(card, field))[2] for field in FIELDS} == {"assumed"}


def test_the_large_models_turns() -> None:
    card = load_card("rtx5090-32b")
    layout = card.preset("qwen3-32b").layout
    assert layout.bytes_per_token(Store.FP16) == 2 * 64 * 8 * 128 * 2 == 262_144
    turn = layout.turn_bytes(6144, Store.FP16)
    assert turn == 1.5 * GIB
    assert 4 * turn < card.kv_budget_bytes < 8 * turn
