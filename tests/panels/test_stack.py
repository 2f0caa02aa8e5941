"""The stack chart: what it draws, at which scale, and how much it sends."""

import base64
import json

import numpy as np
import plotly.graph_objects as go
import pytest

from engine.events import Event, EventKind
from engine.snapshot import Bands, Sample
from panels import stack
from panels.palette import palette
from panels.scale import Scale, ScaleName, scale_for
from panels.units import GIB
from tests.panels.fake_control import ARENA, CARD, START_UTC, FakeControl


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
    assert any(a.text == "ceiling 15.5 GiB" for a in card.layout.annotations)


def test_bands_stack_up_to_what_is_used() -> None:
    data = data_at(60)
    figure = stack.figure(data)
    total = sum(float(values(trace(figure, label).y)[-1]) for _, label in stack.BANDS)
    assert data.bands is not None
    assert total == pytest.approx(data.scale.stack(data.bands).used / GIB, rel=1e-5)


def test_what_had_to_leave_is_hatched_and_the_other_precision_dashed() -> None:
    figure = stack.figure(data_at(60))
    forced = trace(figure, "forced to leave")
    assert forced.fillpattern.shape == "/"
    assert max(values(forced.y)) > 0
    assert trace(figure, "same turns at q8").line.dash == "dash"


def test_every_step_is_drawn_as_a_step() -> None:
    figure = stack.figure(data_at(60))
    assert {trace(figure, label).line.shape for _, label in stack.BANDS} == {"hv"}


def test_knob_changes_are_marked_with_their_new_value() -> None:
    control = FakeControl(at=112.0)
    marks = trace(stack.figure(data_at(112.0)), "knob changes")
    knobs = [e for e in control.events() if e.kind == EventKind.KNOB]
    assert len(knobs) == 2
    assert [text for text in marks.text if text] == ["high 95%", "q8"]
    assert marks.x[0] == pytest.approx((START_UTC + 48.0) * 1000)


@pytest.mark.parametrize(
    ("name", "new", "label"),
    [
        ("kv_dtype", "q8", "q8"),
        ("low_watermark", "0.5", "low 50%"),
        ("host_pool_bytes", "123", "host pool"),
        ("max_running", "4", "4 slots"),
        ("prefill_chunk", "128", "chunk 128"),
        ("min_quantum_s", "1.0", "min quantum s"),
    ],
)
def test_mark_labels_are_short(name: str, new: str, label: str) -> None:
    assert stack.mark_label(Event(0, 0, 0, EventKind.KNOB, "page", "", name=name, new=new)) == label


def test_thinning_keeps_peaks_and_old_points_stay_where_they_are() -> None:
    control = FakeControl(at=1000.0)
    samples = list(control.samples())
    peak = max(samples, key=lambda s: s.bands.running_kv + s.bands.paused_kv + s.bands.blocked_kv + s.bands.forced)
    thin = stack.thinned(samples, 100)
    later = stack.thinned(samples[: len(samples) - 40], 100)
    assert len(thin) <= 202
    assert max(_kv(s) for s in thin) == _kv(peak)
    assert [s.at for s in later[:-1]] == [s.at for s in thin[: len(later) - 1]]


def test_a_long_day_sends_little() -> None:
    """Fifty thousand points become one bounded message."""
    one = FakeControl(at=100.0).samples()[0]
    many = [_moved(one, i * 2.0) for i in range(50_000)]
    data = stack.StackData(many, (), one.bands, one.kv_dtype, many[-1].utc, Scale(CARD), float("inf"))
    assert len(json.dumps(stack.spec(data, "dark"))) < 400_000


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
    bands = Bands(1 << 30, 1 << 28, 1 << 28, 0, 0, 0, 3 << 30, 15 << 30, 1 << 27)
    data = stack.StackData((), (), bands, FakeControl().knobs.kv_dtype, START_UTC, Scale(None))
    assert any(t.name == "other on the device" for t in stack.figure(data).data)
    card = stack.StackData((), (), bands, FakeControl().knobs.kv_dtype, START_UTC, Scale(CARD))
    assert not any(t.name == "other on the device" for t in stack.figure(card).data)


def test_card_scale_keeps_proportion() -> None:
    """A full arena reaches the card's line exactly."""
    bands = Bands(1, 1, ARENA, 0, 0, 0, None, ARENA, 0)
    full = Scale(CARD).stack(bands)
    assert full.used == pytest.approx(full.ceiling, rel=1e-6)
    assert full.headroom == pytest.approx(0, abs=GIB / 1000)


def _kv(sample: Sample) -> int:
    bands = sample.bands
    return bands.running_kv + bands.paused_kv + bands.blocked_kv + bands.forced


def _moved(sample: Sample, at: float) -> Sample:
    import dataclasses

    return dataclasses.replace(sample, at=at, utc=START_UTC + at)
