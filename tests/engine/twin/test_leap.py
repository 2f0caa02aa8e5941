"""A run that leaps over its quiet boundaries is the run that stops at each: events, intervals, samples and tokens.

pytest tests/engine/twin/test_leap.py
"""

import contextlib
import math
from dataclasses import asdict, replace
from itertools import count
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import twin_body
from engine.body import Body
from engine.commands import Commands
from engine.errors import ParkdeckError
from engine.leap import Leaper
from engine.policies import policies
from engine.serving import Serving, Session
from engine.turn import Priority, TurnId, TurnRequest
from engine.twin.setup import TwinSetup, TwinSummary
from engine.twin.simulate import modelled_costs, simulate
from engine.twin_body import TwinConfig, card_knobs
from engine.virtual_clock import VirtualClock
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


ASKED = st.one_of(
    st.tuples(st.just("turn"), st.integers(1, 400), st.integers(1, 60), st.sampled_from(list(Priority))),
    st.tuples(st.just("knob"), st.sampled_from((("max_running", 2), ("max_running", 5), ("kv_dtype", "q8"),
                                                ("kv_dtype", "fp16"), ("policy", "recompute-only")))),
    st.tuples(st.just("cancel"), st.integers(1, 12)),
)  # fmt: skip


@settings(max_examples=25)
@given(asked=st.lists(st.tuples(st.integers(0, 150), ASKED), min_size=1, max_size=14), tokens=st.integers(600, 2000))
def test_who_asks_for_something_behind_a_host_is_heard_at_the_same_boundary(
    asked: list[tuple[int, tuple[Any, ...]]], tokens: int
) -> None:
    """As run.py has it: what is asked for once so many steps are done ends a leap before the next of them."""
    _, with_leaps = served(asked, tokens, leap=True)
    stepped, without = served(asked, tokens, leap=False)
    assert stepped == 0
    assert with_leaps.events == without.events
    assert with_leaps.intervals == without.intervals
    assert with_leaps.samples == without.samples


def test_a_leap_behind_a_host_ends_where_somebody_asks() -> None:
    turn = ("turn", 100, 50, Priority.BACKGROUND)
    alone, _ = served([(0, turn)], 2000, leap=True)
    disturbed, sink = served([(0, turn), (20, ("knob", ("max_running", 2)))], 2000, leap=True)
    assert 40 < alone < 50
    assert 30 < disturbed < alone
    assert next(event.step for event in sink.events if event.name == "max_running") == 20


def served(asked: list[tuple[int, tuple[Any, ...]]], tokens: int, *, leap: bool) -> tuple[int, Everything]:
    """An engine asked for these at these steps, until nothing is left to do; and how many boundaries were leapt."""
    clock, card, sink = VirtualClock(), small_card(tokens), Everything()
    backend = twin_body.twin_backend(card, TwinConfig("ceiling"), clock)
    body = Body(
        backend, twin_body.modelled_model(card, backend), modelled_costs(card, TwinConfig("ceiling")), None, clock
    )
    session = Session("s", card_knobs(card), 768, 0, "test", count(1))
    serving = Serving(session, body, clock, (sink,), lambda snapshot: None)
    serving.begin()
    leaper = Leaper(serving.core, serving.loop, backend)
    left = sorted(asked, key=lambda one: one[0])
    leapt = 0

    def due() -> bool:
        return bool(left) and left[0][0] <= serving.core.step

    def ask() -> None:
        while due():
            with contextlib.suppress(ParkdeckError):
                _ask(serving.commands, left.pop(0)[1], clock.now())

    while True:
        ticked = serving.boundary(ask)
        backend.check_integrity()
        if ticked.worked and leap and not due():
            leapt += leaper.over(serving.follow, math.inf, due)
        elif not ticked.worked and left:
            left[0] = (serving.core.step, left[0][1])
        elif not ticked.worked and ticked.wake_at is not None:
            clock.advance_to(ticked.wake_at)
        elif not ticked.worked:
            return leapt, sink


def _ask(commands: Commands, asked: tuple[Any, ...], now: float) -> None:
    match asked:
        case ("turn", prompt, output, priority):
            request = TurnRequest("agent", (7,) * prompt, output, priority=priority, ignore_eos=True)
            commands.submit(request, None, "test", now)
        case ("knob", (name, value)):
            commands.set_knobs({name: value}, "test")
        case ("cancel", number):
            commands.cancel(TurnId(number), "test")
