"""How long tools took in the sessions that are stored: what an engine that begins can already know.

An interval ends wherever a turn's tier or a knob changes, so a wait may lie in several; what counts is that its turn
went on afterwards. Of each turn only what lies in the rows that are read is known: a wait whose beginning is older is
left out. Modelled sessions are left out too.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import Refused
from engine.record.database import database_path, reading
from engine.turn import Phase
from engine.waits import KEPT, TOOLS_KEPT, KnownWaits
from engine.words import counted

ROWS_READ = 50_000
"""The latest of all sessions; a tenth of a second."""
_ROWS = """
    SELECT i.session, i.turn, i.phase, i.tool, i.start_utc, i.end_utc
    FROM intervals i JOIN sessions s ON s.id = i.session
    WHERE i.row > (SELECT max(row) FROM intervals) - ? AND s.backend <> 'twin' ORDER BY i.row"""
_GOES_ON = frozenset({Phase.WAITING, Phase.PAUSED, Phase.PREFILL, Phase.DECODE})


def stored_waits(path: Path | None = None) -> KnownWaits:
    """Never raises for what the file is or holds: then nothing is known, and the sentence says why."""
    path = path or database_path()
    if not path.exists():
        return KnownWaits((), "no durations of tools are known from before: no session is stored yet")
    try:
        with reading(path) as connection:
            found = durations_in(connection.execute(_ROWS, (ROWS_READ,)))
    except Refused as refusal:
        return KnownWaits((), f"no durations of tools are known from before: {refusal}")
    if not found:
        return KnownWaits((), "no durations of tools are known from before: the stored sessions have none")
    tools = len({tool for tool, _ in found})
    said = f"{counted(len(found), 'duration')} of {counted(tools, 'tool')} are known from stored sessions"
    return KnownWaits(found[-KEPT * TOOLS_KEPT :], said)


@dataclass(slots=True)
class _Wait:
    """`tool` None: the turn runs, or waits for a slot."""

    tool: str | None
    since: float
    until: float


def durations_in(rows: Iterable[Any]) -> tuple[tuple[str, float], ...]:
    """Of (session, turn, phase, tool, start, end) in the order in which they were written: tool and seconds of each
    wait that ended with a result. Raises TypeError for a value that is none of its column."""
    lasting: dict[tuple[str, int], _Wait | None] = {}
    found: list[tuple[str, float]] = []
    for session, turn, phase, tool, start, end in rows:
        if not isinstance(tool, str | None) or not isinstance(end, int | float):
            raise TypeError(f"{str(tool)[:40]!r} until {str(end)[:40]!r} is none of its column")
        key = session, turn
        if key not in lasting:
            # Nobody begins blocked: what came before is not among the rows.
            lasting[key] = None if phase == Phase.BLOCKED else _Wait(None, start, end)
            continue
        before = lasting[key]
        if phase == Phase.BLOCKED:
            if before is None:
                continue
            if before.tool == tool:
                before.until = end
            else:
                lasting[key] = _Wait(tool, start, end)
        else:
            if before is not None and before.tool and phase in _GOES_ON and before.until >= before.since:
                found.append((before.tool, before.until - before.since))
            lasting[key] = _Wait(None, start, end)
    return tuple(found)
