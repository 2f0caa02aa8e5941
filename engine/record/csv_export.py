"""timeline.csv, samples.csv and events.csv of one session, streamed: UTF-8, RFC 4180, times in UTC with Z, units in the
column names, numbers with a point whatever the locale; `at_s` is seconds since the session's start. Rows stand in the
order in which they ended."""

import csv
import io
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.clock import iso_utc
from engine.errors import Refused
from engine.record.cells import neutralised
from engine.record.columns import SCALED_KV, SESSIONS, Column, Value, clean
from engine.record.database import TABLES, database_path, reading, refused_if_unreadable
from engine.record.recorder import Recorder, Row, Unflushed

FILES = {"timeline.csv": "intervals", "samples.csv": "samples", "events.csv": "events"}
ROWS_PER_CHUNK = 1000
SCALED_SUFFIX = "_card_scale"
FIGURES = "figures"
"""The last column of each file: whether they were measured or modelled."""


def timeline_csv_chunks(session: str, path: Path | None = None, recorder: Recorder | None = None) -> Iterator[bytes]:
    """timeline.csv in pieces. See `csv_chunks`."""
    return csv_chunks("timeline.csv", session, path, recorder)


def timeline_csv_bytes(session: str, path: Path | None = None, recorder: Recorder | None = None) -> bytes:
    """timeline.csv whole, for a download. See `csv_chunks`."""
    return b"".join(timeline_csv_chunks(session, path, recorder))


def csv_chunks(name: str, session: str, path: Path | None = None, recorder: Recorder | None = None) -> Iterator[bytes]:
    """One of `FILES` in pieces of up to 1,000 rows. With the live `recorder` the rows that it has not stored yet come
    last, and its database is the one read. Raises Refused, before the first piece, for an unknown session or a
    database that cannot be read."""
    waiting = None if recorder is None else recorder.unflushed(session)
    source = path or (recorder.path if recorder is not None else database_path())
    table = FILES[name]
    start = waiting.start if waiting is not None and waiting.start is not None else _stored_start(source, session)
    with refused_if_unreadable(source):
        rows = _since_start(table, start, _rows(source, session, table, waiting))
        finish = _finisher(table, start)
    return _told(source, _chunks(table, finish, rows))


def export_session(
    session: str, out: Path, path: Path | None = None, recorder: Recorder | None = None
) -> tuple[Path, ...]:
    """Writes the three files into the folder `out`, made if it is missing, and returns their paths. Raises Refused
    for an unknown session, a database that cannot be read or a folder that cannot be written."""
    written = []
    for name in FILES:
        chunks = csv_chunks(name, session, path, recorder)
        target = out / name
        try:
            out.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as file:
                file.writelines(chunks)
        except OSError as error:
            raise Refused(f"{target} cannot be written ({error.strerror or error}); choose another folder") from None
        written.append(target)
    return tuple(written)


def _stored_start(path: Path, session: str) -> Row:
    """The session's row; raises Refused if it is not there."""
    names = ", ".join(f'"{column.name}"' for column in SESSIONS)
    with reading(path) as connection:
        found: Row | None = connection.execute(
            f"SELECT {names} FROM sessions WHERE id = ?", (clean(session),)
        ).fetchone()
        known = [one for (one,) in connection.execute("SELECT id FROM sessions ORDER BY started_utc DESC LIMIT 5")]
    if found is None:
        latest = f"the latest are {', '.join(known)}" if known else "none was recorded yet"
        raise Refused(f"there is no session {session!r} in {path}; {latest}")
    return found


def _rows(path: Path, session: str, table: str, waiting: Unflushed | None) -> Iterator[Row]:
    if waiting is None or waiting.last_row[table]:
        names = ", ".join(f'"{column.name}"' for column in TABLES[table])
        limit = -1 if waiting is None else waiting.last_row[table]
        with reading(path) as connection:
            yield from connection.execute(
                f"SELECT {names} FROM {table} WHERE session = ? AND (? < 0 OR row <= ?) ORDER BY row",
                (clean(session), limit, limit),
            )
    if waiting is not None:
        yield from waiting.rows[table]


def _since_start(table: str, start: Row, rows: Iterator[Row]) -> Iterator[Row]:
    """The rows with `at_s` counted from the session's start; the engine's clock in SQLite has a zero of its own."""
    names = [column.name for column in TABLES[table]]
    if "at_s" not in names:
        return rows
    at, utc = names.index("at_s"), names.index("utc")
    began = float(start[[column.name for column in SESSIONS].index("started_utc")] or 0.0)
    return ((*values[:at], float(values[utc] or 0.0) - began, *values[at + 1 :]) for values in rows)


def _told(source: Path, chunks: Iterator[bytes]) -> Iterator[bytes]:
    with refused_if_unreadable(source):
        yield from chunks


def _chunks(table: str, finish: "_Finisher", rows: Iterator[Row]) -> Iterator[bytes]:
    columns = TABLES[table]
    header: Row | None = (*(column.name for column in columns), *finish.names)
    rows = iter(rows)
    while True:
        buffer = io.StringIO(newline="")
        writer = csv.writer(buffer, lineterminator="\r\n")
        if header is not None:
            writer.writerow(header)
            header = None
        for values in itertools.islice(rows, ROWS_PER_CHUNK):
            writer.writerow([*map(_cell, columns, values), *finish.cells(values)])
        text = buffer.getvalue()
        if not text:
            return
        yield text.encode("utf-8")


def _cell(column: Column[Any], value: Value) -> str:
    if value is None:
        return ""
    if column.time:
        return iso_utc(float(value))
    if isinstance(value, str):
        return neutralised(value)
    return number(value)


def number(value: float) -> str:
    """Shortest form with a point; floats to six decimals; empty for NaN and infinity."""
    if isinstance(value, int):
        return str(value)
    return repr(round(value, 6)) if math.isfinite(value) else ""


class _Finisher:
    """Columns that are not stored with a row: card scale in samples.csv, and in each file what its figures are."""

    def __init__(self, names: Sequence[str] = (), cells: Callable[[Row], list[str]] = lambda values: []) -> None:
        self.names = tuple(names)
        self.cells = cells


def _finisher(table: str, start: Row) -> _Finisher:
    session = dict(zip((column.name for column in SESSIONS), start, strict=True))
    scaled = _scaled(table, session)
    figures = "modelled" if session["backend"] == "twin" else "measured"
    return _Finisher((*scaled.names, FIGURES), lambda values: [*scaled.cells(values), figures])


def _scaled(table: str, session: Mapping[str, Value]) -> _Finisher:
    if table != "samples":
        return _Finisher()
    names = [
        f"{name}{SCALED_SUFFIX}"
        for name in (*SCALED_KV, "weights_bytes", "runtime_bytes", "used_bytes", "headroom_bytes", "ceiling_bytes")
    ]
    places = [[column.name for column in TABLES[table]].index(name) for name in SCALED_KV]
    if session["card_factor"] is None:
        return _Finisher(names, lambda values: [""] * len(names))
    scale = float(session["card_factor"])
    weights, runtime, ceiling = (int(session[f"card_{part}_bytes"] or 0) for part in ("weights", "runtime", "ceiling"))

    def cells(values: Row) -> list[str]:
        scaled = [round(float(values[place] or 0) * scale) for place in places]
        used = weights + runtime + sum(scaled[:3])
        return list(map(str, (*scaled, weights, runtime, used, ceiling - used, ceiling)))

    return _Finisher(names, cells)
