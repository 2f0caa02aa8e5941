"""Speed 1 blocks as large a part of the time on an engine of another speed."""

import pytest

from engine.costs import Costs
from engine.workload.pace import SLOWEST, pace_for
from engine.workload.player import Player
from engine.workload.readers import load_workload
from tests.engine.workload.fake_control import FakeControl, play


def costs(prefill: float, base: float, per_turn: float = 0.0) -> Costs:
    return Costs(1e9, 1e9, prefill, base, per_turn)


def test_one_on_the_standin_and_bounded() -> None:
    assert pace_for(None, 2.6) == 1.0
    assert pace_for(costs(500, 1 / 15), 2.6) == pytest.approx(1.0)
    assert pace_for(costs(250, 1 / 15, 1 / 120), 2.6) == pytest.approx(0.5)
    assert pace_for(costs(1e6, 1e-3), 2.6) == 2.6
    assert pace_for(costs(0.01, 1e3), 2.6) == SLOWEST
    assert pace_for(costs(0.0, 0.0), 2.6) == 1.0


@pytest.mark.parametrize(("prefill", "step_s"), [(160, 1 / 8), (300, 1 / 15), (900, 1 / 25)])
def test_blocked_fraction_holds_on_slower_and_faster_engines(prefill: float, step_s: float) -> None:
    workload = load_workload("swarm")
    control = FakeControl(step_s=lambda running: step_s, prefill_rate=prefill, costs=costs(prefill, step_s))
    player = Player(control, workload)
    player.set_agents(workload.agents_nominal, 0.0)
    play(player, control, 600.0 / pace_for(control.costs, workload.scale))
    assert player.status.pace == pace_for(control.costs, workload.scale)
    assert player.status.blocked_fraction is not None
    assert 0.5 <= player.status.blocked_fraction <= 0.7
