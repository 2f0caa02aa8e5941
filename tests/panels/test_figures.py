"""Figures, units and the scale switch."""

import dataclasses

import pytest

from engine.blocked import Blocked, Share
from engine.geometry import KVDtype
from engine.knobs import Knobs
from engine.snapshot import HostState, Rates
from panels import figures, top, units
from panels.scale import Scale
from tests.panels.fake_control import CARD, GIB, HOST, FakeControl


def tile(control: FakeControl, key: str, scale: Scale | None = None) -> figures.Tile:
    shown = figures.tiles(control.snapshot, scale or Scale(CARD))
    return next(c for c in shown if c.key == key)


def test_headroom_is_the_ceiling_minus_what_is_used() -> None:
    control = FakeControl(at=60.0)
    bands = control.snapshot.bands
    assert bands is not None
    stack = Scale(CARD).stack(bands)
    assert tile(control, "headroom").value == units.size_in(stack.headroom, GIB)
    assert tile(control, "headroom").sub == "of 15.5 GiB"
    here = tile(control, "headroom", Scale(None))
    assert here.value == units.size_in(bands.headroom, units.MIB)


def test_what_is_not_measured_says_so_and_is_never_zero() -> None:
    control = FakeControl(state=HostState.IDLE, at=1.0, empty=True)
    for key in ("decode", "ttft", "itl", "blocked"):
        assert tile(control, key).value == "n/a"


def test_what_lives_no_more_has_no_rate_and_its_latencies_are_the_last() -> None:
    snapshot = dataclasses.replace(FakeControl(at=60.0).snapshot, turns=())
    shown = {c.key: c for c in figures.tiles(snapshot, Scale(None))}
    assert (shown["decode"].value, shown["decode"].sub) == ("n/a", "prefill n/a")
    assert shown["blocked"].value == "n/a"
    for key in ("ttft", "itl"):
        assert shown[key].value != "n/a"
        assert shown[key].sub.startswith("last · p95")


def test_turns_without_a_slot_are_told_apart_and_broken_stalls_counted() -> None:
    snapshot = FakeControl(at=60.0).snapshot
    counters = dataclasses.replace(snapshot.counters, stalls=2)
    shown = {c.key: c for c in figures.tiles(dataclasses.replace(snapshot, counters=counters), Scale(None))}
    assert shown["turns"].sub == "2 paused · 1 waiting · 1 tool"
    assert shown["preemptions"].sub == "stalls broken 2"


def test_the_share_of_copies_that_was_hidden_is_said_once_one_has_run() -> None:
    snapshot = FakeControl(at=60.0).snapshot
    counters = dataclasses.replace(snapshot.counters, swap_seconds=0.0)
    snapshot = dataclasses.replace(snapshot, counters=counters)
    shown = {c.key: c for c in figures.tiles(snapshot, Scale(None))}
    assert "n/a of the copies' time" in shown["swapped"].hint
    assert top.line(snapshot).endswith("· copies hidden n/a")
    counters = dataclasses.replace(counters, swap_seconds=0.5, hidden_seconds=0.4, waited_seconds=0.1, prefetches=1)
    snapshot = dataclasses.replace(snapshot, counters=counters)
    shown = {c.key: c for c in figures.tiles(snapshot, Scale(None))}
    assert "80 % of the copies' time, 500 ms, went by" in shown["swapped"].hint
    assert "1 turn came back ahead of a slot, 0 of them left again" in shown["swapped"].hint
    assert top.line(snapshot).endswith("· copies hidden 80 %")


def test_q8_raises_the_paused_turns_that_fit() -> None:
    fp16, q8 = (
        FakeControl(at=80.0, knobs=Knobs(kv_dtype=dtype, host_pool_bytes=HOST), switched_at=at)
        for dtype, at in ((KVDtype.FP16, 999.0), (KVDtype.Q8, 0.0))
    )
    assert int(tile(q8, "paused_fit").value) > int(tile(fp16, "paused_fit").value)
    assert tile(fp16, "paused_fit").sub.startswith("q8: ")


def test_what_one_slot_could_carry_is_one_over_one_minus_b_where_nobody_queues() -> None:
    share = Share(60.0, 600.0, 400.0, 0.0)
    control = FakeControl(at=60.0)
    snapshot = dataclasses.replace(
        control.snapshot, rates=Rates(blocked_fraction=share.b), blocked=Blocked(60.0, share, share)
    )
    shown = next(c for c in figures.tiles(snapshot, Scale(None)) if c.key == "blocked")
    assert (shown.value, shown.sub) == ("0.60", "2.5 agents a slot")
    full = dataclasses.replace(snapshot, blocked=Blocked(60.0, Share(60.0, 600.0), share))
    assert next(c for c in figures.tiles(full, Scale(None)) if c.key == "blocked").sub.endswith("n/a")


def test_ten_cards_each_with_a_hint_and_short_texts() -> None:
    shown = figures.tiles(FakeControl(at=112.0).snapshot, Scale(CARD))
    assert len(shown) == 10
    assert all(c.hint and len(c.value) <= 12 for c in shown)
    assert all(len(c.sub) <= (32 if c.key == "turns" else 22) for c in shown)


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [
        (1073741824, "1.00 GiB"),
        (1073741823, "1.00 GiB"),
        (15.5 * GIB, "15.5 GiB"),
        (2048 * 1024 * 1024, "2.00 GiB"),
        (512 << 20, "512 MiB"),
        (300, "300 B"),
        (None, "n/a"),
    ],
)
def test_gib_are_powers_of_two(nbytes: float | None, text: str) -> None:
    assert units.size(nbytes) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(2.4e-9, "2.40 ns"), (5.88e-6, "5.88 µs"), (0.0406, "40.6 ms"), (0.0824, "82.4 ms"), (0.9999, "1.00 s"),
     (35.2, "35.2 s"), (119.0, "119 s"), (300.0, "5 min"), (330.0, "5.5 min"), (3_600.0, "60 min"), (90_000.0, "25 h"),
     (1e6, "11.6 days"), (1e10, "317 years"), (0.0, "0 s"), (-0.02, "-20.0 ms"), (None, "n/a"), (float("nan"), "n/a")],
)  # fmt: skip
def test_durations_carry_their_unit(value: float | None, text: str) -> None:
    assert units.seconds(value) == text


def test_times_of_day_are_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        assert units.clock(1_790_000_000.0) == "14:13:20"
    finally:
        monkeypatch.delenv("TZ")
        time.tzset()


def test_labels_say_measured_or_profile() -> None:
    assert Scale(None).label == "this machine, measured"
    label = Scale(CARD).label
    assert "measured" in label
    assert "profile of RX 9070 XT" in label
