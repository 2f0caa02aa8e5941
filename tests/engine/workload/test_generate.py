"""The generator and the shipped files: the same as their seeds give, the stated quantiles, the stated b."""

import statistics

import pytest

from engine.turn import Priority
from engine.workload.format import dump_workload
from engine.workload.generate import SHIPPED, WAIT_MOST_S, generate
from engine.workload.player import Player
from engine.workload.readers import WORKLOADS, load_workload, nearest
from tests.engine.workload.fake_control import FakeControl, play


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_file_is_what_its_seed_gives(name: str) -> None:
    path = WORKLOADS / name
    assert path.read_text(encoding="utf-8") == dump_workload(generate(SHIPPED[name]))
    assert path.stat().st_size < 200_000
    assert load_workload(path) == generate(SHIPPED[name])


@pytest.mark.parametrize("name", SHIPPED)
def test_waits_have_the_published_quantiles(name: str) -> None:
    workload = generate(SHIPPED[name])
    rounds = [one for agent in workload.agents for turn in agent.turns for one in turn.rounds if one.tool is not None]
    waits = sorted(one.wait_ms / 1000 / workload.scale for one in rounds)
    assert statistics.median(waits) == pytest.approx(0.3, rel=0.1)
    assert waits[int(0.9 * len(waits))] == pytest.approx(13.6, rel=0.15)
    assert waits[-1] <= WAIT_MOST_S + 0.001


def test_sizes_and_priorities() -> None:
    workload = load_workload("swarm")
    foreground = [agent for agent in workload.agents if agent.priority is Priority.FOREGROUND]
    assert len(foreground) == 3
    assert all(turn.think_ms > 0 for agent in foreground for turn in agent.turns)
    peaks = [turn.peak_tokens for agent in load_workload("long-context").agents[:11] for turn in agent.turns]
    assert statistics.mean(peaks) == pytest.approx(2048, rel=0.05)


@pytest.mark.parametrize(("mean_context", "name"), [(768, "swarm"), (320, "swarm"), (6144, "full-card")])
def test_a_twin_plays_turns_about_as_long_as_its_cards(mean_context: float, name: str) -> None:
    assert nearest(mean_context) == name


@pytest.mark.parametrize("tokens_per_s", [12, 20])
def test_swarm_is_blocked_as_much_as_it_should_be(tokens_per_s: int) -> None:
    """The stand-in's 8 slots at 12 to 20 tok/s each, prefill 500 tok/s, ten minutes at speed 1."""
    workload = load_workload("swarm")
    control = FakeControl(step_s=lambda running: 1 / tokens_per_s)
    player = Player(control, workload)
    player.set_agents(workload.agents_nominal, 0.0)
    play(player, control, 600.0)
    assert player.status.blocked_fraction is not None
    assert 0.5 <= player.status.blocked_fraction <= 0.7
    truth = sum(turn.blocked_s for turn in control.ended) / sum(
        (turn.ended_at or 0.0) - turn.live_at for turn in control.ended
    )
    assert player.status.blocked_fraction == pytest.approx(truth, abs=0.06)
    assert control.context_seconds / control.turn_seconds == pytest.approx(768, rel=0.1)
