"""A run in whose middle the machine's wall clock is set: its files go on as if nothing had happened."""

import csv
import io
import time
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import pytest

from engine.clock import EngineClock
from engine.host import Host
from engine.record.csv_export import csv_chunks
from engine.record.recorder import Recorder
from tests.engine.lab import fake_body
from tests.engine.test_host import Ear, ask, until

HOUR_S = 3600.0


def rows(name: str, session: str, recorder: Recorder) -> list[dict[str, str]]:
    text = b"".join(csv_chunks(name, session, recorder=recorder)).decode()
    return list(csv.DictReader(io.StringIO(text, newline="")))


def instants(table: list[dict[str, str]], column: str) -> list[datetime]:
    assert all(row[column].endswith("Z") for row in table)
    return [datetime.fromisoformat(row[column]) for row in table]


def finished(host: Host) -> None:
    """One turn, from its start to its end."""
    ear = Ear()
    host.submit(ask(), ear).result(20)
    until(lambda: ear.finish is not None)


@pytest.mark.parametrize("set_by", [-HOUR_S, HOUR_S])
def test_no_duration_is_negative_and_the_order_is_kept(tmp_path: Path, set_by: float) -> None:
    offset = [0.0]
    clock = EngineClock(wall=lambda: time.time() + offset[0])
    recorder = Recorder(tmp_path / "sessions.sqlite")
    host = Host(sinks=[recorder], clock=clock, open_body=lambda config, report: fake_body(256, 256))
    host.start()
    session = host.wait_ready(20).session
    for offset[0] in (0.0, set_by):
        finished(host)
    assert host.stop(20)
    recorder.flush()
    timeline, samples, events = (rows(f"{name}.csv", session, recorder) for name in ("timeline", "samples", "events"))
    assert {row["turn"] for row in timeline} == {"1", "2"}
    spans = list(zip(instants(timeline, "start_utc"), instants(timeline, "end_utc"), strict=True))
    assert all(start <= end for start, end in spans)
    for table, column in ((samples, "utc"), (events, "utc")):
        seen = instants(table, column)
        assert seen == sorted(seen)
        assert (seen[-1] - seen[0]).total_seconds() < HOUR_S / 2
        elapsed = [float(row["at_s"]) for row in table]
        assert all(later >= earlier >= 0 for earlier, later in pairwise(elapsed))
    assert not [row for row in events if row["duration_s"].startswith("-")]
    recorder.close()
