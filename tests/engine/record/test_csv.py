"""timeline.csv, samples.csv, events.csv: any text comes back, times are UTC, numbers keep their point."""

import csv
import io
import locale
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.clock import EngineClock
from engine.errors import Refused
from engine.record.cells import neutralised, restored
from engine.record.csv_export import csv_chunks, export_session, number, timeline_csv_bytes, timeline_csv_chunks
from engine.record.csv_import import read_timeline
from engine.record.recorder import Recorder
from engine.turn import Phase, Priority, Tier
from tests.engine.record.records import START, event, interval, sample, snapshot

NASTY = [
    '=HYPERLINK("http://x","y")',
    "+1",
    "-1",
    "@a",
    "\tstart",
    "\rstart",
    'a"b,c\nd',
    "'=1",
    "''-x",
    "'plain",
    "ü€😀",
]
texts = st.text(alphabet=st.one_of(st.sampled_from("=+-@\t\r\n'\",; ab"), st.characters(codec="utf-8")))


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    made = Recorder(tmp_path / "sessions.sqlite")
    made.begin("s1", snapshot())
    return made


def parsed(data: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(data.decode("utf-8"), newline="")))


@given(texts)
def test_any_text_is_restored_and_none_is_a_formula(text: str) -> None:
    cell = neutralised(text)
    assert restored(cell) == text
    assert not cell.startswith(("=", "+", "-", "@", "\t", "\r"))
    assert cell == text or cell == "'" + text


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(texts, texts, texts), min_size=1, max_size=5))
def test_any_text_round_trips_through_database_and_file(tmp_path: Path, cells: list[tuple[str, str, str]]) -> None:
    recorder = Recorder(tmp_path / f"{time.monotonic_ns()}.sqlite")
    recorder.begin("s1", snapshot())
    made = [
        interval(number, agent=agent, tool=tool or None, policy=policy)
        for number, (agent, tool, policy) in enumerate(cells)
    ]
    for one in made[::2]:
        recorder.interval(one)
    recorder.flush()
    for one in made[1::2]:
        recorder.interval(one)
    expected = made[::2] + made[1::2]
    (path, *_) = export_session("s1", tmp_path / "out", recorder=recorder)
    assert list(read_timeline(path)) == expected
    table = parsed(path.read_bytes())
    assert {len(row) for row in table} == {15}
    assert len(table) == 1 + len(made)
    recorder.close()


def test_spreadsheet_formulas_and_numbers(recorder: Recorder) -> None:
    for place, name in enumerate(NASTY):
        recorder.interval(interval(place, agent=name, queued_ms=-1.5))
    table = parsed(timeline_csv_bytes("s1", recorder=recorder))
    names = [row[2] for row in table[1:]]
    assert [restored(name) for name in names] == NASTY
    assert not any(name.startswith(("=", "+", "-", "@", "\t", "\r")) for name in names)
    assert {row[13] for row in table[1:]} == {"-1.5"}


def test_columns_units_and_times(recorder: Recorder) -> None:
    recorder.interval(
        interval(0, start_utc=START + 0.0014, end_utc=START + 1.25, priority=Priority.FOREGROUND, phase=Phase.BLOCKED,
                 tier=Tier.HOST, tool="bash")
    )  # fmt: skip
    header, row = parsed(timeline_csv_bytes("s1", recorder=recorder))
    assert dict(zip(header, row, strict=True)) == {
        "start_utc": "2026-01-01T00:00:00.001Z",
        "end_utc": "2026-01-01T00:00:01.250Z",
        "agent": "coder-01",
        "turn": "0",
        "priority": "foreground",
        "phase": "blocked",
        "tier": "host",
        "tool": "bash",
        "context_tokens": "768",
        "kv_bytes": "1073741824",
        "kv_bytes_card_scale": "53687091200",
        "kv_precision": "fp16",
        "policy": "walk-down",
        "queued_ms": "12.5",
        "figures": "measured",
    }


def test_samples_and_events(recorder: Recorder, tmp_path: Path) -> None:
    recorder.sample(sample(1))
    recorder.event(event(2, text="=cmd", nbytes=5, seconds=0.25))
    paths = export_session("s1", tmp_path / "out", recorder=recorder)
    assert [path.name for path in paths] == ["timeline.csv", "samples.csv", "events.csv"]
    timeline, samples, events = (parsed(path.read_bytes()) for path in paths)
    assert len(timeline) == 1
    row = dict(zip(*samples, strict=True))
    assert (row["utc"], row["at_s"]) == ("2026-01-01T00:00:01.000Z", "1.0")
    assert row["other_bytes"] == row["blocked_fraction"] == row["itl_p50_s"] == ""
    assert row["decode_tokens_per_s"] == "99.5"
    assert row["used_bytes"] == str(100 + 20 + (1 << 30) + 300 + 50)
    assert row["running_kv_bytes_card_scale"] == str(50 << 30)
    assert int(row["used_bytes_card_scale"]) == 5_583_457_485 + 858_993_459 + (50 << 30) + 50 * 350
    assert int(row["used_bytes_card_scale"]) + int(row["headroom_bytes_card_scale"]) == 16_642_998_272
    row = dict(zip(*events, strict=True))
    assert (row["text"], row["moved_bytes"], row["duration_s"], row["turn"]) == ("'=cmd", "5", "0.25", "")
    assert row["at_s"] == "2.0"


def test_no_card_scale_leaves_the_cells_empty(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "sessions.sqlite")
    recorder.begin("s1", snapshot(card=None))
    recorder.sample(sample())
    header, row = parsed(b"".join(csv_chunks("samples.csv", "s1", recorder=recorder)))
    assert {cell for name, cell in zip(header, row, strict=True) if name.endswith("card_scale")} == {""}


