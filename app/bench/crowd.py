"""A load that keeps many turns alive at once: each agent works in short rounds, waits on tools in between and takes its
next turn at once; every other one is foreground. Turns end and begin all the time, and no chance is in it."""

from engine.turn import Priority
from engine.workload.script import AgentScript, Round, ScriptedTurn, Workload

PROMPT_TOKENS = 48
ROUND_TOKENS = 12
TOOL_TOKENS = 8
TOOL_MS = 4_000.0
ROUNDS = 4


def crowd_load(turns: int) -> Workload:
    """So many live turns. Raises Refused when they are none."""
    return Workload("crowd", tuple(map(_agent, range(turns))), agents_nominal=turns)


def _agent(number: int) -> AgentScript:
    priority = Priority.FOREGROUND if number % 2 else Priority.BACKGROUND
    rounds = [
        Round(TOOL_TOKENS if place else PROMPT_TOKENS + number % 32, ROUND_TOKENS, f"tool {number % 5}", TOOL_MS)
        for place in range(ROUNDS - 1)
    ]
    return AgentScript(f"crowd-{number + 1}", priority, (ScriptedTurn((*rounds, Round(TOOL_TOKENS, ROUND_TOKENS))),))
