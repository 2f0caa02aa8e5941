"""The recorder over real SQLite files: what it stores, what it does when the disk does not take it."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from engine.errors import Refused
from engine.record.columns import COUNTER_NAMES, INTERVALS, RATE_NAMES
from engine.record.csv_export import export_session
from engine.record.database import SCHEMA_VERSION, database_path, list_sessions, open_for_writing
from engine.record.recorder import Recorder
from engine.snapshot import Counters, Rates
from tests.engine.record.records import START, event, interval, sample, snapshot


def rows(path: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


def begun(path: Path, **options: object) -> Recorder:
    recorder = Recorder(path, **options)  # type: ignore[arg-type]
    recorder.begin("s1", snapshot())
    return recorder


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "sessions.sqlite"


def test_stores_each_kind_and_lists_sessions(path: Path) -> None:
    recorder = begun(path)
    recorder.interval(interval(3))
    recorder.event(event(4))
    recorder.sample(sample(5))
    assert recorder.behind == 3
    assert not path.exists()
    assert recorder.flush() == 3
    assert (recorder.behind, recorder.problem, recorder.lost) == (0, None, 0)
    assert recorder.flush() == 0
    recorder.begin("s2", snapshot("s2", card=None))
    recorder.interval(interval(7))
    recorder.close()
    (second, first) = sorted(list_sessions(path), key=lambda one: one.id, reverse=True)
    assert (first.id, first.intervals, first.events, first.samples, first.lost) == ("s1", 1, 1, 1, 0)
    assert (first.started_utc, first.ended_utc) == (START, START + 5)
    assert (second.id, second.model, second.backend) == ("s2", "SmolLM2", "torch")
    assert rows(path, "SELECT card_factor FROM sessions ORDER BY id") == [(50.0,), (None,)]
    assert rows(path, "PRAGMA journal_mode") == [("wal",)]


def test_columns_cover_the_snapshot() -> None:
    assert set(COUNTER_NAMES) == set(Counters.__dataclass_fields__)
    assert set(RATE_NAMES) == set(Rates.__dataclass_fields__)


def test_bytes_are_kept_as_they_are(path: Path) -> None:
    """1 GiB is 1073741824 everywhere (M4)."""
    recorder = begun(path)
    recorder.interval(interval())
    recorder.sample(sample())
    recorder.close()
    assert rows(path, "SELECT kv_bytes, kv_bytes_card_scale FROM intervals") == [(1073741824, 53687091200)]
    assert rows(path, "SELECT running_kv_bytes, host_total_bytes, other_bytes FROM samples") == [
        (1073741824, 1073741824, None)
    ]


def test_a_value_that_no_table_holds_loses_that_record_only(path: Path) -> None:
    recorder = begun(path)
    recorder.interval(interval(1, context_tokens=2**70))
    recorder.interval(interval(2, agent="lone \ud800 surrogate", tool="nul \0 byte"))
    recorder.sample(sample(1))
    assert recorder.flush() == 2
    assert recorder.lost == 1
    assert rows(path, "SELECT turn, agent, tool FROM intervals") == [(2, "lone ? surrogate", "nul \0 byte")]
    assert rows(path, "SELECT lost FROM sessions") == [(1,)]


def test_full_queue_loses_the_oldest_and_says_so(path: Path) -> None:
    recorder = begun(path, bound=10)
    for number in range(25):
        recorder.interval(interval(number))
    assert (recorder.behind, recorder.lost) == (10, 15)
    assert "15 records could not be stored" in str(recorder.problem)
    recorder.flush()
    assert [turn for (turn,) in rows(path, "SELECT turn FROM intervals")] == list(range(15, 25))
    assert list_sessions(path)[0].lost == 15


def full_disk(path: Path) -> sqlite3.Connection:
    """A real SQLITE_FULL: the file may not grow past its present size while `full` stands beside it."""
    connection = open_for_writing(path)
    if path.with_name("full").exists():
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count={pages}")
    return connection


def read_only(path: Path) -> sqlite3.Connection:
    connection = open_for_writing(path)
    if path.with_name("full").exists():
        connection.execute("PRAGMA query_only=ON")
    return connection


def open_error(path: Path) -> sqlite3.Connection:
    if path.with_name("full").exists():
        raise PermissionError(13, "Permission denied")
    return open_for_writing(path)


@pytest.mark.parametrize(
    ("connect", "words"), [(full_disk, "full"), (read_only, "cannot be written"), (open_error, "cannot be written")]
)
def test_trouble_is_told_kept_in_memory_and_recovered_from(
    path: Path, connect: Callable[[Path], sqlite3.Connection], words: str
) -> None:
    path.parent.mkdir()
    path.with_name("full").touch()
    recorder = begun(path, connect=connect)
    for number in range(2000):
        recorder.interval(interval(number))
    assert recorder.flush() == 0
    assert words in str(recorder.problem)
    assert "2,000 records waiting in memory" in str(recorder.problem)
    recorder.event(event())
    assert recorder.flush() == 0
    assert recorder.behind == 2001
    path.with_name("full").unlink()
    assert recorder.flush() == 2001
    assert recorder.problem is None
    assert rows(path, "SELECT turn FROM intervals ORDER BY row") == [(number,) for number in range(2000)]


def test_locked_by_another_program(path: Path) -> None:
    recorder = begun(path)
    recorder.flush()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        recorder.interval(interval())
        assert recorder.flush() == 0
        assert "locked" in str(recorder.problem)
        other.execute("ROLLBACK")
    assert recorder.flush() == 1
    assert recorder.problem is None


def test_a_folder_that_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    recorder = begun(tmp_path / "file" / "sessions.sqlite")
    recorder.interval(interval())
    assert recorder.flush() == 0
    assert "set PARKDECK_DATA_DIR" in str(recorder.problem)
    assert recorder.behind == 1


def test_newer_schema_is_refused_and_left_alone(path: Path) -> None:
    begun(path).close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE schema_version SET version = ?", (SCHEMA_VERSION + 6,))
    with pytest.raises(Refused, match="newer Parkdeck"):
        list_sessions(path)
    recorder = begun(path)
    recorder.interval(interval())
    assert recorder.flush() == 0
    assert "newer Parkdeck" in str(recorder.problem)
    assert rows(path, "SELECT count(*) FROM intervals") == [(0,)]


def test_missing_damaged_or_foreign_files(path: Path) -> None:
    with pytest.raises(Refused, match="no recorded sessions"):
        list_sessions(path)
    path.parent.mkdir()
    path.write_bytes(b"this is no database " * 1000)
    with pytest.raises(Refused, match="cannot be read"):
        list_sessions(path)
    recorder = begun(path)
    recorder.interval(interval())
    recorder.flush()
    assert "damaged or no database" in str(recorder.problem)


def overwritten(path: Path) -> None:
    """Every page but the first, which tells that it is a database."""
    data = path.read_bytes()
    path.write_bytes(data[:4096] + b"\xa5" * (len(data) - 4096))


def changed(*statements: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        with closing(sqlite3.connect(path)) as connection, connection:
            for statement in statements:
                connection.execute(statement)

    return change


@pytest.mark.parametrize(
    "damage",
    [
        overwritten,
        changed("UPDATE schema_version SET version = 'abc'"),
        changed("DROP TABLE intervals", "CREATE TABLE intervals (other)"),
        changed("DROP TABLE sessions", "CREATE TABLE sessions (other)"),
        changed("UPDATE sessions SET started_utc = 'then'"),
        changed("UPDATE sessions SET started_utc = 1e300", "UPDATE intervals SET end_utc = 1e300"),
        changed("UPDATE intervals SET start_utc = x'ff', end_utc = 'then', agent = cast(x'ff' AS TEXT)"),
    ],
)
def test_damage_of_any_kind_is_a_sentence(path: Path, tmp_path: Path, damage: Callable[[Path], None]) -> None:
    recorder = begun(path)
    for number in range(300):
        recorder.interval(interval(number))
    recorder.close()
    damage(path)
    for read in (lambda: list_sessions(path), lambda: export_session("s1", tmp_path / "out", path)):
        with pytest.raises(Refused, match="move it away") as caught:
            read()
        assert "\n" not in str(caught.value)
    recorder.interval(interval())
    recorder.flush()


def test_a_file_whose_log_cannot_be_made_is_read_without_one(path: Path) -> None:
    recorder = begun(path)
    recorder.interval(interval())
    recorder.close()
    path.with_name(f"{path.name}-shm").symlink_to("nowhere/at-all")
    assert list_sessions(path)[0].intervals == 1
    path.with_name(f"{path.name}-wal").write_bytes(b"rows that only the log has")
    with pytest.raises(Refused, match="copy its folder"):
        list_sessions(path)


@pytest.mark.parametrize(("connect", "stored"), [(full_disk, True), (open_error, False)])
def test_what_a_run_leaves_unstored_is_counted_as_lost(
    path: Path, connect: Callable[[Path], sqlite3.Connection], stored: bool
) -> None:
    recorder = begun(path, connect=connect, bound=2000)
    assert not recorder.stored
    path.parent.mkdir()
    if stored:
        recorder.flush()
    path.with_name("full").touch()
    recorder.close()
    for number in range(2500):
        recorder.interval(interval(number))
    recorder.close()
    assert recorder.stored is stored
    assert "2,500 records lost" in str(recorder.loss)
    path.with_name("full").unlink()
    recorder.flush()
    assert recorder.stored
    assert recorder.loss == "500 records lost."


def test_columns_that_an_older_table_lacks_are_added(path: Path) -> None:
    begun(path).close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("ALTER TABLE intervals DROP COLUMN policy")
    recorder = begun(path)
    recorder.interval(interval())
    assert recorder.flush() == 1
    assert rows(path, "SELECT policy FROM intervals") == [("walk-down",)]


def test_file_removed_while_it_runs(path: Path) -> None:
    recorder = begun(path)
    recorder.interval(interval(1))
    recorder.flush()
    for file in path.parent.iterdir():
        file.unlink()
    recorder.interval(interval(2))
    assert recorder.flush() == 1
    assert [(one.id, one.intervals) for one in list_sessions(path)] == [("s1", 1)]


def test_engine_thread_is_not_held_up_by_a_flush_that_hangs(path: Path) -> None:
    entered, let_go = threading.Event(), threading.Event()

    def hang(target: Path) -> sqlite3.Connection:
        entered.set()
        assert let_go.wait(30)
        return open_for_writing(target)

    recorder = begun(path, connect=hang)
    recorder.interval(interval(0))
    flushing = threading.Thread(target=recorder.flush)
    flushing.start()
    assert entered.wait(30)
    for number in range(1, 1000):
        recorder.interval(interval(number))
    assert recorder.behind == 1000
    let_go.set()
    flushing.join()
    recorder.close()
    assert rows(path, "SELECT turn FROM intervals ORDER BY row") == [(number,) for number in range(1000)]


def test_one_writer_many_flushers_lose_nothing(path: Path) -> None:
    recorder = begun(path)
    done = threading.Event()

    def flusher() -> None:
        while not done.is_set():
            recorder.flush()

    threads = [threading.Thread(target=flusher) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(5000):
        recorder.interval(interval(number))
    done.set()
    for thread in threads:
        thread.join()
    recorder.close()
    assert rows(path, "SELECT turn FROM intervals ORDER BY row") == [(number,) for number in range(5000)]


CHILD = """
import sys
from pathlib import Path
from engine.record.recorder import Recorder
from tests.engine.record.records import interval, snapshot

