"""The stack chart: what it draws, at which scale, and how much it sends."""

import base64
import dataclasses
import json

import numpy as np
import plotly.graph_objects as go
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.events import Event, EventKind
from engine.geometry import KVDtype
from engine.snapshot import Bands, BandTurns, Sample
from engine.thinning import thinned
from panels import stack, stack_figures, stack_layout
from panels.palette import ThemeName, palette
from panels.scale import Scale, ScaleName, Stack, scale_for
from panels.stack_layout import mark_label
from panels.stack_traces import BANDS, FORCED
from panels.units import GIB
from tests.panels.fake_control import ARENA, CARD, START_UTC, FakeControl
from tests.panels.fake_day import DAY_S, PEAK_AT, SWITCHED_AT, day


def data_at(at: float, scale: ScaleName = "card scale", window: float = 600.0) -> stack.StackData:
    control = FakeControl(at=at)
    snapshot = control.snapshot
    return stack.stack_data(snapshot, control.samples(), control.events(), scale_for(snapshot, scale), window)


def trace(figure: go.Figure, name: str) -> go.Scatter:
    return next(t for t in figure.data if t.name == name and t.type == "scatter")


def values(packed: dict[str, str]) -> "np.ndarray":
    return np.frombuffer(base64.b64decode(packed["bdata"]), dtype=packed["dtype"])


def test_the_ceiling_is_the_cards_at_card_scale_and_the_arenas_here() -> None:
    card = trace(stack.figure(data_at(60)), "ceiling")
    here = trace(stack.figure(data_at(60, "this machine")), "ceiling")
    assert card.y[0] == pytest.approx(15.5)
    assert card.line.dash == "dash"
    bands = FakeControl(at=60).snapshot.bands
    assert bands is not None
    assert here.y[0] == pytest.approx(bands.ceiling / (1 << 20))


def test_axis_and_label_name_the_unit() -> None:
    card, here = stack.figure(data_at(60)), stack.figure(data_at(60, "this machine"))
    assert card.layout.yaxis.title.text == "GiB at card scale"
    assert here.layout.yaxis.title.text == "MiB, this machine"
    assert any(a.text == "ceiling<br>15.5 GiB" for a in card.layout.annotations)


def test_where_the_figures_come_from_is_one_line_where_there_is_room() -> None:
    spec = stack.spec(data_at(60), "dark")
    wide, narrow = spec["layout"]["title"]["text"], spec["narrow"]["layout"]["title"]["text"]
    assert wide == f"KV measured × {CARD.factor:.1f}; weights, runtime, ceiling: profile of {CARD.card}"
    assert narrow.replace("<br>", " ") == wide
    assert max(len(line) for line in narrow.split("<br>")) <= 62
    assert stack.spec(data_at(60, "this machine"), "dark")["layout"]["title"]["text"] == "This machine, measured"


def test_bands_stack_up_to_what_is_used() -> None:
    data = data_at(60)
    figure = stack.figure(data)
    total = sum(float(values(trace(figure, label).y)[-1]) for _, label in BANDS)
    assert data.bands is not None
    assert total == pytest.approx(data.scale.stack(data.bands).used / GIB, rel=1e-5)


def test_what_had_to_leave_is_hatched_and_the_other_precision_dashed() -> None:
    figure = stack.figure(data_at(60))
    forced = trace(figure, "forced swap or recompute")
    assert forced.fillpattern.shape == "/"
    assert max(values(forced.y)) > 0
    assert trace(figure, "same turns at q8").line.dash == "dash"


def test_what_had_to_leave_is_named_the_same_everywhere() -> None:
    spec = stack.spec(data_at(60), "dark")
    traces = [t for t in spec["data"] if t.get("name") == FORCED]
    assert [t["type"] for t in traces] == ["scatter", "bar"]
    assert traces[0]["fillpattern"]["shape"] == traces[1]["marker"]["pattern"]["shape"] == "/"
    assert traces[1]["hovertemplate"].startswith(f"{FORCED}: 0.93 GiB, 1 turn<")
    label = next(note["text"] for note in spec["layout"]["annotations"] if note["text"].startswith("forced"))
    assert label.replace("<br>", " ") == f"{FORCED} 0.93 GiB 1 turn"
    calm = stack.spec(data_at(112.0), "dark")["layout"]["annotations"]
    assert not any(note["text"].startswith("forced") for note in calm)


