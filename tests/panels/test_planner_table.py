"""The planner's figures, table, CSV file and the session beside it."""

import csv
import io
from dataclasses import replace

import pytest

from engine.cards.store import load_card
from engine.geometry import KVDtype
from engine.layout import LayerGroup, Store, TurnLayout
from engine.paper.ceiling import Load, Plan, load_of, plan
from panels import planner_figures, planner_measured, planner_table, planner_words
from panels.deck_view import NO_ENGINE
from panels.units import common_unit, trimmed
from tests.browser.scenes import SCENES
from tests.panels.test_planner_chart import ALL_WINDOWED, STATE_ONLY, gib

CARD = load_card("rx9070xt")
DENSE = CARD.preset("ceiling").layout
STUDY = plan(CARD, DENSE, load_of(CARD))


def cells(asked: Plan, key: str) -> list[str]:
    row = next(row for row in planner_table.rows(asked) if row.key == key)
    return [f"{cell.text} {cell.unit}".strip() for cell in row.cells]


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        ("bytes_per_token", ["163,840 B", "84,480 B", "81,920 B"]),
        ("turn", ["0.938 GiB", "0.483 GiB", "0.469 GiB"]),
        ("running", ["7.500 GiB", "3.867 GiB", "3.750 GiB"]),
        ("used", ["13.500 GiB", "9.867 GiB", "9.750 GiB"]),
        ("headroom", ["2.000 GiB", "5.633 GiB", "5.750 GiB"]),
        ("paused_fit", ["2", "11", "12"]),
        ("long_turn", ["2.500 GiB", "1.289 GiB", "1.250 GiB"]),
        ("long_fits", ["no", "yes", "yes"]),
        ("fill_context", ["7,782 tok", "15,093 tok", "15,564 tok"]),
    ],
)
def test_the_table_shows_the_studys_numbers_and_the_right_ones(key: str, shown: list[str]) -> None:
    assert cells(STUDY, key) == shown


def test_the_slips_of_the_study_are_noted_beside_it() -> None:
    preset = CARD.preset("ceiling")
    told = " ".join(planner_words.notes(STUDY, preset))
    assert "prints 2.56 GiB" in told
    assert "11 paused turns fit and not 12" in told
    longer = plan(CARD, DENSE, replace(load_of(CARD), mean_context=8_192))
    assert planner_words.notes(longer, preset) == ()


def test_full_windows_are_noted() -> None:
    sliding = TurnLayout("s", (LayerGroup(1, 1, (64, 64)), LayerGroup(5, 1, (64, 64), 1_024)))
    assert planner_words.shape_notes(sliding) == (
        "Bytes per token hold while no window is full; past 1,024 tokens a token adds 256 B at fp16.",
    )
    assert planner_words.shape_notes(DENSE) == ()


def test_a_load_beyond_the_models_own_context_is_noted() -> None:
    short = replace(DENSE, max_context=8_192)
    told = planner_words.notes(plan(CARD, short, load_of(CARD)), CARD.preset("ceiling"))
    assert "Long context of 16,384 tokens is beyond the 8,192 that the model itself allows." in told
    assert not any(note.startswith("Mean") for note in told)


def test_the_cards_say_the_same() -> None:
    shown = {tile.key: (tile.value, tile.sub) for tile in planner_figures.tiles(STUDY)}
    assert shown["headroom"] == ("2.00 GiB", "fp16 · q8: 5.63 GiB")
    assert shown["paused_fit"] == ("2", "fp16 · q8: 11")
    assert shown["long_fits"] == ("no", "2.50 GiB at fp16 · q8: yes")
    assert shown["fill_context"] == ("7,782 tok", "fp16 · q8: 15,093 tok")
    assert shown["reserve"] == ("1 of 8", "fp16 · q8: 3")
    assert all("modelled" in tile.hint for tile in planner_figures.tiles(STUDY))


def test_the_decode_step_of_the_models_own_shape_is_the_studys() -> None:
    own = plan(CARD, CARD.preset("qwen3.5-9b").layout, load_of(CARD))
    step = next(tile for tile in planner_figures.tiles(own) if tile.key == "step")
    assert (step.value, step.sub) == ("25.7 ms", "38.9 tok/s each · 311 in all")


def test_over_the_ceiling_is_said_and_signed() -> None:
    over = plan(replace(CARD, weights=gib(20)), DENSE, load_of(CARD))
    headroom = planner_figures.tiles(over)[0]
    assert (headroom.label, headroom.value, headroom.tone) == ("Over the ceiling", "12.8 GiB", "bad")
    assert headroom.sub == "fp16 · q8: −9.17 GiB"
    assert cells(over, "headroom")[0] == "−12.800 GiB"
    assert cells(over, "fill_context") == ["0 tok"] * 3


