"""A load that is the same at every moment: as many agents as slots, turns of one length in a closed loop, no tools and
no chance. The turns end one after another at equal distances, so that each stretch of one turn's tokens has the same
contexts and one prompt."""

from engine.turn import Priority
from engine.workload.script import AgentScript, Round, ScriptedTurn, Workload

AGENTS = 8
PROMPT_TOKENS = 128
TURN_TOKENS = 256
TURNS = 400
"""More than any run takes; an agent that has taken them all starts with its short one again."""


def steady_load() -> Workload:
    return Workload("steady", tuple(map(_agent, range(AGENTS))), agents_nominal=AGENTS)


def _agent(number: int) -> AgentScript:
    first = TURN_TOKENS * (number + 1) // AGENTS
    turns = (_turn(first), *(_turn(TURN_TOKENS) for _ in range(TURNS)))
    return AgentScript(f"steady-{number + 1}", Priority.BACKGROUND, turns)


def _turn(tokens: int) -> ScriptedTurn:
    return ScriptedTurn((Round(PROMPT_TOKENS, tokens),))
