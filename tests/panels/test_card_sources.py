"""The table of sources: every figure with its unit, how it is known, and where it is from."""

from dataclasses import replace

from engine.cards.fields import FIELDS
from engine.cards.profile import Calibration
from engine.cards.store import load_card
from engine.layout import LayerGroup, TurnLayout
from panels.card_sources import calibrated, rows

CARD = load_card()


def test_every_figure_of_the_card_is_there() -> None:
    table = {row.figure: row for row in rows(CARD, CARD.preset("swap"))}
    assert {field.label for field in FIELDS.values()} <= set(table)
    assert table["Prefill rate"].value == "962 tok/s"
    assert table["Prefill rate"].known == "measured"
    assert table["Usable memory"].value == "15.5 GiB"
    assert table["swap: shape"].value == "36 layers × 8 heads × (128 + 128)"
    assert table["swap: bytes per token, fp16"].value == "147,456 B (144 KiB)"
    assert table["swap: bytes per token as its study rounds"].value == "147,000 B"
    assert table["swap: room for KV as its study says"].value == "8.1 GB"
    assert all(row.source for row in table.values())


def test_windows_latents_and_state() -> None:
    layout = TurnLayout("odd", (LayerGroup(4, 1, (576,), 512), LayerGroup(2, 8, (64, 64))), state_bytes=3 << 20)
    table = {row.figure: row.value for row in rows(CARD, replace(CARD.presets[0], layout=layout))}
    assert table["odd: shape"] == "4 layers × 1 head × (576), last 512 tokens and 2 layers × 8 heads × (64 + 64)"
    assert table["odd: state per turn"] == "3.00 MiB"


def test_a_calibration_in_words() -> None:
    calibration = Calibration("2026-11-30T08:00:00Z", "torch", "a model", 64, (), (), (), 0.021, 0.05)
    assert "misses by 2.1 % (at worst 5.0 %)" in calibrated(calibration)
