"""TraceLab's two trace formats as workloads. They hold sizes and times, no text; a session becomes an agent.

- Multi-session CSV: session_id, arrival_time (ms), round_idx, prefix_len, input_len, output_len, tool_wait_after_ms.
  A session is one turn, its tools have no names. `prefix_len` is what a cache held there; it is checked, not used.
- Round trace (JSON Lines): a round's new tokens are its whole input less the context so far (`newly_append_tokens`
  also counts what a cache had lost); tools of one round run side by side, so the slowest counts. A round without a
  tool ends a turn; the next round starts a turn whose prompt is its whole input, after the pause the timestamps show.
"""

import csv
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from engine.errors import Refused
from engine.turn import Priority
from engine.workload.lines import json_object, numbered_lines
from engine.workload.script import MAX_TOKENS, MAX_WAIT_MS, AgentScript, Round, ScriptedTurn, Workload

CSV_COLUMNS = (
    "session_id",
    "arrival_time",
    "round_idx",
    "prefix_len",
    "input_len",
    "output_len",
    "tool_wait_after_ms",
)
UNNAMED_TOOL = "tool"


@dataclass(frozen=True, slots=True)
class _Row:
    """One round of a session; `started` and `ended` are epoch seconds, None when the file does not tell."""

    line: int
    index: int
    total: int | None
    appended: int
    output: int
    tool: str | None
    wait_ms: float
    arrival_ms: float = 0.0
    started: float | None = None
    ended: float | None = None


def read_csv(path: Path) -> Workload:
    """Raises Refused with file and line: missing columns, wrong number of cells, a value that is no count, a round
    given twice."""
    lines = numbered_lines(path)
    first, header = next(lines)
    columns = [name.strip() for name in _cells(path, first, header)]
    if missing := [name for name in CSV_COLUMNS if name not in columns]:
        raise Refused(f"{path.name}, line 1: column {missing[0]} is missing; needed are {', '.join(CSV_COLUMNS)}")
    sessions: dict[str, list[_Row]] = {}
    for number, text in lines:
        cells = _cells(path, number, text)
        if len(cells) != len(columns):
            raise Refused(f"{path.name}, line {number}: {len(cells)} cells where the header has {len(columns)}")
        values = dict(zip(columns, cells, strict=True))
        sessions.setdefault(_session(path, number, values["session_id"]), []).append(_csv_row(path, number, values))
    return _workload(path, sessions)


def read_round_trace(path: Path) -> Workload:
    """Raises Refused with file and line: broken JSON, a missing field, a value that is no count, a round given
    twice."""
    sessions: dict[str, list[_Row]] = {}
    for number, text in numbered_lines(path):
        value = json_object(path, number, text)
        sessions.setdefault(_session(path, number, value.get("session_id")), []).append(_trace_row(path, number, value))
    return _workload(path, sessions)


def _cells(path: Path, number: int, text: str) -> list[str]:
    try:
        return next(csv.reader([text]))
    except csv.Error as error:
        raise Refused(f"{path.name}, line {number}: not CSV ({error}); end lines with LF or CR LF") from None


def _csv_row(path: Path, number: int, values: Mapping[str, str]) -> _Row:
    def count(name: str) -> int:
        text = values[name].strip()
        if not (text.isascii() and text.isdigit() and len(text) <= 12) or int(text) > MAX_TOKENS:
            raise Refused(
                f"{path.name}, line {number}: {name} {values[name]!r} is not a whole number from 0 to 10 million"
            )
        return int(text)

    def milliseconds(name: str) -> float:
        return _number(path, number, name, values[name].strip(), MAX_WAIT_MS)

    count("prefix_len")
    wait = milliseconds("tool_wait_after_ms")
    return _Row(
        number,
        count("round_idx"),
        None,
        count("input_len"),
        count("output_len"),
        UNNAMED_TOOL,
        wait,
        arrival_ms=milliseconds("arrival_time"),
    )


def _trace_row(path: Path, number: int, value: Mapping[str, object]) -> _Row:
    def count(name: str) -> int:
        found = value.get(name)
        if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found <= MAX_TOKENS:
            raise Refused(f"{path.name}, line {number}: {name} {found!r} is not a whole number from 0 to 10 million")
        return found

    tool, wait_ms = _slowest_tool(path, number, value.get("tools"))
    times = _times(path, number, value.get("timing_events"))
    return _Row(
        number,
        count("round_index"),
        count("input_tokens_total"),
        count("newly_append_tokens"),
        count("output_tokens"),
        tool,
        wait_ms,
        started=min(times, default=None),
        ended=max(times, default=None),
    )


