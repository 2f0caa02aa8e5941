"""Card profiles from TOML: the shipped one, and every kind of mistake named with its place."""

from pathlib import Path

import pytest

from engine.cards.profile import GIB
from engine.cards.read import profile_from_text, read_profile
from engine.cards.store import SHIPPED, load_card, shipped_ids
from engine.errors import Refused
from engine.layout import Store

TEXT = (SHIPPED / "rx9070xt.toml").read_text()
COPIES = "copies = [{ block_bytes = 64, out_bytes_per_s = 4e9, back_bytes_per_s = 5e9 }]"
OWN = f"block_bytes = 64\n{COPIES}"


def test_the_shipped_card() -> None:
    card = load_card()
    assert "rx9070xt" in shipped_ids()
    assert card.usable.amount == 15.5 * GIB
    assert card.kv_budget_bytes == 9.5 * GIB
    per_token = {preset.name: preset.layout.bytes_per_token(Store.FP16) for preset in card.presets}
    assert per_token == {"ceiling": 163_840, "swap": 147_456, "qwen3.5-9b": 32_768}
    with pytest.raises(Refused, match="choose ceiling"):
        card.preset("none")


@pytest.mark.parametrize("name", shipped_ids())
def test_every_shipped_figure_says_where_it_is_from(name: str) -> None:
    card = load_card(name)
    assert card.id == name
    assert all(preset.source for preset in card.presets)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("value = 15.5", "value = -1", r"\[usable\] Usable memory -1 GiB is out of range"),
        ("value = 15.5", "value = 0", "out of range"),
        ("value = 15.5", "value = 1e300", "out of range"),
        ("value = 15.5", 'value = "15.5"', "is not a number"),
        ("value = 15.5", "value = true", "is not a number"),
        ("value = 15.5", "value = nan", "is not a number"),
        ("value = 15.5\n", "", "is empty"),
        ("value = 15.5", "value = 6.0", "leave no bytes"),
        ('unit = "GiB"', 'unit = "gigs"', "unit 'gigs'"),
        ("[runtime]", "[scratch]", r"\[runtime\] is missing"),
        ("value = 8\n", "value = 8.5\n", "a whole number from 1 to 1,024 turns"),
        ("value = 962", f"value = 1{'0' * 400}", "is not a number"),
        ('known = "assumed"', 'known = "felt"', "known 'felt'"),
        ('source = "VRAM-ceiling study"', 'source = ""', "names no source"),
        ("layers = 40", "layers = 0", "preset 'ceiling' layers 0"),
        ("head_dim = 256", "head_dim = 2.5", "preset 'qwen3.5-9b' head_dim 2.5"),
        ("value = 147000", "value = 0", "preset 'swap' rounded_bytes_per_token"),
        ('name = "swap"', 'name = "ceiling"', "'ceiling' is there twice"),
        ("[[presets]]", "[[shapes]]", "presets are missing"),
        ("[usable]", "[usable", "cannot be read"),
        ("value = 147000", "value = 1e-300", "is not a number of bytes from 1 on in B"),
        ("value = 8.1", "value = 5e-324", "is not a number of bytes from 1 on in GB or GiB"),
        ("value = 15.5", f"value = {'9' * 5000}", "a number of thousands of digits"),
        ("value = 15.5", f"value = 0x{'f' * 5000}", "a number of thousands of digits"),
        ("layers = 40", f"layers = 0x{'f' * 5000}", "a number of thousands of digits"),
        ('unit = "GiB"', f"unit = 0x{'f' * 5000}", "a number of thousands of digits"),
        ("layers = 36", f"layers = [{'1, ' * 5000}]", r"layers \[1, 1"),
        ("[usable]", f"[{'a.' * 5000}a]", "a line with more than 100 dots"),
        ("[usable]", f"{'k' * 5000} = 1\n{'k' * 5000} = 1\n[usable]", "cannot be read"),
        ("[usable]", f"x = {'[' * 5000}", "cannot be read"),
        ("notes = [", f"notes = ['{'n' * 501}',", "of at most 500 characters"),
    ],
)
def test_a_bad_profile_is_refused_by_name(tmp_path: Path, old: str, new: str, words: str) -> None:
    assert old in TEXT
    path = tmp_path / "mine.toml"
    path.write_text(TEXT.replace(old, new))
    with pytest.raises(Refused, match=words) as caught:
        read_profile(path)
    assert str(caught.value).startswith("mine.toml")
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("copies = 5", "is no list of tables"),
        ("block_bytes = 32", "block_bytes 32 is none of the sizes in"),
        (f"{COPIES}\nblock_bytes = 32", "block_bytes 32 is none of the sizes in"),
        (COPIES, "block_bytes None is none of the sizes in"),
        (
            f"{OWN}\ndecodes = [{{ turns = 0.5, context = 8, kv_bytes = 8, seconds = 1.0 }}]",
            "needs whole numbers for turns",
        ),
        (f"{OWN}\ndecodes = [{{ turns = 1, context = 8, kv_bytes = 8, seconds = 1e300 }}]", "needs numbers over 0"),
    ],
)
def test_a_calibration_that_cannot_be(rows: str, words: str) -> None:
    errors = "decode_error = 0.0\ndecode_worst = 0.0"
    with pytest.raises(Refused, match=words):
        profile_from_text(f"{TEXT}\n[calibration]\n{errors}\n{rows}\n", "mine.toml")


def test_layers_of_several_kinds_a_state_and_a_calibration() -> None:
    groups = """
groups = [{ layers = 8, heads = 4, widths = [256, 256] }, { layers = 4, heads = 1, widths = [576], window = 512 }]
state_bytes = 1024
max_context = 4096"""
    calibration = """
[calibration]
at = "2026-11-30T08:00:00Z"
backend = "torch"
model = "a model"
block_bytes = 65536
decode_error = 0.02
decode_worst = 0.05
copies = [{ block_bytes = 65536, out_bytes_per_s = 4e9, back_bytes_per_s = 5e9 }]
prefills = [{ chunk = 256, tokens_per_s = 480.0 }]
decodes = [{ turns = 8, context = 768, kv_bytes = 1000, seconds = 0.05 }]
"""
    shape = "layers = 8\nkv_heads = 4\nhead_dim = 256\nstate_bytes = 51511296"
    card = profile_from_text(TEXT.replace(shape, groups) + calibration, "mine")
    layout = card.preset("qwen3.5-9b").layout
    assert layout.bytes_per_token(Store.FP16) == 8 * 4 * 512 * 2 + 4 * 576 * 2
    assert (layout.state_bytes, layout.max_context) == (1024, 4096)
    assert card.calibration is not None
    assert card.calibration.copies[0].back_bytes_per_s == 5e9
    assert card.calibration.block_bytes == 65536
    with pytest.raises(Refused, match=r"calibration\.copies"):
        profile_from_text(TEXT + calibration.replace("4e9", "0"), "mine")


def test_unknown_card() -> None:
    with pytest.raises(Refused, match="rx9070xt"):
        load_card("rtx0000")
