"""Knob values (cases S5, H7): a bad one is one sentence, and the old set stays in force."""

import math
from typing import Any

import pytest

from engine.errors import BadKnob
from engine.geometry import KVDtype
from engine.knob_words import change, parsed
from engine.knobs import LABELS, Knobs


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("low_watermark", -0.1),
        ("low_watermark", 1.5),
        ("high_watermark", math.nan),
        ("high_watermark", math.inf),
        ("high_watermark", "0,5"),
        ("high_watermark", True),
        ("max_running", 0),
        ("max_running", 2.0),
        ("max_running", True),
        ("prefill_chunk", 8),
        ("prefill_chunk", 10**9),
        ("long_turn_tokens", "2048"),
        ("host_pool_bytes", -1),
        ("min_quantum_s", -0.5),
        ("abandon_after_s", 0),
        ("overlap_copies", 1),
        ("overlap_copies", "on"),
        ("kv_dtype", "fp8"),
        ("kv_dtype", None),
        ("policy", ""),
        ("colour", "red"),
        (7, "red"),
    ],
)
def test_a_bad_value_is_refused_with_its_name(name: Any, value: object) -> None:
    with pytest.raises(BadKnob, match=LABELS.get(name, f"there is no knob {name!r}")):
        Knobs().changed({name: value})


def test_the_low_watermark_must_not_be_above_the_high_one() -> None:
    with pytest.raises(BadKnob, match="must not be higher"):
        Knobs(high_watermark=0.5, low_watermark=0.4).changed({"low_watermark": 0.6})
    assert Knobs().changed({"high_watermark": 0.6, "low_watermark": 0.6}).low_watermark == 0.6


@pytest.mark.parametrize(
    ("name", "old", "new", "text"),
    [
        ("high_watermark", 0.95, 0.9, "High watermark 95 → 90 %"),
        ("low_watermark", 0.07, 0.29, "Low watermark 7 → 29 %"),
        ("host_pool_bytes", 1 << 30, 2 << 30, "Host pool 1,024 → 2,048 MiB of this machine"),
        ("max_running", 8, 4, "Slots 8 → 4"),
        ("min_quantum_s", 0.25, 1.0, "Quantum 0.25 → 1 s"),
        ("kv_dtype", KVDtype.FP16, KVDtype.Q8, "KV precision fp16 → q8"),
        ("long_turn_tokens", 2048, 512, "Long turn 2,048 → 512 tok"),
        ("overlap_copies", False, True, "Overlapped copies off → on"),
    ],
)
def test_a_change_in_words(name: str, old: object, new: object, text: str) -> None:
    assert change(name, old, new) == text


def test_a_switch_is_told_and_read_back() -> None:
    assert [parsed("overlap_copies", str(value)) for value in (True, False)] == [True, False]
    with pytest.raises(BadKnob, match="Overlapped copies cannot be 'yes'"):
        parsed("overlap_copies", "yes")


def test_every_knob_has_a_word() -> None:
    assert set(LABELS) == set(Knobs.__dataclass_fields__) - {"parameters"}


def test_all_or_nothing() -> None:
    knobs = Knobs()
    with pytest.raises(BadKnob):
        knobs.changed({"max_running": 4, "prefill_chunk": 1})
    assert knobs == Knobs()


def test_a_precision_may_come_as_text() -> None:
    assert Knobs().changed({"kv_dtype": "q8"}).kv_dtype is KVDtype.Q8
