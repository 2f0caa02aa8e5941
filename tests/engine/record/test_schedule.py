"""The schedule: flushes each second, stops cleanly, is not stopped by a wall clock set back."""

import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta, tzinfo
from pathlib import Path

import apscheduler.schedulers.base
import pytest

from engine.record.database import list_sessions
from engine.record.recorder import Recorder
from engine.record.schedule import FLUSH_JOB, HARDWARE_JOB, Schedule, SteadyScheduler, start_schedule
from tests.engine.record.records import interval, snapshot


def until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "did not happen"
        time.sleep(0.01)


def test_flushes_and_samples_each_second_until_it_is_stopped(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "sessions.sqlite")
    recorder.begin("s1", snapshot())
    sampled = threading.Event()
    schedule = start_schedule(recorder, sampled.set)
    assert set(schedule.jobs) == {FLUSH_JOB, HARDWARE_JOB}
    recorder.interval(interval())
    until(lambda: recorder.behind == 0)
    assert sampled.wait(30)
    assert list_sessions(recorder.path)[0].intervals == 1
    schedule.stop()
    schedule.stop()
    recorder.interval(interval(2))
    recorder.close()
    assert list_sessions(recorder.path)[0].intervals == 2


def test_never_twice_at_once_and_replaced_by_id() -> None:
    running, most, calls = 0, 0, 0
    lock = threading.Lock()
    stopped = threading.Event()

    def work() -> None:
        nonlocal running, most, calls
        with lock:
            running += 1
            most = max(most, running)
            calls += 1
        stopped.wait(0.3)
        with lock:
            running -= 1

    schedule = Schedule()
    schedule.each("work", lambda: None, seconds=0.05)
    schedule.each("work", work, seconds=0.05)
    schedule.start()
    assert schedule.jobs == ("work",)
    until(lambda: calls >= 3)
    stopped.set()
    schedule.stop()
    assert most == 1


def test_wall_clock_set_back_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    offset = [0.0]

    class Wall(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            return datetime.now(tz) + timedelta(seconds=offset[0])

    monkeypatch.setattr(apscheduler.schedulers.base, "datetime", Wall)
    calls: list[float] = []
    schedule = Schedule(SteadyScheduler(wall=lambda: time.time() + offset[0]))
    schedule.each("work", lambda: calls.append(time.monotonic()), seconds=0.1)
    schedule.start()
    until(lambda: len(calls) >= 2)
    offset[0] = -3600.0
    already = len(calls)
    until(lambda: len(calls) >= already + 3, 20.0)
    schedule.stop()
