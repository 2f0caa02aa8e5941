"""The swap study's numbers, through the functions that the Prices page and `parkdeck prices` use."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.cards.fields import checked_figure
from engine.cards.store import load_card
from engine.layout import LayerGroup, Store, TurnLayout
from engine.paper.prices import CONTEXTS, TOOL_WAIT_S, Prices, prices

CARD = load_card("rx9070xt")
SWAP = CARD.preset("swap")
STUDY = prices(CARD, SWAP)


@pytest.mark.parametrize(
    ("tokens", "kv_gb", "swap_ms", "recompute_s"),
    [
        (2_000, 0.29, 11.8, 2.1),
        (6_900, 1.01, 40.6, 7.2),
        (16_000, 2.35, 94.1, 16.6),
        (32_000, 4.70, 188.2, 33.3),
        (55_000, 8.09, 323.4, 57.2),
    ],
)
def test_the_studys_table(tokens: int, kv_gb: float, swap_ms: float, recompute_s: float) -> None:
    row = STUDY.row(tokens)
    assert row.kv_bytes / 1e9 == pytest.approx(kv_gb, abs=0.0051)
    assert row.swap_s * 1e3 == pytest.approx(swap_ms, abs=0.051)
    assert row.recompute_s == pytest.approx(recompute_s, abs=0.051)
    assert round(row.ratio) == 177
    assert round(row.restore_ratio) == 354


def test_its_contexts_are_the_tables() -> None:
    assert CONTEXTS == (2_000, 6_900, 16_000, 32_000, 55_000)
    assert [row.tokens for row in STUDY.rows()] == list(CONTEXTS)


def test_per_token() -> None:
    row = STUDY.row(1)
    assert row.swap_s * 1e6 == pytest.approx(5.9, abs=0.05)
    assert row.recompute_s * 1e3 == pytest.approx(1.04, abs=0.005)


def test_a_ninth_turn_in_one_piece_freezes_the_others() -> None:
    """An 8k prompt at the author's prefill rate."""
    assert STUDY.row(8_000).recompute_s == pytest.approx(8.3, abs=0.05)


def test_break_even() -> None:
    assert pytest.approx(170_000, rel=0.001) == STUDY.break_even_prefill_tok_s
    assert pytest.approx(340_000, rel=0.001) == STUDY.break_even_restore_only_tok_s
    assert STUDY.break_even_wait_s == STUDY.row(STUDY.context).swap_s
    assert TOOL_WAIT_S == (0.050, 30.0)


def test_what_card_and_host_hold() -> None:
    assert STUDY.card_bytes == 8.1e9
    assert pytest.approx(55_000, rel=0.002) == STUDY.card_tokens
    assert pytest.approx(326_000, rel=0.002) == STUDY.host_tokens
    assert round(STUDY.host_tokens / STUDY.card_tokens) == 6


def test_a_block_of_sixteen_tokens() -> None:
    assert STUDY.kv_bytes(16) / 1e6 == pytest.approx(2.35, abs=0.005)


def test_exact_bytes_by_choice_and_always_at_q8() -> None:
    exact = prices(CARD, SWAP, exact=True)
    assert exact.kv_bytes(1_000) == 147_456_000
    assert round(exact.row(6_900).ratio) == 176
    assert prices(CARD, SWAP, store=Store.Q8).kv_bytes(1) == 2 * 36 * 8 * (128 + 4)


def test_half_the_bandwidth_halves_the_ratio() -> None:
    slow = checked_figure("link_out", 25, "GB/s", "assumed", "a test")
    halved = prices(replace(CARD, link_out=slow, link_back=slow), SWAP)
    assert halved.row(6_900).ratio == pytest.approx(STUDY.row(6_900).ratio / 2)


def test_out_and_back_are_priced_apart() -> None:
    card = replace(CARD, link_back=checked_figure("link_back", 25, "GB/s", "assumed", "a test"))
    row = prices(card, SWAP).row(6_900)
    assert row.restore_s == pytest.approx(2 * (row.swap_s - row.restore_s))


def test_no_pinned_memory_holds_no_tokens() -> None:
    card = replace(CARD, pinned_host=checked_figure("pinned_host", 0, "GB", "assumed", "a test"))
    assert prices(card, SWAP).host_tokens == 0


def made_of(layout: TurnLayout, context: int) -> Prices:
    return prices(CARD, replace(SWAP, layout=layout, rounded_bytes_per_token=None, kv_room=None), context=context)


def test_a_fixed_state_is_moved_whole_so_the_ratio_grows_with_the_context() -> None:
    made = made_of(TurnLayout("state", (), state_bytes=50 << 20), 1_000)
    assert made.row(1).kv_bytes == made.row(50_000).kv_bytes == 50 << 20
    assert made.row(50_000).ratio == pytest.approx(50_000 * made.row(1).ratio)


@given(tokens=st.integers(1, 10_000_000), context=st.integers(1, 10_000_000), window=st.integers(1, 100_000))
def test_prices_are_finite_and_break_even_is_where_both_cost_the_same(tokens: int, context: int, window: int) -> None:
    layout = TurnLayout("mixed", (LayerGroup(4, 8, (128, 128)), LayerGroup(20, 8, (64, 64), window)), 1 << 16)
    made = made_of(layout, context)
    row = made.row(tokens)
    assert 0 < row.restore_s < row.swap_s
    assert row.ratio == pytest.approx(row.recompute_s / row.swap_s)
    rate = made.break_even_prefill_tok_s
    assert context / rate == pytest.approx(made.row(context).swap_s)
    assert made.card_tokens * made.kv_bytes(context) <= made.card_bytes * context * (1 + 1e-9)
