"""The file that keeps sessions: where it is, how it is opened, what is in it."""

import os
import sqlite3
import stat
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import platformdirs

from engine.clock import iso_utc
from engine.errors import Refused
from engine.record.columns import EVENTS, INTERVALS, SAMPLES, SESSIONS, Column

SCHEMA_VERSION = 1
FILE_NAME = "sessions.sqlite"
BUSY_TIMEOUT_S = 0.5
TABLES: dict[str, Sequence[Column[Any]]] = {"intervals": INTERVALS, "events": EVENTS, "samples": SAMPLES}


def data_dir() -> Path:
    """PARKDECK_DATA_DIR if it is set, else the user's data directory."""
    chosen = os.environ.get("PARKDECK_DATA_DIR")
    return Path(chosen) if chosen else Path(platformdirs.user_data_dir("parkdeck"))


def database_path() -> Path:
    return data_dir() / FILE_NAME


def open_for_writing(path: Path) -> sqlite3.Connection:
    """Makes the folder, the file and its tables where they are missing; write-ahead log, synchronous NORMAL. Raises
    Refused for a database of a newer schema, sqlite3.Error and OSError for what the disk does not let happen."""
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL)")
            _check_version(connection, path)
            _create_tables(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def open_for_reading(path: Path) -> sqlite3.Connection:
    """Raises Refused when there is no such file, it is no database, or it is of a newer schema. A file whose log cannot
    be made, in a folder that may not be written, is read without one."""
    _check_file(path)
    try:
        return _connected(path, f"{path.absolute().as_uri()}?mode=rw")
    except sqlite3.OperationalError as error:
        if not _without_log(path):
            raise _unreadable(path, error) from None
    except sqlite3.Error as error:
        raise _unreadable(path, error) from None
    try:
        return _connected(path, f"{path.absolute().as_uri()}?mode=ro&immutable=1")
    except sqlite3.Error as error:
        raise _unreadable(path, error) from None


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection as `open_for_reading` gives it; whatever SQLite raises while it is used is Refused too."""
    with closing(open_for_reading(path)) as connection, refused_if_unreadable(path):
        yield connection


@contextmanager
def refused_if_unreadable(path: Path) -> Iterator[None]:
    """Damage that shows in SQLite, or in a value that is none of its column."""
    try:
        yield
    except (sqlite3.Error, TypeError, ValueError, OverflowError) as error:
        raise _unreadable(path, error) from None


def _check_file(path: Path) -> None:
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        found = None
    except OSError as error:
        raise Refused(f"{path} cannot be read ({error.strerror}); allow it, or set PARKDECK_DATA_DIR") from None
    if found is None or not stat.S_ISREG(found.st_mode):
        raise Refused(f"there are no recorded sessions at {path}; run Parkdeck first, or set PARKDECK_DATA_DIR")


def _connected(path: Path, uri: str) -> sqlite3.Connection:
    connection = sqlite3.connect(uri, uri=True, timeout=BUSY_TIMEOUT_S, check_same_thread=False)
    try:
        connection.execute("PRAGMA query_only=ON")
        _check_version(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _without_log(path: Path) -> bool:
    """Whether the file is whole without its write-ahead log."""
    try:
        return path.with_name(f"{path.name}-wal").stat().st_size == 0
    except OSError:
        return True


def _unreadable(path: Path, error: Exception) -> Refused:
    text = str(error)
    if "locked" in text or "busy" in text:
        return Refused(f"{path} cannot be read ({text}); close the program that uses it")
    if "unable to open" in text or "readonly" in text:
        return Refused(f"{path} cannot be read ({text}); allow it, or copy its folder and set PARKDECK_DATA_DIR to it")
    return Refused(f"{path} cannot be read ({text}); it is damaged or no Parkdeck database, move it away")


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """One recorded session. `ended_utc`: the latest instant recorded; counts are of stored rows; `lost`: records that
    did not fit into memory while the disk could not take them."""

    id: str
    started_utc: float
    ended_utc: float
    model: str
    backend: str
    intervals: int
    events: int
    samples: int
    lost: int


def list_sessions(path: Path | None = None) -> tuple[SessionInfo, ...]:
    """Newest first. Raises Refused as `open_for_reading` does."""
    query = """
        SELECT s.id, s.started_utc,
            max(s.started_utc, coalesce((SELECT max(end_utc) FROM intervals i WHERE i.session = s.id), 0),
                coalesce((SELECT max(utc) FROM samples p WHERE p.session = s.id), 0)),
            s.model, s.backend,
            (SELECT count(*) FROM intervals i WHERE i.session = s.id),
            (SELECT count(*) FROM events e WHERE e.session = s.id),
            (SELECT count(*) FROM samples p WHERE p.session = s.id),
            s.lost
        FROM sessions s ORDER BY s.started_utc DESC, s.id"""
    with reading(path or database_path()) as connection:
        return tuple(_session_info(found) for found in connection.execute(query))


def _session_info(found: Sequence[object]) -> SessionInfo:
    """Raises TypeError for a value that is none of its column, ValueError for an instant that no calendar has."""
    text, instant, count = (str,), (int, float), (int,)
    kinds = (text, instant, instant, text, text, count, count, count, count)
    for value, kind in zip(found, kinds, strict=True):
        if not isinstance(value, kind):
            raise TypeError(f"{str(value)[:40]!r} is none of its column")
    info = SessionInfo(*found)  # type: ignore[arg-type]
    iso_utc(info.started_utc)
    iso_utc(info.ended_utc)
    return info


def insert_statement(table: str) -> str:
    names = ["session", *(column.name for column in TABLES[table])]
    return f"INSERT INTO {table} ({', '.join(map(_quoted, names))}) VALUES ({', '.join('?' * len(names))})"


def _check_version(connection: sqlite3.Connection, path: Path) -> None:
    found = connection.execute("SELECT max(version) FROM schema_version").fetchone()[0]
    if found is not None and not isinstance(found, int):
        raise Refused(
            f"{path} has the schema {str(found)[:40]!r}, which is none; it is no Parkdeck database, move it away"
        )
    if found is not None and found > SCHEMA_VERSION:
        raise Refused(
            f"{path} was written by a newer Parkdeck (schema {found}, this one knows {SCHEMA_VERSION}); update "
            "Parkdeck, or move the file away to start a new one"
        )


def _create_tables(connection: sqlite3.Connection) -> None:
    """Also adds columns that a table of an earlier version of this schema lacks."""
    if connection.execute("SELECT max(version) FROM schema_version").fetchone()[0] is None:
        connection.execute("INSERT INTO schema_version VALUES (?)", (SCHEMA_VERSION,))
    connection.execute("CREATE TABLE IF NOT EXISTS sessions (id TEXT PRIMARY KEY, lost INTEGER NOT NULL DEFAULT 0)")
    _add_columns(connection, "sessions", SESSIONS[1:])
    for table, columns in TABLES.items():
        connection.execute(f"CREATE TABLE IF NOT EXISTS {table} (row INTEGER PRIMARY KEY, session TEXT NOT NULL)")
        connection.execute(f"CREATE INDEX IF NOT EXISTS {table}_of_session ON {table} (session)")
        _add_columns(connection, table, columns)


def _add_columns(connection: sqlite3.Connection, table: str, columns: Sequence[Column[Any]]) -> None:
    present = {found[1] for found in connection.execute(f"PRAGMA table_info({table})")}
    for column in columns:
        if column.name not in present:
            connection.execute(f"ALTER TABLE {table} ADD COLUMN {_quoted(column.name)} {column.sql}")


def _quoted(name: str) -> str:
    return f'"{name}"'
