"""A run that leaps over its quiet boundaries is the run that stops at each: events, intervals, samples and tokens.

pytest tests/engine/twin/test_leap.py
"""

from dataclasses import asdict, replace
from typing import ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import twin_body
from engine.policies import policies
from engine.turn import TurnId
from engine.twin.setup import TwinSetup, TwinSummary
from engine.twin.simulate import simulate
from engine.twin_body import TwinConfig
from tests.engine.twin.small import Everything, Listening, small_card, small_setup, small_workload

FRACTIONS = st.sampled_from((0.05, 0.4, 0.7, 0.9, 1.0))


@st.composite
def setups(draw: st.DrawFn) -> TwinSetup:
    low, high = sorted((draw(FRACTIONS), draw(FRACTIONS)))
    knobs = {
        "policy": draw(st.sampled_from(sorted(policies()))),
        "kv_dtype": draw(st.sampled_from(("fp16", "q8"))),
        "low_watermark": low,
        "high_watermark": high,
        "long_turn_tokens": draw(st.sampled_from((40, 300, 5000))),
        "max_running": draw(st.integers(1, 6)),
        "min_quantum_s": draw(st.sampled_from((0.0, 0.25, 3.0))),
        "prefill_chunk": draw(st.sampled_from((16, 64, 256))),
        "abandon_after_s": draw(st.sampled_from((0.5, 3.0, 900.0))),
        "host_pool_bytes": draw(st.sampled_from((0, 100 << 20, 10 << 30))),
        "swap-on-block.margin": draw(st.sampled_from((0.0, 2.0, 40.0))),
        "min-waste.overlap": draw(st.sampled_from((0.0, 90.0))),
        "ttl.samples": draw(st.sampled_from((8.0, 100.0))),
    }
    seed = draw(st.integers(0, 10_000))
    foreground = draw(st.sampled_from((0.0, 0.3, 1.0)))
    return TwinSetup(
        card=small_card(draw(st.integers(700, 3000)), link_gb_per_s=draw(st.sampled_from((0.2, 5.0, 50.0)))),
        workload=small_workload(seed, agents=draw(st.integers(1, 14)), foreground=foreground),
        twin=TwinConfig("ceiling", overlap=draw(st.booleans())),
        knobs=tuple(knobs.items()),
        hours=draw(st.sampled_from((None, 0.01, 0.03))),
        speed=draw(st.sampled_from((0.3, 1.0, 5.0))),
        seed=seed,
    )


def run(setup: TwinSetup) -> tuple[TwinSummary, Everything, list[tuple[float, TurnId, int]]]:
    class Heard(Listening):
        kept: ClassVar[list[tuple[float, TurnId, int]]] = []

    sink = Everything()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(twin_body, "TwinBackend", Heard)
        return simulate(setup, sinks=[sink]), sink, Heard.kept


def figures(summary: TwinSummary) -> dict[str, object]:
    return {name: value for name, value in asdict(summary).items() if name not in ("wall_s", "leapt")}


@settings(max_examples=25)
@given(setup=setups())
def test_the_same_seed_with_and_without_leaps_is_the_same_run(setup: TwinSetup) -> None:
    leapt, leaping, said = run(setup)
    stepped, stepping, says = run(replace(setup, leap=False))
    assert stepped.leapt == 0
    assert said == says
    assert leaping.events == stepping.events
    assert leaping.intervals == stepping.intervals
    assert leaping.samples == stepping.samples
    assert figures(leapt) == figures(stepped)


def test_most_steps_of_a_quiet_run_are_leapt_over() -> None:
    summary, _, _ = run(small_setup(arena_tokens=8_000))
    assert summary.leapt > 0.6 * summary.steps


def test_a_run_under_pressure_leaps_too_and_moves_turns() -> None:
    summary, sink, _ = run(small_setup(arena_tokens=900, hours=0.05))
    assert 0 < summary.leapt < summary.steps
    assert summary.swaps_out > 0
    assert sink.intervals