@pytest.mark.parametrize("scale", ["card scale", "this machine"])
def test_hover_says_bytes_with_their_unit_and_turns(scale: ScaleName) -> None:
    spec = stack.spec(data_at(60, scale), "dark")
    unit = "GiB" if scale == "card scale" else "MiB"
    turns = {"running KV": 8, "paused KV": 2, "tool-blocked KV": 0, FORCED: 1}
    for name in [label for _, label in BANDS] + [FORCED]:
        area, bar = (t for t in spec["data"] if t.get("name") == name)
        assert f"%{{y:,.2f}} {unit}" in area["hovertemplate"]
        assert f" {unit}" in bar["hovertemplate"]
        assert ("%{customdata}" in area["hovertemplate"]) == (name in turns)
        if name in turns:
            assert values(area["customdata"])[-1] == turns[name]
            assert area["meta"] == {"counts": "turn"}
            assert f", {turns[name]} turn" in bar["hovertemplate"]


def test_headroom_is_a_bracket_from_what_is_used_to_the_ceiling_with_its_figure() -> None:
    data = data_at(60)
    assert data.bands is not None
    now = data.scale.stack(data.bands)
    spec = stack.spec(data, "dark")
    bracket = next(t for t in spec["data"] if t.get("name") == "headroom")
    assert (min(bracket["y"]), max(bracket["y"])) == pytest.approx((now.used / GIB, now.ceiling / GIB))
    assert any(note["text"] == f"headroom<br>{now.headroom / GIB:.2f} GiB" for note in spec["layout"]["annotations"])


@given(
    bands=st.lists(st.integers(0, 6 * GIB), min_size=5, max_size=5),
    ceiling=st.integers(GIB, 40 * GIB),
    share=st.floats(0, 1),
)
def test_no_dashed_line_runs_over_a_figure_of_the_bar(bands: list[int], ceiling: int, share: float) -> None:
    weights, runtime, running, paused, blocked = bands
    turns = BandTurns(8, 2, 1, 0)
    line = share * ceiling
    now = Stack(weights, runtime, running, paused, blocked, 0, None, line, ceiling, turns)
    notes = stack_figures.in_the_bar(now, GIB, palette("dark"))
    assert len(notes) == sum(band > stack_figures.LEAST * ceiling for band in bands)
    for note in notes:
        near = min(abs(note["y"] - dash / GIB) for dash in (line, ceiling))
        assert near >= stack_figures.LEAST / 2 * ceiling / GIB * 0.999 or "bgcolor" in note
    assert all(0 <= note["y"] <= now.used / GIB for note in notes)


def test_a_figure_moves_to_the_larger_part_of_its_band() -> None:
    assert stack_figures.place(0, 10, (20,), 1) == (5, False)
    assert stack_figures.place(0, 10, (5.5,), 1) == (2.75, False)
    assert stack_figures.place(0, 2, (1.0,), 1) == (0.5, True)
    assert stack_figures.place(0, 1, (1.0,), 1) == (0.5, False), "a line along its edge is beside it"


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_a_line_of_the_grounds_colour_parts_the_bands(theme: ThemeName) -> None:
    spec = stack.spec(data_at(60), theme)
    for _, label in BANDS:
        area, bar = (t for t in spec["data"] if t.get("name") == label)
        for line in (area["line"], bar["marker"]["line"]):
            assert (line["color"], line["width"]) == (palette(theme).surface, 1)


def test_every_step_is_drawn_as_a_step() -> None:
    figure = stack.figure(data_at(60))
    assert {trace(figure, label).line.shape for _, label in BANDS} == {"hv"}