def _slowest_tool(path: Path, number: int, tools: object) -> tuple[str | None, float]:
    """A call whose latency is null (it never came back) counts as 0 ms."""
    if tools is None or tools == []:
        return None, 0.0
    if not isinstance(tools, list) or not all(isinstance(one, dict) for one in tools):
        raise Refused(f"{path.name}, line {number}: tools is no list of objects")
    slowest, longest = UNNAMED_TOOL, -1.0
    for one in tools:
        latency = one.get("tool_wall_latency_ms")
        milliseconds = 0.0 if latency is None else _number(path, number, "tool_wall_latency_ms", latency, MAX_WAIT_MS)
        if milliseconds > longest:
            slowest, longest = str(one.get("tool_name") or UNNAMED_TOOL), milliseconds
    return slowest, longest


def _times(path: Path, number: int, events: object) -> list[float]:
    if events is None:
        return []
    if not isinstance(events, list) or not all(isinstance(one, dict) for one in events):
        raise Refused(f"{path.name}, line {number}: timing_events is no list of objects")
    times = []
    for one in events:
        try:
            moment = datetime.fromisoformat(str(one.get("timestamp")))
        except ValueError:
            raise Refused(f"{path.name}, line {number}: timestamp {one.get('timestamp')!r} is not ISO-8601") from None
        times.append((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
    return times


def _workload(path: Path, sessions: Mapping[str, list[_Row]]) -> Workload:
    if not sessions:
        raise Refused(f"{path.name}: there are no rounds in it; a workload needs at least one")
    agents = []
    for session, rows in sessions.items():
        rows.sort(key=lambda row: row.index)
        for before, row in itertools.pairwise(rows):
            if row.index == before.index:
                raise Refused(
                    f"{path.name}, line {row.line}: round {row.index} of session {session!r} was given on line "
                    f"{before.line} already"
                )
        agents.append(AgentScript(session, Priority.BACKGROUND, _turns(path, rows), rows[0].arrival_ms))
    first = min(agent.arrival_ms for agent in agents)
    agents = [AgentScript(one.name, one.priority, one.turns, one.arrival_ms - first) for one in agents]
    return Workload(path.stem, tuple(agents), f"TraceLab trace {path.name}", agents_nominal=min(len(agents), 256))


def _turns(path: Path, rows: list[_Row]) -> tuple[ScriptedTurn, ...]:
    turns: list[ScriptedTurn] = []
    rounds: list[Round] = []
    context, think_ms = 0, 0.0
    for at, row in enumerate(rows):
        appended = row.appended if row.total is None else max(0, row.total - context)
        last = at == len(rows) - 1 or row.tool is None
        if not rounds and appended < 1:
            raise Refused(f"{path.name}, line {row.line}: the first round of a turn has no input tokens")
        output = max(row.output, 1)
        rounds.append(Round(appended, output, None if last else row.tool, 0.0 if last else row.wait_ms))
        context += appended + output
        if last:
            turns.append(ScriptedTurn(tuple(rounds), think_ms))
            rounds, context = [], 0
            think_ms = _pause_ms(row, rows[at + 1]) if at + 1 < len(rows) else 0.0
    return tuple(turns)


def _pause_ms(before: _Row, after: _Row) -> float:
    if before.ended is None or after.started is None:
        return 0.0
    return min(max(0.0, (after.started - before.ended) * 1000.0), MAX_WAIT_MS)


def _session(path: Path, number: int, value: object) -> str:
    if not isinstance(value, str | int) or isinstance(value, bool) or str(value).strip() == "":
        raise Refused(f"{path.name}, line {number}: session_id {value!r} is not a name")
    return str(value)


def _number(path: Path, number: int, name: str, value: object, most: float) -> float:
    try:
        found = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else -1.0
    except (ValueError, OverflowError):
        found = -1.0
    if not 0 <= found <= most:
        raise Refused(f"{path.name}, line {number}: {name} {value!r} is not a number from 0 to {most:,.0f}")
    return found
