"""The recorder: takes copies on the engine's thread, writes them to SQLite on another.

The engine's calls append to bounded queues and return; `flush`, called each second by the schedule, writes what is
waiting in one transaction. While the disk is full, locked or read-only the records wait in memory; when a queue is full
its oldest records are lost, counted, and `problem` says so. A process killed at any instant leaves a whole database:
it lacks at most what was waiting.
"""

import os
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from engine.errors import Refused
from engine.events import Event, Interval
from engine.record.columns import EVENTS, INTERVALS, SAMPLES, SESSIONS, Column, SessionStart, Value, clean, row
from engine.record.database import TABLES, database_path, insert_statement, open_for_writing, reading
from engine.snapshot import Sample, Snapshot
from engine.words import counted

R = TypeVar("R")
DEFAULT_BOUND = 100_000
Row = tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Unflushed:
    """What is waiting for one session, table by table, and the last row that was stored at that instant (0: none).
    `start`: the session's own row, if it is the present one."""

    start: Row | None
    rows: Mapping[str, tuple[Row, ...]]
    last_row: Mapping[str, int]


class _Queue(Generic[R]):
    """Bounded: one thread adds, another takes. `inflight` was taken and is kept until it is stored."""

    def __init__(self, columns: Sequence[Column[R]], bound: int) -> None:
        self.columns = columns
        self.dropped = 0
        self.unusable = 0
        self._bound = bound
        self._waiting: deque[tuple[str, R]] = deque()
        self._inflight: list[tuple[str, R]] = []

    def __len__(self) -> int:
        return len(self._waiting) + len(self._inflight)

    def add(self, session: str, record: R) -> None:
        """Full: the oldest record that is not in flight is lost."""
        self._waiting.append((session, record))
        if len(self) > self._bound:
            self.dropped += 1
            self._pop()

    def take(self) -> list[tuple[str, R]]:
        for _ in range(len(self._waiting)):
            if (found := self._pop()) is not None:
                self._inflight.append(found)
        return self._inflight

    def stored(self, unusable: int) -> None:
        self._inflight = []
        self.unusable += unusable

    def peek(self) -> list[tuple[str, R]]:
        return [*self._inflight, *self._waiting.copy()]

    def _pop(self) -> tuple[str, R] | None:
        try:
            return self._waiting.popleft()
        except IndexError:
            return None


