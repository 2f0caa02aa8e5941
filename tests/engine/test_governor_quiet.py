"""Between two instants that the governor names, time alone changes none of its answers.

pytest tests/engine/test_governor_quiet.py
"""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings

import engine.loop
from engine.costs import Costs
from engine.governor import decide, quiet_until
from engine.knobs import Knobs
from engine.turn import Phase, Priority
from engine.twin.setup import TwinSetup
from engine.twin.simulate import simulate
from engine.view import Decision, View
from tests.engine.simulator import Simulator, knobs, put
from tests.engine.twin.test_leap import setups

FG, BG = Priority.FOREGROUND, Priority.BACKGROUND


@settings(max_examples=12)
@given(setup=setups())
def test_the_answer_is_the_same_until_the_instant_that_is_named(setup: TwinSetup) -> None:
    """At every boundary of a whole run at which somebody runs and nothing is decided."""
    checked = 0

    def held(view: View, knobs: Knobs, costs: Costs, now: float) -> Decision:
        nonlocal checked
        decision = decide(view, knobs, costs, now)
        if decision.plan.work and not decision.actions:
            named = math.inf if decision.next_at is None else decision.next_at
            until = min(quiet_until(view, knobs, now), named, now + 1000.0)
            late = decide(view, knobs, costs, math.nextafter(until, -math.inf))
            assert (late.actions, late.plan, late.evicting) == ((), decision.plan, decision.evicting)
            checked += 1
        return decision

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine.loop, "decide", held)
        summary = simulate(replace(setup, leap=False))
    assert checked or summary.steps < 50


def view_of(*waiting: Priority) -> tuple[View, Knobs, float]:
    """One background turn runs in one of two slots, the others wait."""
    sim = Simulator(100, knobs=knobs(max_running=2))
    put(sim, 40, BG, Phase.DECODE, phase_since=sim.now)
    for priority in waiting:
        put(sim, 40, priority, Phase.WAITING, queued_since=sim.now, blocks=0, kv=0)
    return sim.view(), sim.knobs, sim.now


def test_with_a_free_slot_the_first_that_will_starve_is_named() -> None:
    view, asked, now = view_of(BG)
    assert quiet_until(view, replace(asked, min_quantum_s=0.0), now) == pytest.approx(now + 20.0)
    assert quiet_until(view, replace(asked, min_quantum_s=3.0), now) == pytest.approx(now + 3.0)


def test_with_all_slots_taken_a_wait_of_background_names_nothing() -> None:
    view, asked, now = view_of(BG)
    assert quiet_until(view, replace(asked, max_running=1), now) == math.inf
    view, asked, now = view_of(FG)
    assert quiet_until(view, replace(asked, max_running=1), now) < math.inf
