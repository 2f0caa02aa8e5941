"""Durations of tools from the stored sessions.

pytest tests/engine/record/test_waits.py
"""

import sqlite3
from pathlib import Path

import pytest

from engine.record import waits
from engine.record.recorder import Recorder
from engine.record.waits import durations_in, stored_waits
from engine.snapshot import HostState, Snapshot
from engine.turn import Phase, Tier, TurnId
from tests.engine.record.records import START, interval, snapshot

WAITING, DECODE, BLOCKED, CANCELLED = Phase.WAITING, Phase.DECODE, Phase.BLOCKED, Phase.CANCELLED


def span(turn: int, phase: Phase, start: float, end: float, tool: str | None = None, tier: Tier = Tier.RESIDENT):  # type: ignore[no-untyped-def]
    return interval(turn, phase=phase, tool=tool, tier=tier, start_utc=START + start, end_utc=START + end)


def lived(turn: int, *waits: tuple[str, float]) -> list:  # type: ignore[type-arg]
    """A turn that decodes for a second before and after each wait."""
    at, spans = 0.0, []
    for tool, seconds in waits:
        spans += [span(turn, DECODE, at, at + 1), span(turn, BLOCKED, at + 1, at + 1 + seconds, tool)]
        at += 1 + seconds
    return [*spans, span(turn, WAITING, at, at + 1)]


def stored(path: Path, *sessions: tuple[Snapshot, list]) -> None:  # type: ignore[type-arg]
    recorder = Recorder(path)
    for at, spans in sessions:
        recorder.begin(at.session, at)
        for one in spans:
            recorder.interval(one)
    recorder.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sessions.sqlite"


def test_durations_of_all_sessions_of_real_engines(path: Path) -> None:
    modelled = Snapshot("s3", HostState.RUNNING, 1.0, START, 0, "m", "twin", snapshot().knobs, ())
    stored(
        path,
        (snapshot("s1"), lived(1, ("bash", 2.5), ("pytest", 8.0))),
        (snapshot("s2"), lived(1, ("bash", 4.0))),
        (modelled, lived(1, ("bash", 77.0))),
    )
    known = stored_waits(path)
    assert known.durations == (("bash", 2.5), ("pytest", 8.0), ("bash", 4.0))
    assert known.said == "3 durations of 2 tools are known from stored sessions"


def test_a_wait_in_several_intervals_is_one_and_one_without_a_result_none() -> None:
    moved = [
        span(1, DECODE, 0, 1),
        span(1, BLOCKED, 1, 3, "bash"),
        span(1, BLOCKED, 3, 7, "bash", Tier.HOST),
        span(1, WAITING, 7, 8),
        span(2, DECODE, 0, 1),
        span(2, BLOCKED, 1, 9, "bash"),
    ]
    rows = [("s", one.turn, one.phase, one.tool, one.start_utc, one.end_utc) for one in moved]
    assert durations_in(rows) == (("bash", 6.0),)
    begun_before = rows[1:4]
    assert durations_in(begun_before) == ()


def test_only_the_latest_rows_are_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored(path, (snapshot("s1"), [*lived(1, ("bash", 2.0)), *lived(2, ("pytest", 3.0))]))
    monkeypatch.setattr(waits, "ROWS_READ", 3)
    assert stored_waits(path).durations == (("pytest", 3.0),)


def test_nothing_is_known_of_a_file_that_is_not_there_or_no_database(path: Path) -> None:
    assert stored_waits(path).durations == ()
    assert stored_waits(path).said == "no durations of tools are known from before: no session is stored yet"
    path.write_bytes(b"no database" * 500)
    assert stored_waits(path).durations == ()
    assert "damaged or no Parkdeck database" in stored_waits(path).said


def test_a_value_of_another_kind_is_damage(path: Path) -> None:
    stored(path, (snapshot("s1"), lived(int(TurnId(1)), ("bash", 2.0))))
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE intervals SET end_utc = 'soon' WHERE phase = 'blocked'")
    assert stored_waits(path).durations == ()
    assert "no durations of tools are known from before" in stored_waits(path).said