@pytest.mark.parametrize("layout", [STATE_ONLY, ALL_WINDOWED])
def test_what_stops_growing_never_fills_the_card(layout: TurnLayout) -> None:
    asked = plan(CARD, layout, load_of(CARD))
    assert cells(asked, "fill_context") == ["never"] * 3
    assert planner_figures.tiles(asked)[3].value == "never"


def test_a_model_that_keeps_no_kv_takes_its_state() -> None:
    asked = plan(CARD, STATE_ONLY, Load(slots=8, mean_context=10_000_000))
    assert cells(asked, "bytes_per_token") == ["0 B"] * 3
    assert cells(asked, "running") == ["0.391 GiB"] * 3


def read(table: bytes) -> dict[str, list[str]]:
    return {row[0]: row[1:] for row in csv.reader(io.StringIO(table.decode())) if row}


def test_the_csv_is_unrounded_and_its_text_runs_nowhere() -> None:
    asked = replace(STUDY, card=replace(CARD, name="=cmd()"))
    table = read(planner_table.as_csv(asked))
    assert table["figure"] == ["unit", "fp16", "q8", "q8_half"]
    assert table["card"] == ["'=cmd()"]
    assert table["model"] == [DENSE.name]
    assert table["kv_precision"] == ["fp16, q8, q8_half"]
    assert float(table["usable_bytes"][0]) == CARD.usable.amount
    assert (table["slots"], table["mean_context_tokens"]) == (["8"], ["6144"])
    assert table["turn_bytes"] == ["bytes", "1006632960", "519045120", "503316480"]
    assert float(table["headroom_bytes"][2]) == STUDY.fits[Store.Q8].headroom_bytes
    assert table["fill_context"] == ["tokens", "7782", "15093", "15564"]
    assert table["reserve_slots"][1:3] == ["1", "3"]
    never = plan(CARD, STATE_ONLY, load_of(CARD))
    empty = read(planner_table.as_csv(never))
    assert empty["fill_context"] == ["tokens", "", "", ""]


def test_the_session_stands_beside_the_plan_at_its_own_precision() -> None:
    snapshot = SCENES["running"]().control.snapshot
    assert snapshot.bands is not None
    rows = {
        row.key: [cell.text for cell in row.cells] for row in planner_measured.rows(STUDY, snapshot, snapshot.bands)
    }
    assert snapshot.knobs.kv_dtype == KVDtype.Q8
    assert rows["bytes_per_token"] == ["84,480", f"{snapshot.bytes_per_token:,}"]
    assert rows["paused_fit"] == ["11", f"{snapshot.paused_fit:,}"]
    assert rows["parked"][0] == "n/a"
    assert snapshot.model in planner_measured.notes(snapshot)[0]
    assert "measured ×" in planner_measured.notes(snapshot)[0]


def test_a_precision_that_the_plan_does_not_have_is_not_modelled() -> None:
    snapshot = SCENES["running"]().control.snapshot
    exact = replace(snapshot, knobs=replace(snapshot.knobs, kv_dtype=KVDtype.FP32))
    assert exact.bands is not None
    rows = {row.key: row.cells for row in planner_measured.rows(STUDY, exact, exact.bands)}
    assert rows["running"][0].text == "n/a"
    assert rows["running"][1].text != "n/a"


@pytest.mark.parametrize(("scene", "word"), [("starting", "starting"), ("failed", "failed")])
def test_a_session_without_figures_says_why(scene: str, word: str) -> None:
    said = planner_measured.why_none(SCENES[scene]().control.snapshot)
    assert said is not None
    assert said.startswith("n/a: ")
    assert word in said


def test_without_an_engine_it_says_how_to_start_one() -> None:
    assert planner_measured.why_none(None) == NO_ENGINE
    assert planner_measured.why_none(SCENES["running"]().control.snapshot) is None


def test_numbers_are_exact_where_three_decimals_say_them() -> None:
    assert [trimmed(value) for value in (13.5, 14.4375, 15.375, 16.3125, 16.0, 0.0, 1e-4, 1234.5)] == [
        "13.5", "14.44", "15.375", "16.31", "16.0", "0.0", "under 0.01", "1,234",
    ]  # fmt: skip


def test_a_row_of_sizes_has_one_unit() -> None:
    assert [common_unit(row) for row in ((2 << 30, 5), (3 << 20, 0), (700,), (0,), ())] == [
        1 << 30,
        1 << 20,
        1 << 10,
        1,
        1,
    ]