def test_knob_changes_are_marked_with_their_new_value() -> None:
    control = FakeControl(at=112.0)
    layout = stack.figure(data_at(112.0)).layout
    knobs = [e for e in control.events() if e.kind == EventKind.KNOB]
    marks = [note for note in layout.annotations if note.hovertext]
    told = [f"{event.text}, by tab 1" for event in knobs]
    assert [(note.text, note.hovertext) for note in marks] == [("high 95 %", told[0]), ("q8", told[1])]
    assert [shape.x0 for shape in layout.shapes] == [note.x for note in marks]
    assert layout.shapes[0].x0 == pytest.approx((START_UTC + 48.0) * 1000)
    assert all((note.y, note.yanchor) == (1, "bottom") for note in marks)


def test_the_other_precision_is_right_at_every_instant_with_a_gap_at_the_switch() -> None:
    figure = stack.figure(dataclasses.replace(data_at(112.0), kv_dtype=KVDtype.Q8))
    at_q8, at_fp16 = (values(trace(figure, f"same turns at {name}").y) for name in ("q8", "fp16"))
    before = values(trace(figure, "same turns at q8").x) < (START_UTC + 90.0) * 1000
    assert list(~np.isnan(at_q8)) == list(before)
    assert list(~np.isnan(at_fp16)) == list(~before)
    assert at_fp16[-1] > at_q8[before][-1]
    alone = stack.figure(data_at(60.0))
    assert [t.name for t in alone.data if t.showlegend and t.name.startswith("same")] == ["same turns at q8"]


def test_the_right_edge_is_the_reading_of_the_bar_of_now() -> None:
    """Samples that were taken after the snapshot belong to the next refresh."""
    data = data_at(60.0)
    later = _moved(data.samples[0], 60.4)
    figure = stack.figure(dataclasses.replace(data, samples=[*data.samples, later]))
    running = trace(figure, "running KV")
    bar = next(t for t in figure.data if t.name == "running KV" and t.type == "bar")
    assert values(running.x)[-1] == pytest.approx(data.utc * 1000)
    assert values(running.y)[-1] == pytest.approx(bar.y[0])


@pytest.mark.parametrize(
    ("name", "new", "label"),
    [
        ("kv_dtype", "q8", "q8"),
        ("low_watermark", "0.5", "low 50 %"),
        ("host_pool_bytes", "123", "host pool"),
        ("max_running", "4", "4 slots"),
        ("prefill_chunk", "2048", "chunk 2,048"),
        ("min_quantum_s", "1.0", "quantum"),
    ],
)
def test_mark_labels_are_short(name: str, new: str, label: str) -> None:
    assert mark_label(Event(0, 0, 0, EventKind.KNOB, "page", "", name=name, new=new)) == label


def test_long_labels_of_changes_need_more_room_than_short_ones() -> None:
    def labels(*changes: tuple[float, str, str]) -> list[str]:
        events = [Event(0, at, 0, EventKind.KNOB, "tour", "", name=name, new=new) for at, name, new in changes]
        return [note["text"] for note in stack_layout.marks(events, 0.0, 100.0, palette("dark"))["annotations"]]

    assert labels((40.0, "kv_dtype", "q8"), (48.0, "kv_dtype", "fp16")) == ["q8", "fp16"]
    assert labels((40.0, "policy", "recompute-only"), (54.0, "policy", "walk-down")) == ["recompute-only", "▾"]
    assert labels((40.0, "policy", "recompute-only"), (60.0, "policy", "walk-down")) == ["recompute-only", "walk-down"]


@pytest.fixture(scope="module")
def whole_day() -> tuple[Sample, ...]:
    return day()


