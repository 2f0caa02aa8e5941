"""The studies' numbers of swap against recompute, by way of what the Prices page prints; and layouts that bend."""

import csv
import io
from dataclasses import replace

import pytest

from engine.cards.store import load_card
from engine.layout import LayerGroup, Store, TurnLayout
from engine.paper.prices import Prices, prices
from panels import prices_controls, prices_figures, prices_room, prices_scale, prices_table, prices_text
from panels.figures import Tile
from panels.prices_text import cell, decimal_size, times

CARD = load_card("rx9070xt")
SWAP = CARD.preset("swap")


def listed(context: int = 6_900, exact: bool = False) -> Prices:
    return prices(CARD, SWAP, context=context, exact=exact)


def tile(key: str, of: Prices | None = None) -> Tile:
    return next(c for c in prices_figures.tiles(of or listed()) if c.key == key)


def printed(of: Prices) -> dict[str, tuple[str, ...]]:
    """The table as it is read: the context, then its figures with their units."""
    rows = prices_table.table(of, (), "dark")["rows"]
    return {
        row["cells"][0]["text"]: tuple(f"{c['text']} {c['unit']}".strip() for c in row["cells"][1:]) for row in rows
    }


@pytest.mark.parametrize(
    ("tokens", "figures"),
    [
        ("2,000", ("0.29 GB", "11.8 ms", "2.1 s", "177×")),
        ("6,900", ("1.01 GB", "40.6 ms", "7.2 s", "177×")),
        ("16,000", ("2.35 GB", "94.1 ms", "16.6 s", "177×")),
        ("32,000", ("4.70 GB", "188.2 ms", "33.3 s", "177×")),
        ("55,000", ("8.09 GB", "323.4 ms", "57.2 s", "177×")),
    ],
)
def test_the_table_prints_the_studys_rows(tokens: str, figures: tuple[str, ...]) -> None:
    assert printed(listed())[tokens] == figures


def test_the_chosen_context_is_in_the_table_once_and_pointed_at() -> None:
    for context, length in ((6_900, 5), (7_000, 6)):
        rows = prices_table.table(listed(context), (), "dark")["rows"]
        assert len(rows) == length
        assert [row["cells"][0]["text"] for row in rows if row["label"]] == [f"{context:,}"]


def test_the_cards_say_what_the_study_says() -> None:
    assert (tile("trip").value, tile("trip").sub) == ("40.6 ms", "way back alone 20.3 ms")
    assert tile("recompute").value == "7.17 s"
    assert (tile("ratio").value, tile("ratio").sub) == ("177×", "354× the way back")
    assert tile("even_wait").value == "40.6 ms"
    assert (tile("even_prefill").value, tile("even_prefill").sub) == ("170,068 tok/s", "way back alone 340,136")
    assert (tile("per_token").value, tile("per_token").sub) == ("5.88 µs", "recompute 1.04 ms")


def test_card_and_host_hold_what_the_study_says() -> None:
    text = prices_room.sentence(listed())
    assert "The card holds 55,102 tokens in 8.10 GB" in text
    assert "326,530 in 48.0 GB, 5.9 times as many" in text
    bars = prices_room.spec(listed(), "dark")["data"]
    assert bars[1]["x"][0] / bars[0]["x"][0] == pytest.approx(326_530 / 55_102)


def test_the_lines_of_the_room_count_turns_of_the_chosen_context() -> None:
    assert prices_room.lines(listed()) == (
        "55,102 tokens · 8.10 GB<br>7 turns of 6,900",
        "326,530 tokens · 48.0 GB<br>47 turns of 6,900",
    )


def test_half_the_bandwidth_halves_the_ratio() -> None:
    slower = replace(listed(), out_bytes_per_s=25e9, back_bytes_per_s=25e9)
    assert tile("ratio", slower).value == "88.4×"


def test_q8_halves_the_copies_and_not_the_recompute() -> None:
    q8 = prices(CARD, SWAP, context=6_900, store=Store.Q8)
    row, fp16 = q8.row(6_900), listed(exact=True).row(6_900)
    assert row.swap_s / fp16.swap_s == pytest.approx((128 + 4) / 256)
    assert row.recompute_s == fp16.recompute_s


