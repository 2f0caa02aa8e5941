"""A workload in other proportions.

pytest tests/engine/workload/test_resize.py
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.costs import Costs
from engine.turn import Priority
from engine.workload.readers import load_workload, shipped
from engine.workload.resize import average_tokens, first_rounds, sized, work_s
from engine.workload.script import AgentScript, Round, ScriptedTurn, Workload

TURN = ScriptedTurn((Round(40, 10, "bash", 500.0), Round(0, 6, "grep", 20.0), Round(8, 4)), 300.0)
TWO = Workload(
    "two",
    (
        AgentScript("a", Priority.FOREGROUND, (TURN, TURN, TURN), 700.0),
        AgentScript("b", Priority.BACKGROUND, (ScriptedTurn((Round(100, 10),)),) * 5, 900.0),
    ),
)


def test_whole_turns_are_kept_until_there_are_enough_rounds() -> None:
    cut = first_rounds(TWO, 4)
    assert [len(agent.turns) for agent in cut.agents] == [2, 4]
    assert [agent.arrival_ms for agent in cut.agents] == [0.0, 200.0]
    assert [len(agent.turns) for agent in first_rounds(TWO, 1).agents] == [1, 1]
    assert [len(agent.turns) for agent in first_rounds(TWO, 99).agents] == [3, 5]


def test_tokens_and_times_have_a_factor_each() -> None:
    turn = sized(TWO, 0.25, 0.5).agents[0].turns[0]
    assert turn == ScriptedTurn((Round(10, 2, "bash", 250.0), Round(0, 2, "grep", 10.0), Round(2, 1)), 150.0)
    assert sized(TWO, 1.0, 1.0) == TWO


def test_average_is_over_the_ends_of_rounds() -> None:
    assert average_tokens(TWO) == pytest.approx((3 * (50 + 56 + 68) + 5 * 110) / 14)


def test_work_is_prefill_and_shared_decode_steps() -> None:
    costs = Costs(1e9, 1e9, 100.0, 0.04, 0.005)
    appended, output = 3 * 48 + 5 * 100, 3 * 20 + 5 * 10
    assert work_s(TWO, costs) == pytest.approx(appended / 100.0 + output * 0.08 / 8)


@settings(max_examples=30, derandomize=True)
@given(st.sampled_from(shipped()), st.floats(0.05, 20.0), st.floats(0.01, 10.0))
def test_a_resized_workload_has_the_same_rounds_and_its_average_in_proportion(
    name: str, tokens: float, times: float
) -> None:
    workload = load_workload(name)
    other = sized(workload, tokens, times)
    assert [len(t.rounds) for a in other.agents for t in a.turns] == [
        len(t.rounds) for a in workload.agents for t in a.turns
    ]
    assert average_tokens(other) == pytest.approx(average_tokens(workload) * tokens, rel=0.05, abs=12)
    waits = [sum(t.wait_ms for a in one.agents for t in a.turns) for one in (workload, other)]
    assert waits[1] == pytest.approx(waits[0] * times)