@pytest.mark.parametrize(("window", "least"), [(120.0, 100), (600.0, 250), (float("inf"), 120)])
def test_every_window_of_a_long_day_is_filled_and_sends_little(
    whole_day: tuple[Sample, ...], window: float, least: int
) -> None:
    """Points stand all along the window, and no more of them than can be told apart."""
    now = whole_day[-1]
    utc = now.utc + 0.1
    data = stack.StackData(whole_day, (), now.bands, now.kv_dtype, utc, Scale(CARD), window)
    sent = stack.spec(data, "dark")
    x = values(sent["data"][0]["x"]) / 1000
    assert least <= len(x) <= stack.MAX_POINTS + 2
    span = min(window, DAY_S)
    assert x[0] <= utc - span * 0.97
    assert max(np.diff(x)) <= span / 80
    assert len(json.dumps(sent)) < 150_000


def test_a_days_peak_and_its_switch_of_precision_are_drawn(whole_day: tuple[Sample, ...]) -> None:
    now = whole_day[-1]
    data = stack.StackData(whole_day, (), now.bands, now.kv_dtype, now.utc + 0.1, Scale(CARD), float("inf"))
    figure = stack.figure(data)
    forced = trace(figure, "forced swap or recompute")
    peak = int(np.argmax(values(forced.y)))
    assert values(forced.x)[peak] / 1000 == pytest.approx(START_UTC + PEAK_AT)
    there = ~np.isnan(values(trace(figure, "same turns at fp16").y))
    first = values(trace(figure, "same turns at fp16").x)[there][0] / 1000 - START_UTC
    assert first == pytest.approx(SWITCHED_AT, abs=2 * DAY_S / stack.MAX_POINTS)
    assert list(there) == sorted(there)


def test_a_moment_later_the_chart_has_the_same_old_points() -> None:
    """Nothing shimmers while the widths of the window's buckets stay."""
    control = FakeControl(at=1000.0)
    samples = list(control.samples())
    thin = thinned(samples, 100)
    later = thinned(samples[: len(samples) - 40], 100)
    assert [s.at for s in later[:-1]] == [s.at for s in thin[: len(later) - 1]]


def test_times_are_utc_instants_whatever_the_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    charts = []
    for zone in ("America/Los_Angeles", "Asia/Kolkata"):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        charts.append(stack.spec(data_at(60), "dark"))
    monkeypatch.delenv("TZ")
    time.tzset()
    assert charts[0] == charts[1]
    assert charts[0]["layout"]["xaxis"]["title"]["text"] == "time, UTC"


def test_colours_follow_the_theme() -> None:
    for theme in ("dark", "light"):
        figure = stack.figure(data_at(60), theme)
        assert figure.layout.paper_bgcolor == palette(theme).surface
        assert trace(figure, "paused KV").fillcolor == palette(theme).paused_kv


def test_no_bands_draws_an_empty_chart() -> None:
    control = FakeControl(at=1.0)
    data = stack.StackData((), (), None, control.knobs.kv_dtype, START_UTC, Scale(None))
    assert len(stack.figure(data).data) == 0


def test_other_users_of_the_device_have_a_band_of_their_own_here_only() -> None:
    bands = Bands(1 << 30, 1 << 28, 1 << 28, 0, 0, 0, 3 << 30, 15 << 30, 1 << 27, BandTurns(1, 0, 0, 0))
    data = stack.StackData((), (), bands, FakeControl().knobs.kv_dtype, START_UTC, Scale(None))
    assert any(t.name == "other on the device" for t in stack.figure(data).data)
    card = stack.StackData((), (), bands, FakeControl().knobs.kv_dtype, START_UTC, Scale(CARD))
    assert not any(t.name == "other on the device" for t in stack.figure(card).data)


def test_card_scale_keeps_proportion() -> None:
    """A full arena reaches the card's line exactly."""
    bands = Bands(1, 1, ARENA, 0, 0, 0, None, ARENA, 0, BandTurns(1, 0, 0, 0))
    full = Scale(CARD).stack(bands)
    assert full.used == pytest.approx(full.ceiling, rel=1e-6)
    assert full.headroom == pytest.approx(0, abs=GIB / 1000)


def _moved(sample: Sample, at: float) -> Sample:
    return dataclasses.replace(sample, at=at, utc=START_UTC + at)