def test_the_line_says_what_is_counted() -> None:
    said = prices_controls.what_counts
    assert "the study rounds 147,456 to 147,000 bytes per token" in said(CARD, SWAP, Store.FP16, exact=False)
    assert "147,456 bytes per token at fp16, exact" in said(CARD, SWAP, Store.FP16, exact=True)
    assert said(CARD, SWAP, Store.Q8, exact=False).endswith("76,032 bytes per token at q8")


def test_both_notes_of_the_study_stand_below_the_table() -> None:
    notes = prices_table.table(listed(), prices_text.notes(listed(), CARD, SWAP), "dark")["notes"]
    assert any("147,456" in note for note in notes)
    assert any("340,000 tok/s" in note and "half" in note for note in notes)
    slower = replace(listed(), prefill_tokens_per_s=100.0)
    assert not any("340,000" in note for note in prices_text.notes(slower, CARD, SWAP))


def test_the_csv_is_unrounded() -> None:
    named = replace(CARD, name="=cmd()")
    about, table = prices_table.as_csv(listed(), named, SWAP).decode().split("\r\n\r\n")
    asked = dict(csv.reader(io.StringIO(about)))
    assert (asked["card"], asked["model"], asked["kv_precision"]) == ("'=cmd()", "swap", "fp16")
    assert (asked["context_tokens"], float(asked["link_out_bytes_per_s"])) == (str(listed().context), 50e9)
    rows = list(csv.DictReader(io.StringIO(table)))
    assert [int(row["tokens"]) for row in rows] == [2_000, 6_900, 16_000, 32_000, 55_000]
    assert float(rows[1]["swap_s"]) == listed().row(6_900).swap_s
    assert float(rows[1]["ratio"]) == listed().row(6_900).ratio


def test_a_fixed_state_alone_makes_the_ratio_depend_on_the_context() -> None:
    state = replace(listed(), layout=TurnLayout("state", (), state_bytes=24 << 20), rounded=None)
    ratios = [row.ratio for row in prices_table.rows(state)]
    assert ratios == sorted(ratios)
    assert ratios[0] < ratios[-1]
    assert len({row.swap_s for row in prices_table.rows(state)}) == 1
    assert "depends on the context" in prices_table.sentence(state)
    assert "It depends" in tile("ratio", state).hint


def test_a_window_that_fills_makes_the_ratio_depend_on_the_context() -> None:
    sliding = replace(listed(), layout=TurnLayout("sliding", (LayerGroup(24, 4, (128, 128), 1_024),)), rounded=None)
    assert not sliding.fixed_ratio
    assert listed().fixed_ratio
    assert sliding.row(55_000).swap_s == sliding.row(2_000).swap_s


def test_no_pinned_memory_holds_no_tokens_and_says_so() -> None:
    none = replace(listed(), host_bytes=0.0)
    assert "No host memory is pinned: it holds 0 tokens" in prices_room.sentence(none)
    assert prices_room.lines(none)[1] == "0 tokens · 0 B<br>0 turns of 6,900"


def test_a_card_without_room_for_one_token_is_told() -> None:
    assert "not one token" in prices_room.sentence(replace(listed(), card_bytes=10.0))


def test_the_sentence_of_the_time_line_says_all_of_it() -> None:
    text = prices_scale.sentence(listed())
    for part in ("6,900 tokens holds 1.01 GB", "40.6 ms", "20.3 ms", "7.17 s, 177 times", "50 ms to 30 s", "13.6 s"):
        assert part in text


def test_a_link_that_differs_each_way_is_kept_until_another_figure_is_given() -> None:
    measured = (4.1e9, 5.3e9)
    value = prices_controls.both_ways(measured)
    assert value == pytest.approx(4.623, abs=1e-3)
    assert prices_controls.link_for(value, (measured, None)) == measured
    assert prices_controls.link_for(25.0, (measured, None)) == (25e9, 25e9)


def test_small_figures_do_not_vanish() -> None:
    assert (cell(0.000294, 2), cell(0.0941, 1), cell(11.76, 1)) == ("0.000294", "0.0941", "11.8")
    assert (times(176.8), times(5.93), times(0.0042)) == ("177", "5.9", "0.0042")
    assert (decimal_size(2.35e6), decimal_size(8.1e9), decimal_size(300)) == ("2.35 MB", "8.10 GB", "300 B")
