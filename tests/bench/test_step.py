"""The step bench over the scripted executor, its views and its targets; and what a boundary may cost, counted."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import psutil
import pytest

from app.bench import step_start
from app.bench.report import MET, MISSED, Bench
from app.bench.step import lost_core, report_busy, report_starts, report_steps
from app.bench.step_busy import Burners
from app.bench.step_crowd import CASES, COSTS, NOW, crowd, decide_seconds
from app.bench.step_deck import RUNNING, Deck
from app.bench.step_parts import EXECUTOR, KERNELS, OUTSIDE, SNAPSHOT, Iteration
from app.bench.step_start import Start
from engine.body import Body, BodyConfig, Report
from engine.errors import Refused
from engine.governor import decide
from engine.knobs import Knobs
from engine.loop import Loop
from engine.policies import policies
from engine.turn import Phase, Tier
from tests.engine.lab import fake_body

ARENA = 24_576


def opened(config: BodyConfig, report: Report) -> Body:
    return fake_body(ARENA, 4096)


def test_parts_add_up_to_the_step_and_are_put_back() -> None:
    real = vars(Loop)["tick"]
    with Deck("torch", open_body=opened, arena_tokens=ARENA) as deck:
        assert vars(Loop)["tick"] is not real
        deck.run_eight()
        steps = deck.steps(20)
    assert vars(Loop)["tick"] is real
    assert all(step.decoded == RUNNING for step in steps)
    assert all(step.parts[KERNELS] > 0 and EXECUTOR not in step.parts for step in steps)
    for step in steps:
        assert 0 <= step.outside - sum(step.parts.get(part, 0.0) for part in OUTSIDE) <= step.wall
    assert any(SNAPSHOT in step.parts for step in steps)


def test_parked_turns_stand_in_all_phases_beside_eight_that_run() -> None:
    with Deck("torch", open_body=opened, arena_tokens=ARENA) as deck:
        deck.run_eight()
        deck.park(8)
        deck.steps(3)
        turns = deck.host.snapshot.turns
    phases = Counter(turn.phase for turn in turns)
    assert phases == {Phase.DECODE: RUNNING, Phase.BLOCKED: 4, Phase.PAUSED: 2, Phase.WAITING: 2}
    assert {turn.tier for turn in turns} == {Tier.RESIDENT, Tier.HOST, Tier.DROPPED, Tier.NONE}


def test_a_crowd_has_all_phases_and_its_blocks_add_up() -> None:
    for case in CASES:
        view = crowd(200, case, 1)
        assert {turn.phase for turn in view.turns} == {Phase.DECODE, Phase.WAITING, Phase.PAUSED, Phase.BLOCKED}
        assert {turn.tier for turn in view.turns} == set(Tier)
        assert view.memory.blocks_total == case.free + sum(turn.blocks for turn in view.turns)
        assert len(decide_seconds(20, case, "walk-down", 2, 1)) == 2
    assert crowd(50, CASES[0], 3) == crowd(50, CASES[0], 3)


def iteration(outside_ms: float) -> Iteration:
    return Iteration(0.02 + outside_ms / 1e3, {KERNELS: 0.02}, RUNNING, 0)


@pytest.mark.parametrize(("outside_ms", "status"), [(2.9, MET), (3.1, MISSED)])
def test_a_step_is_held_against_its_target(outside_ms: float, status: int) -> None:
    bench = Bench("step")
    report_steps(bench, "8 turns", [iteration(outside_ms)] * 5)
    assert bench.status == status


def test_a_busy_process_may_take_a_core_and_a_second_start_compiles_nothing() -> None:
    assert (lost_core(1), lost_core(2), lost_core(4)) == (2.0, 2.0, pytest.approx(4 / 3))
    for beside, compiled, status in ((0.04, 0, MET), (0.05, 0, MISSED), (0.04, 1, MISSED)):
        bench = Bench("step")
        report_busy(bench, 2, {0: [0.02, 0.02], 1: [beside, beside], 2: [0.09, 0.09]})
        report_starts(bench, [Start(40, 80, 30.0), Start(compiled, 0, 4.0)])
        assert bench.status == status


def test_a_start_that_takes_too_long_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_start, "MOST_S", 0.01)
    with pytest.raises(Refused, match=r"took longer than 0\.01 s"):
        step_start.start_over(tmp_path, "torch")


def test_burners_burn_only_while_they_run() -> None:
    with Burners(1) as burners:
        burners.run(1)
        while burners.cpu_seconds() < 0.02:
            pass
        burners.run(0)
        held = [burners.cpu_seconds() for _ in range(200)]
    assert held[-1] - held[50] < 0.02


def test_a_burner_that_is_held_ends_with_a_bench_that_is_killed() -> None:
    script = "import app.bench.step_busy as b, time; f = b.Burners(1); print(f.pids[0], flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as bench:
        assert bench.stdout is not None
        burner = psutil.Process(int(bench.stdout.readline()))
        bench.kill()
    while burner.is_running() and burner.status() != psutil.STATUS_ZOMBIE:
        pass


def test_a_boundary_asks_the_policy_once_where_nobody_lacks_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted, not timed: with room for all, no boundary sorts what is parked or asks again."""
    asked = Counter[str]()
    for policy in policies().values():
        real = type(policy).relieve

        def relieve(self: object, situation: object, real: object = real, name: str = policy.name) -> object:
            asked[name] += 1
            return real(self, situation)  # type: ignore[operator]

        monkeypatch.setattr(type(policy), "relieve", relieve)
    for policy_name in policies():
        decide(crowd(500, CASES[0], 2), Knobs(policy=policy_name), COSTS, NOW)
    assert asked == dict.fromkeys(policies(), 1)