recorder = Recorder(Path(sys.argv[1]))
recorder.begin("s1", snapshot())
number = 0
while True:
    for _ in range(200):
        recorder.interval(interval(number))
        number += 1
    recorder.flush()
    print(number, flush=True)
"""


def test_killed_at_any_instant_leaves_a_whole_database(path: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(path)], stdout=subprocess.PIPE, text=True, cwd=os.getcwd()
    )
    assert child.stdout is not None
    flushed = [int(child.stdout.readline()) for _ in range(5)][-1]
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    child.stdout.close()
    assert rows(path, "PRAGMA integrity_check") == [("ok",)]
    stored = [turn for (turn,) in rows(path, "SELECT turn FROM intervals ORDER BY row")]
    assert len(stored) >= flushed
    assert stored == list(range(len(stored)))
    assert list_sessions(path)[0].intervals == len(stored)
    assert begun(path).flush() == 0


def test_data_directory_can_be_chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PARKDECK_DATA_DIR", str(tmp_path / "mine"))
    assert database_path() == tmp_path / "mine" / "sessions.sqlite"
    monkeypatch.delenv("PARKDECK_DATA_DIR")
    assert "parkdeck" in str(database_path())


def test_interval_columns_are_those_of_the_timeline() -> None:
    names = "start_utc,end_utc,agent,turn,priority,phase,tier,tool,context_tokens,kv_bytes,kv_bytes_card_scale"
    assert ",".join(column.name for column in INTERVALS) == f"{names},kv_precision,policy,queued_ms"
