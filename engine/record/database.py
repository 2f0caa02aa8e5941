"""The file that keeps sessions: where it is, how it is opened, what is in it."""

import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import platformdirs

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
    """Raises Refused when there is no such file, it is no database, or it is of a newer schema."""
    if not path.is_file():
        raise Refused(f"there are no recorded sessions at {path}; run Parkdeck first, or set PARKDECK_DATA_DIR")
    connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, check_same_thread=False)
    try:
        connection.execute("PRAGMA query_only=ON")
        _check_version(connection, path)
    except sqlite3.Error as error:
        connection.close()
        raise Refused(f"{path} cannot be read ({error}); move it away if it is no Parkdeck database") from None
    except Refused:
        connection.close()
        raise
    return connection


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
    with closing(open_for_reading(path or database_path())) as connection:
        return tuple(SessionInfo(*found) for found in connection.execute(query))


def insert_statement(table: str) -> str:
    names = ["session", *(column.name for column in TABLES[table])]
    return f"INSERT INTO {table} ({', '.join(map(_quoted, names))}) VALUES ({', '.join('?' * len(names))})"


def _check_version(connection: sqlite3.Connection, path: Path) -> None:
    found = connection.execute("SELECT max(version) FROM schema_version").fetchone()[0]
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
