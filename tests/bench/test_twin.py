"""The twin's bench: predicted figures against measured ones, with a modelled engine in the real one's place.

pytest tests/bench/test_twin.py
"""

from dataclasses import replace

from app.bench.report import MET, MISSED, Bench
from app.bench.twin import report, workload_of
from engine.cards.store import load_card
from engine.twin.simulate import simulate
from engine.twin_body import TwinConfig
from tests.engine.twin.small import small_setup

SUMMARY = simulate(small_setup(arena_tokens=800))


def reported(**measured: object) -> Bench:
    bench = Bench("twin")
    report(bench, load_card("rx9070xt"), SUMMARY, replace(SUMMARY, **measured))  # type: ignore[arg-type]
    return bench


def test_the_same_run_meets_every_target() -> None:
    bench = reported()
    assert bench.status == MET
    assert [target.name.split(":")[0] for target in bench.targets] == [
        "makespan", "TTFT p50", "preemptions", "swaps out", "swapped MiB",
    ]  # fmt: skip
    assert {row["figure"] for row in bench.rows} >= {"makespan, s", "TTFT p95, s", "preemptions", "swapped, MiB"}


def test_a_fifth_off_is_allowed_and_more_is_not() -> None:
    assert SUMMARY.makespan_s is not None
    assert reported(makespan_s=SUMMARY.makespan_s / 1.19).status == MET
    assert reported(makespan_s=SUMMARY.makespan_s / 1.21).status == MISSED


def test_counts_may_be_five_off_whatever_they_are() -> None:
    assert reported(preemptions=SUMMARY.preemptions + 5).status == MET
    few = replace(SUMMARY, preemptions=3)
    bench = Bench("twin")
    report(bench, load_card("rx9070xt"), few, replace(few, preemptions=9))
    assert bench.status == MISSED


def test_its_agents_overflow_the_arena_that_they_are_made_for() -> None:
    workload = workload_of(2)
    assert len(workload.agents) == 16
    longest = max(turn.peak_tokens for agent in workload.agents for turn in agent.turns)
    assert 320 < longest < 1_000
    setup = replace(small_setup(arena_tokens=3_328), workload=workload, twin=TwinConfig("ceiling"))
    assert simulate(setup).swaps_out > 5
