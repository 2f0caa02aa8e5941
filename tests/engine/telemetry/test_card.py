"""Card profiles, card scale, and the stand-in's sizes."""

from pathlib import Path

import pytest

from engine.errors import Refused
from engine.geometry import KVDtype
from engine.telemetry.card import (
    CARDS,
    GIB,
    card_names,
    card_scale,
    load_card,
    standin_arena_tokens,
    standin_host_tokens,
)

TEXT = (CARDS / "rx9070xt.toml").read_text()


def test_the_shipped_card() -> None:
    card = load_card()
    assert "rx9070xt" in card_names()
    assert card.usable.nbytes == int(15.5 * GIB)
    assert card.kv_budget_bytes == pytest.approx(9.5 * GIB, abs=2)
    assert card.usable.source
    assert all(preset.source for preset in card.presets)
    per_token = {preset.name: preset.geometry.bytes_per_token(KVDtype.FP16) for preset in card.presets}
    assert per_token == {"ceiling": 163_840, "swap": 147_456, "qwen3.5-9b": 32_768}
    with pytest.raises(Refused, match="choose ceiling"):
        card.preset("none")


def test_the_standin_keeps_the_cards_proportion() -> None:
    """Eight average turns run and two are paused; the third goes over, and a long turn overflows alone."""
    assert standin_arena_tokens() == 10 * 768 + 8 * 16 == 7808
    assert standin_host_tokens() == 6 * 7808
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


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("value = 15.5", "value = -1", r"\[usable\] value"),
        ("value = 15.5", 'value = "15.5"', r"\[usable\] value"),
        ("value = 15.5", "value = nan", r"\[usable\] value"),
        ("value = 15.5", "value = 6.0", "leave no bytes"),
        ('unit = "GiB"', 'unit = "gigs"', "unit 'gigs'"),
        ("[runtime]", "[scratch]", r"\[runtime\] is missing"),
        ('known = "assumed"', 'known = "felt"', "known 'felt'"),
        ('source = "VRAM-ceiling study"', 'source = ""', "names no source"),
        ("layers = 40", "layers = 0", "preset 'ceiling'"),
        ("head_dim = 256", "head_dim = 2.5", "preset 'qwen3.5-9b'"),
        ("[[presets]]", "[[shapes]]", "presets are missing"),
        ("[usable]", "[usable", "cannot be read"),
    ],
)
def test_a_bad_profile_is_refused_by_name(tmp_path: Path, old: str, new: str, words: str) -> None:
    assert old in TEXT
    path = tmp_path / "mine.toml"
    path.write_text(TEXT.replace(old, new))
    with pytest.raises(Refused, match=words) as caught:
        load_card(path)
    assert str(caught.value).startswith("mine.toml")


def test_unknown_card() -> None:
    with pytest.raises(Refused, match="rx9070xt"):
        load_card("rtx0000")
