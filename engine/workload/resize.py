"""A workload in other proportions: fewer rounds, shorter or longer turns. Pure; the same workload in, the same out."""

from dataclasses import replace

from engine.costs import Costs
from engine.workload.pace import pace_for
from engine.workload.script import AgentScript, Round, ScriptedTurn, Workload

SLOTS = 8
"""Turns that decode together, in `work_s`."""


def first_rounds(workload: Workload, rounds: int) -> Workload:
    """Of each agent as many whole turns from its first on as make `rounds` rounds, at least one; the first agent
    arrives at once."""
    first = min(agent.arrival_ms for agent in workload.agents)
    agents = (_first_rounds(agent, rounds, agent.arrival_ms - first) for agent in workload.agents)
    return replace(workload, agents=tuple(agents))


def sized(workload: Workload, tokens: float, times: float) -> Workload:
    """Every prompt, tool's result and output times `tokens`, rounded to at least one; every arrival, think time and
    tool's wait times `times`."""
    return replace(workload, agents=tuple(_sized(agent, tokens, times) for agent in workload.agents))


def stretched(workload: Workload, tokens: float, here: Costs, there: Costs) -> Workload:
    """Turns `tokens` times as long for an engine of other costs. Arrivals, think times and tools' waits take as much
    longer or shorter as the work does, so that engine and tools keep their proportion. `here`: the costs of the engine
    that plays it as it is; both find their own pace."""
    longer = sized(workload, tokens, 1.0)
    work = work_s(longer, there) / work_s(workload, here)
    return sized(longer, 1.0, work * pace_for(there, workload.scale) / pace_for(here, workload.scale))


def average_tokens(workload: Workload) -> float:
    """Context of a turn at the end of a round, on the mean over all rounds."""
    ends = [end for agent in workload.agents for turn in agent.turns for end in _ends(turn)]
    return sum(ends) / len(ends)


def work_s(workload: Workload, costs: Costs) -> float:
    """Engine seconds of all the rounds with nothing recomputed: prompts and results prefilled, outputs decoded in
    steps of SLOTS turns."""
    rounds = [one for agent in workload.agents for turn in agent.turns for one in turn.rounds]
    step = costs.decode_base_s + SLOTS * costs.decode_per_turn_s
    prefill = sum(one.appended for one in rounds) / costs.prefill_tokens_per_s
    return prefill + sum(one.output for one in rounds) * step / SLOTS


def _first_rounds(agent: AgentScript, rounds: int, arrival_ms: float) -> AgentScript:
    taken: list[ScriptedTurn] = []
    for turn in agent.turns:
        if sum(len(one.rounds) for one in taken) >= rounds:
            break
        taken.append(turn)
    return replace(agent, turns=tuple(taken), arrival_ms=arrival_ms)


def _sized(agent: AgentScript, tokens: float, times: float) -> AgentScript:
    turns = (
        ScriptedTurn(tuple(_round(one, tokens, times) for one in turn.rounds), turn.think_ms * times)
        for turn in agent.turns
    )
    return replace(agent, turns=tuple(turns), arrival_ms=agent.arrival_ms * times)


def _round(one: Round, tokens: float, times: float) -> Round:
    appended = max(1, round(one.appended * tokens)) if one.appended else 0
    return Round(appended, max(1, round(one.output * tokens)), one.tool, one.wait_ms * times)


def _ends(turn: ScriptedTurn) -> list[int]:
    ends, held = [], 0
    for one in turn.rounds:
        held += one.appended + one.output
        ends.append(held)
    return ends