class Recorder:
    """A Sink. `flush` and `close` from any thread but the engine's. `bound`: records of each kind kept in memory."""

    def __init__(
        self,
        path: Path | None = None,
        *,
        bound: int = DEFAULT_BOUND,
        connect: Callable[[Path], sqlite3.Connection] = open_for_writing,
    ) -> None:
        self._path = path or database_path()
        self._connect = connect
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._writing = threading.Lock()
        self._session = ""
        self._begun: SessionStart | None = None
        self._sessions: _Queue[SessionStart] = _Queue(SESSIONS, 1000)
        self._intervals: _Queue[Interval] = _Queue(INTERVALS, bound)
        self._events: _Queue[Event] = _Queue(EVENTS, bound)
        self._samples: _Queue[Sample] = _Queue(SAMPLES, bound)
        self._queues: dict[str, _Queue[Any]] = {
            "intervals": self._intervals,
            "events": self._events,
            "samples": self._samples,
        }
        self._lost_before = 0
        self._trouble: str | None = None
        self._stored_session: str | None = None

    def begin(self, session: str, snapshot: Snapshot) -> None:
        self._session = session
        self._lost_before = self.lost
        self._begun = SessionStart.of(session, snapshot)
        self._sessions.add(session, self._begun)

    def event(self, event: Event) -> None:
        self._events.add(self._session, event)

    def interval(self, interval: Interval) -> None:
        self._intervals.add(self._session, interval)

    def sample(self, sample: Sample) -> None:
        self._samples.add(self._session, sample)

    @property
    def path(self) -> Path:
        return self._path

    @property
    def session(self) -> str:
        """The latest that was begun; empty before the first."""
        return self._session

    @property
    def behind(self) -> int:
        """Records taken and not yet stored."""
        return sum(map(len, self._queues.values()))

    @property
    def lost(self) -> int:
        """Records that were given up since the start."""
        return sum(queue.dropped + queue.unusable for queue in self._queues.values())

    @property
    def problem(self) -> str | None:
        """Why records are not stored, or that some were lost; one sentence, None when all is well."""
        lost = self.lost
        if self._trouble is not None:
            kept = f"{counted(self.behind, 'record')} waiting in memory" + (f", {lost:,} lost" if lost else "")
            return f"Recording waits: {self._trouble} ({kept})."
        return f"{counted(lost, 'record')} could not be stored." if lost else None

    @property
    def stored(self) -> bool:
        """Whether the latest session is in the file, with what could be stored of it."""
        return bool(self._session) and self._stored_session == self._session

    @property
    def loss(self) -> str | None:
        """What is lost if the process ends now; one sentence, None when all is stored."""
        missing = self.behind + self.lost
        if self._trouble is not None:
            return f"Recording failed: {self._trouble} ({counted(missing, 'record')} lost)."
        return f"{counted(missing, 'record')} lost." if missing else None

    def flush(self) -> int:
        """Stores what is waiting; returns how many rows. Trouble is told by `problem`, never raised."""
        with self._writing:
            taken = {table: queue.take() for table, queue in self._queues.items()}
            starts = self._sessions.take()
            if not starts and not any(taken.values()) and self._trouble is None:
                return 0
            try:
                unusable = self._store(starts, taken)
            except Refused as error:
                self._give_up_connection()
                self._trouble = str(error)
                return 0
            except (sqlite3.Error, OSError) as error:
                self._give_up_connection()
                self._trouble = _sentence(self._path, error)
                return 0
            stored = sum(map(len, taken.values())) - sum(unusable.values())
            self._sessions.stored(0)
            for table, queue in self._queues.items():
                queue.stored(unusable[table])
            self._trouble = None
            return stored

    def close(self) -> None:
        """Flushes and lets the file go; a later flush opens it again."""
        self.flush()
        with self._writing:
            self._give_up_connection()

    def unflushed(self, session: str) -> Unflushed:
        """What is waiting for `session`, consistent with what is stored: no row is in both or in neither."""
        with self._writing:
            rows = {
                table: tuple(_rows(queue.columns, (one for of, one in queue.peek() if of == session))[0])
                for table, queue in self._queues.items()
            }
            begun = self._begun
            start = row(SESSIONS, begun) if begun is not None and begun.id == session else None
            return Unflushed(start, rows, self._last_rows())

    def _last_rows(self) -> Mapping[str, int]:
        if not os.path.isfile(self._path):
            return dict.fromkeys(TABLES, 0)
        with reading(self._path) as connection:
            return {
                table: connection.execute(f"SELECT coalesce(max(row), 0) FROM {table}").fetchone()[0]
                for table in TABLES
            }

    def _store(
        self, starts: list[tuple[str, SessionStart]], taken: Mapping[str, list[tuple[str, Any]]]
    ) -> dict[str, int]:
        """One transaction; returns how many records of each table could not be made rows of."""
        unusable = dict.fromkeys(TABLES, 0)
        connection = self._opened()
        with connection:
            begun = [] if self._begun is None else [self._begun]
            for start in (*(start for _, start in starts), *begun):
                _insert_session(connection, start)
            for table, records in taken.items():
                by_session: dict[str, list[Any]] = {}
                for session, record in records:
                    by_session.setdefault(session, []).append(record)
                for session, of_session in by_session.items():
                    rows, bad = _rows(TABLES[table], of_session)
                    unusable[table] += bad
                    key = clean(session)
                    connection.executemany(insert_statement(table), ((key, *values) for values in rows))
            lost = self.lost - self._lost_before + sum(unusable.values())
            connection.execute(
                "UPDATE sessions SET lost = ? WHERE id = ? AND lost <> ?", (lost, clean(self._session), lost)
            )
        self._stored_session = begun[0].id if begun else None
        return unusable

    def _opened(self) -> sqlite3.Connection:
        """The kept connection, or a new one when the file was replaced or removed under it."""
        if self._connection is not None and self._file != _identity(self._path):
            self._give_up_connection()
        if self._connection is None:
            self._connection = self._connect(self._path)
            self._file = _identity(self._path)
        return self._connection

    def _give_up_connection(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None


def _rows(columns: Sequence[Column[Any]], records: Iterable[Any]) -> tuple[list[Row], int]:
    """Rows, and how many records none could be made of."""
    rows: list[Row] = []
    bad = 0
    for record in records:
        try:
            rows.append(row(columns, record))
        except (ValueError, TypeError, AttributeError, OverflowError):
            bad += 1
    return rows, bad


def _insert_session(connection: sqlite3.Connection, start: SessionStart) -> None:
    names = ", ".join(f'"{column.name}"' for column in SESSIONS)
    connection.execute(
        f"INSERT OR IGNORE INTO sessions ({names}) VALUES ({', '.join('?' * len(SESSIONS))})", row(SESSIONS, start)
    )


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _sentence(path: Path, error: Exception) -> str:
    text = getattr(error, "strerror", None) or str(error)
    if "full" in text or getattr(error, "errno", None) == 28:
        return f"the disk of {path.parent} is full, free some space"
    if "locked" in text or "busy" in text:
        return f"{path} is locked by another program, close it"
    if "readonly" in text or "read-only" in text or isinstance(error, PermissionError):
        return f"{path} cannot be written, allow it or set PARKDECK_DATA_DIR"
    if "not a database" in text or "malformed" in text:
        return f"{path} is damaged or no database, move it away"
    return f"{path} cannot be written ({text}), set PARKDECK_DATA_DIR to another folder"
