"""timeline.csv back to intervals: the inverse of the export, for other tools and for tests."""

import csv
import math
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from engine.errors import Refused
from engine.events import Interval
from engine.geometry import KVDtype
from engine.record.cells import restored
from engine.record.columns import INTERVALS
from engine.record.csv_export import FIGURES
from engine.turn import Phase, Priority, Tier, TurnId

COLUMNS = tuple(column.name for column in INTERVALS)
HEADERS = (COLUMNS, (*COLUMNS, FIGURES))
"""Files of earlier exports do not say whether they were measured."""


def read_timeline(path: Path) -> Iterator[Interval]:
    """Streams the rows. Raises Refused with file and line: not UTF-8, wrong columns, a value that is none of its kind.
    Times come back to the millisecond."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file)
            header = next(reader, [])
            if tuple(header) not in HEADERS:
                raise Refused(f"{path.name}, line 1: the columns are not those of a timeline.csv; export it again")
            for cells in reader:
                yield _interval(path, reader.line_num, header, cells)
    except OSError as error:
        raise Refused(f"{path}: cannot be read ({error.strerror or error}); name a readable file") from None
    except UnicodeDecodeError:
        raise Refused(f"{path.name}: not UTF-8 text; export it again") from None
    except csv.Error as error:
        raise Refused(f"{path.name}: not CSV ({error}); export it again") from None


def _interval(path: Path, line: int, header: list[str], cells: list[str]) -> Interval:
    if len(cells) != len(header):
        raise Refused(f"{path.name}, line {line}: {len(cells)} cells where the header has {len(header)}")
    cell = dict(zip(header, cells, strict=True))
    try:
        return Interval(
            start_utc=datetime.fromisoformat(cell["start_utc"]).timestamp(),
            end_utc=datetime.fromisoformat(cell["end_utc"]).timestamp(),
            agent=restored(cell["agent"]),
            turn=TurnId(int(cell["turn"])),
            priority=Priority[cell["priority"].upper()],
            phase=Phase(cell["phase"]),
            tier=Tier(cell["tier"]),
            tool=restored(cell["tool"]) or None,
            context_tokens=int(cell["context_tokens"]),
            kv_bytes=int(cell["kv_bytes"]),
            kv_bytes_card_scale=int(cell["kv_bytes_card_scale"]),
            kv_dtype=KVDtype(cell["kv_precision"]),
            policy=restored(cell["policy"]),
            queued_ms=_finite(cell["queued_ms"]),
        )
    except (ValueError, KeyError) as error:
        raise Refused(f"{path.name}, line {line}: {error}; this is no row of a timeline.csv") from None


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text!r} is no finite number")
    return value