@pytest.mark.parametrize(("backend", "figures"), [("torch", "measured"), ("twin", "modelled")])
def test_each_file_says_in_its_last_column_whether_it_was_measured(tmp_path: Path, backend: str, figures: str) -> None:
    recorder = Recorder(tmp_path / "sessions.sqlite")
    recorder.begin("s1", replace(snapshot(card=None), backend=backend))
    recorder.interval(interval(0))
    recorder.sample(sample())
    recorder.event(event())
    for path in export_session("s1", tmp_path / "out", recorder=recorder):
        header, row = parsed(path.read_bytes())
        assert (header[-1], row[-1]) == ("figures", figures), path.name
    assert [one.agent for one in read_timeline(tmp_path / "out" / "timeline.csv")] == [interval(0).agent]


def test_rows_not_flushed_yet_come_once(recorder: Recorder) -> None:
    for place in range(10):
        recorder.interval(interval(place))
        if place == 5:
            recorder.flush()
    chunks = timeline_csv_chunks("s1", recorder=recorder)
    recorder.flush()
    recorder.interval(interval(99))
    table = parsed(b"".join(chunks))
    assert [row[3] for row in table[1:]] == [str(place) for place in range(10)]


def test_what_waits_can_be_downloaded_though_the_disk_takes_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    recorder = Recorder(tmp_path / "file" / "sessions.sqlite")
    recorder.begin("s1", snapshot())
    recorder.interval(interval())
    recorder.flush()
    assert recorder.problem is not None
    assert len(parsed(timeline_csv_bytes("s1", recorder=recorder))) == 2


def test_streams(recorder: Recorder) -> None:
    for place in range(2500):
        recorder.interval(interval(place))
    recorder.flush()
    chunks = list(timeline_csv_chunks("s1", recorder.path))
    assert [chunk.count(b"\r\n") for chunk in chunks] == [1001, 1000, 500]


def test_refusals(recorder: Recorder, tmp_path: Path) -> None:
    recorder.flush()
    with pytest.raises(Refused, match="there is no session 'other'"):
        timeline_csv_bytes("other", recorder.path)
    with pytest.raises(Refused, match="there is no session 'other'"):
        timeline_csv_bytes("other", recorder=recorder)
    (tmp_path / "file").touch()
    with pytest.raises(Refused, match="choose another folder"):
        export_session("s1", tmp_path / "file", recorder.path)


def test_import_refuses_with_file_and_line(recorder: Recorder, tmp_path: Path) -> None:
    recorder.interval(interval())
    good = timeline_csv_bytes("s1", recorder=recorder)
    path = tmp_path / "t.csv"
    for content, words in (
        (b"", "line 1"),
        (good.replace(b"agent", b"client"), "line 1"),
        (good.replace(b"decode", b"dreaming"), "line 2"),
        (good.replace(b"12.5", b"nan"), "line 2"),
        (good.replace(b"12.5", b"12,5"), "line 2: 16 cells"),
        (good.replace(b"coder", b"\xff"), "not UTF-8"),
    ):
        path.write_bytes(content)
        with pytest.raises(Refused, match=words):
            list(read_timeline(path))
    with pytest.raises(Refused, match="cannot be read"):
        list(read_timeline(tmp_path / "none.csv"))


CHILD = """
import sys
from pathlib import Path
from engine.record.csv_export import csv_chunks
import locale
try:
    locale.setlocale(locale.LC_ALL, "")
except locale.Error:
    pass
for name in ("timeline.csv", "samples.csv", "events.csv"):
    sys.stdout.buffer.writelines(csv_chunks(name, "s1", Path(sys.argv[1])))
"""


def test_same_file_in_every_zone_and_locale(recorder: Recorder) -> None:
    recorder.interval(interval(queued_ms=1234.5678, agent="ü"))
    recorder.sample(sample(3))
    recorder.event(event(4, seconds=0.25))
    recorder.close()
    outputs = set()
    for zone, tongue in (("America/Los_Angeles", "C"), ("Asia/Kolkata", "de_DE.UTF-8"), ("UTC", "C.UTF-8")):
        environment = {**os.environ, "TZ": zone, "LC_ALL": tongue}
        outputs.add(
            subprocess.run(
                [sys.executable, "-c", CHILD, str(recorder.path)], env=environment, check=True, capture_output=True
            ).stdout
        )
    assert len(outputs) == 1
    for second in (0, 3, 4):
        assert f"2026-01-01T00:00:0{second}.000Z".encode() in next(iter(outputs))
    assert b"1234.5678" in next(iter(outputs))


def test_decimal_comma_of_the_locale_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locale, "localeconv", lambda: {"decimal_point": ",", "thousands_sep": "."})
    assert number(1234.5) == "1234.5"
    assert number(-0.25) == "-0.25"
    assert number(7) == "7"
    assert number(float("inf")) == ""


def test_wall_clock_set_back_gives_no_negative_duration(recorder: Recorder) -> None:
    """The engine's clock is anchored once; the hour that the wall clock loses is not in the file."""
    wall, monotonic = [START], [100.0]
    clock = EngineClock(lambda: monotonic[0], lambda: wall[0])
    begin = clock.utc(clock.now())
    monotonic[0] += 5.0
    wall[0] += 5.0 - 3600.0
    recorder.interval(interval(start_utc=begin, end_utc=clock.utc(clock.now())))
    row = parsed(timeline_csv_bytes("s1", recorder=recorder))[1]
    assert row[:2] == ["2026-01-01T00:00:00.000Z", "2026-01-01T00:00:05.000Z"]
