"""Parkdeck's own workload file: JSON Lines, UTF-8.

Line 1 is the header:
    {"parkdeck_workload": 1, "name": "...", "title": "...", "seed": 7, "scale": 2.6, "agents_nominal": 20}
Every further line is one agent:
    {"agent": "coder-01", "priority": "background", "arrival_ms": 900, "turns": [
        {"think_ms": 0, "rounds": [[480, 64, "bash", 310], [40, 70, null, 0]]}]}
A round is [appended tokens, output tokens, tool name or null, tool wait in ms]. A turn's first round appends its
prompt; its last round has no tool. Times are those at speed 1.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from engine.errors import Refused
from engine.turn import Priority
from engine.workload.lines import json_object, numbered_lines
from engine.workload.script import AgentScript, Round, ScriptedTurn, Workload

VERSION = 1
MARK = "parkdeck_workload"


def dump_workload(workload: Workload) -> str:
    """The file's text; `notes` are not written, they belong to a loading."""
    header = {
        MARK: VERSION,
        "name": workload.name,
        "title": workload.title,
        "seed": workload.seed,
        "scale": workload.scale,
        "agents_nominal": workload.agents_nominal,
    }
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in (header, *map(_agent, workload.agents)))


def read_workload(path: Path) -> Workload:
    """Raises Refused with file and line for anything that is not as this module's text says."""
    header: Mapping[str, object] | None = None
    agents = []
    for number, text in numbered_lines(path):
        value = json_object(path, number, text)
        try:
            if header is None:
                header = _checked_header(value)
            else:
                agents.append(_parse_agent(value))
        except Refused as error:
            raise Refused(f"{path.name}, line {number}: {error}") from None
    try:
        return _workload(path, header or {}, tuple(agents))
    except Refused as error:
        raise Refused(f"{path.name}: {error}") from None


def _agent(agent: AgentScript) -> dict[str, object]:
    turns = [
        {
            "think_ms": turn.think_ms,
            "rounds": [[one.appended, one.output, one.tool, one.wait_ms] for one in turn.rounds],
        }
        for turn in agent.turns
    ]
    return {
        "agent": agent.name,
        "priority": agent.priority.label,
        "arrival_ms": agent.arrival_ms,
        "turns": turns,
    }


def _checked_header(value: Mapping[str, object]) -> Mapping[str, object]:
    version = value.get(MARK)
    if isinstance(version, bool) or not isinstance(version, int):
        raise Refused(f'the first line must be a header with "{MARK}": {VERSION}')
    if version < VERSION:
        raise Refused(f"there is no format {version}; this Parkdeck reads format {VERSION}")
    if version > VERSION:
        raise Refused(f"format {version} is newer than this Parkdeck knows ({VERSION}); update Parkdeck")
    return value


def _workload(path: Path, header: Mapping[str, object], agents: tuple[AgentScript, ...]) -> Workload:
    seed, scale, nominal = header.get("seed"), header.get("scale", 1.0), header.get("agents_nominal", 16)
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
        raise Refused(f"seed {seed!r} is not a whole number; give one, or null")
    if isinstance(scale, bool) or not isinstance(scale, int | float) or not 0 < scale <= 1e6:
        raise Refused(f"scale {scale!r} is not a number over 0")
    if isinstance(nominal, bool) or not isinstance(nominal, int) or not 1 <= nominal <= 256:
        raise Refused(f"agents_nominal {nominal!r} is not a whole number from 1 to 256")
    return Workload(
        str(header.get("name") or path.stem), agents, str(header.get("title") or ""), seed, float(scale), nominal
    )


def _parse_agent(value: Mapping[str, object]) -> AgentScript:
    _known(value, {"agent", "priority", "arrival_ms", "turns"})
    turns = value.get("turns")
    if not isinstance(turns, list):
        raise Refused("turns is missing or no list; give the agent's turns")
    return AgentScript(
        value.get("agent"),  # type: ignore[arg-type]
        _priority(value.get("priority", "background")),
        tuple(_parse_turn(turn) for turn in turns),
        value.get("arrival_ms", 0.0),  # type: ignore[arg-type]
    )


def _parse_turn(value: object) -> ScriptedTurn:
    if not isinstance(value, dict) or not isinstance(value.get("rounds"), list):
        raise Refused("a turn must be an object with a list of rounds")
    _known(value, {"think_ms", "rounds"})
    return ScriptedTurn(tuple(_parse_round(one) for one in value["rounds"]), value.get("think_ms", 0.0))


def _parse_round(value: object) -> Round:
    if not isinstance(value, list) or len(value) != 4:
        raise Refused(f"round {value!r} is not [appended tokens, output tokens, tool or null, wait in ms]")
    return Round(*value)


def _priority(value: object) -> Priority:
    for priority in Priority:
        if priority.label == value:
            return priority
    raise Refused(f"priority {value!r} is not known; choose foreground or background")


def _known(value: Mapping[str, object], names: set[str]) -> None:
    if unknown := sorted(set(value) - names):
        raise Refused(f"there is no field {unknown[0]!r}; the fields are {', '.join(sorted(names))}")
