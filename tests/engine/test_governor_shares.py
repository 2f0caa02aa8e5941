"""Who gets how much: background under a flood, one long program among newcomers, three that do not fit together, and
how often two sets that do not fit together may change places."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.governor import BACKGROUND_SHARE, STARVE_AFTER_S, TIER_DWELL_S
from engine.knobs import Knobs
from engine.policies import policies
from engine.turn import Phase, Priority, Tier
from tests.engine.lab import STEP_S, Lab
from tests.engine.simulator import BLOCK, SimTurn, Simulator, knobs

FG, BG = Priority.FOREGROUND, Priority.BACKGROUND
POLICIES = st.sampled_from(sorted(policies()))
CYCLES = 3


@settings(max_examples=6)
@given(
    policy=POLICIES,
    slots=st.integers(1, 3),
    quantum=st.sampled_from([0.0, 0.25]),
    prompt=st.integers(1, 300),
    flood=st.tuples(st.integers(1, 200), st.integers(2, 60)),
    host_blocks=st.sampled_from([0, 100]),
)
def test_a_flood_of_foreground_leaves_background_a_twentieth_of_the_steps(
    policy: str, slots: int, quantum: float, prompt: int, flood: tuple[int, int], host_blocks: int
) -> None:
    """Over whole rounds of waiting and running: at least BACKGROUND_SHARE of the steps have a background turn in
    them."""
    sim = Simulator(
        blocks=120, host_blocks=host_blocks, knobs=Knobs(policy=policy, max_running=slots, min_quantum_s=quantum)
    )
    background = sim.submit(prompt, 100_000)
    assert background is not None
    ran = total = rounds = 0
    at_a_rounds_end = (0, 1)
    while rounds < CYCLES:
        while sum(t.priority is FG for t in sim.live) < slots + 2:
            sim.submit(*flood, FG)
        before = background.phase.running
        decision = sim.step()
        mine = any(work.turn == background.id for work in decision.plan.work)
        total += bool(decision.plan.work)
        ran += mine
        if before and not background.phase.running:
            rounds += 1
            at_a_rounds_end = ran, total
        assert sim.now < CYCLES * 3 * STARVE_AFTER_S
        if background.tokens > 1_500:
            break
    ran, total = at_a_rounds_end
    assert ran >= BACKGROUND_SHARE * total


@settings(max_examples=20)
@given(
    policy=POLICIES,
    sizes=st.lists(st.integers(100, 400), min_size=3, max_size=3),
    calls=st.lists(st.tuples(st.integers(1, 40), st.floats(0.0, 30.0), st.integers(0, 30)), min_size=1, max_size=6),
    priorities=st.lists(st.sampled_from([FG, BG]), min_size=3, max_size=3),
    host_blocks=st.sampled_from([0, 12, 100]),
    slots=st.integers(1, 4),
)
def test_three_agents_that_together_exceed_the_arena_always_finish(
    policy: str,
    sizes: list[int],
    calls: list[tuple[int, float, int]],
    priorities: list[Priority],
    host_blocks: int,
    slots: int,
) -> None:
    """Each takes `calls` in turn: so many tokens, then a tool that takes so long and returns so many. The arena holds
    the largest of them at its end and no more."""
    grown = sum(generate + result for generate, _, result in calls)
    blocks = max(-(-(size + grown + 2) // BLOCK) for size in sizes) + 1
    sim = Simulator(blocks=blocks, host_blocks=host_blocks, knobs=Knobs(policy=policy, max_running=slots))
    agents = [sim.submit(s, calls[0][0], p, "bash") for s, p in zip(sizes, priorities, strict=True)]
    turns = [turn for turn in agents if turn is not None]
    assert len(turns) == 3
    assert sum(-(-size // BLOCK) for size in sizes) > blocks
    done = dict.fromkeys([turn.id for turn in turns], 0)
    for _ in range(20_000):
        if not any(turn.live for turn in turns):
            break
        for turn in turns:
            _return_tools(sim, turn, calls, done)
        decision = sim.boundary()
        if not decision.plan.work:
            due = [t.phase_since + calls[done[t.id]][1] for t in turns if t.phase is Phase.BLOCKED]
            sim.now = max(sim.now, min([*due, *([decision.wake_at] if decision.wake_at else [])], default=sim.now))
    assert [turn.phase for turn in turns] == [Phase.DONE] * 3
    assert sim.free == sim.total
    assert sim.host_free == sim.host_bytes


def _return_tools(sim: Simulator, turn: SimTurn, calls: list[tuple[int, float, int]], done: dict[int, int]) -> None:
    if turn.phase is not Phase.BLOCKED:
        return
    _, takes, result = calls[done[turn.id]]
    if sim.now < turn.phase_since + takes:
        return
    done[turn.id] += 1
    more = calls[done[turn.id]] if done[turn.id] < len(calls) else None
    sim.unblock(turn, result, more[0] if more else 1, "bash" if more else None)


@pytest.mark.parametrize("policy", sorted(policies()))
@pytest.mark.parametrize("priority", [FG, BG])
def test_a_long_program_is_not_starved_by_newcomers(policy: str, priority: Priority) -> None:
    """One agent's turn, preempted by a person's, among newcomers of its priority without end: none of them goes ahead
    of it for good, and it ends."""
    sim = Simulator(blocks=60, host_blocks=60, knobs=knobs(max_running=2, policy=policy))
    program = sim.submit(500, 200, priority)
    assert program is not None
    rank = []
    while program.live:
        while sum(t.priority is priority for t in sim.live) < 8:
            sim.submit(40, 20, priority)
        if priority is BG and sim.steps % 50 == 25:
            sim.submit(30, 5, FG)
        sim.step()
        if program.phase is Phase.PAUSED:
            rank.append(sum(t.phase.running and t.arrived_at > program.arrived_at for t in sim.live))
        assert sim.now < 4 * STARVE_AFTER_S
    assert program.phase is Phase.DONE
    assert program.generated == 200


@pytest.mark.parametrize("host_blocks", [0, 8, 100])
@pytest.mark.parametrize("policy", sorted(policies()))
def test_two_sets_that_do_not_fit_together_change_places_at_most_once_a_dwell_for_each_turn(
    policy: str, host_blocks: int
) -> None:
    """Two pairs of background turns that take the arena by turns, as their tools answer in no time: each turn's changes
    of tier are TIER_DWELL_S apart, so n turns make at most n of them in any such time, half of them ways out."""
    sim = Simulator(blocks=30, host_blocks=host_blocks, knobs=knobs(max_running=2, policy=policy, min_quantum_s=0.0))
    changes: dict[int, list[float]] = {}
    tiers: dict[int, Tier] = {}
    while sim.now < 40.0:
        for turn in sim.in_phase(Phase.BLOCKED):
            if turn.tokens < 190:
                sim.unblock(turn, 0, 1, "bash")
            else:
                sim.cancel(turn)
        while len(sim.live) < 4:
            sim.submit(130, 1, BG, "bash")
        sim.step()
        for turn in sim.live:
            was = tiers.setdefault(turn.id, Tier.NONE)
            if turn.tier is not was and was is not Tier.NONE:
                changes.setdefault(turn.id, []).append(turn.tier_since)
            tiers[turn.id] = turn.tier
    assert all(later >= earlier + TIER_DWELL_S for own in changes.values() for earlier, later in pairwise(own))
    assert sum(map(len, changes.values())) > 20 or policy == "resident-only"


def test_on_a_real_backend_too_a_flood_leaves_background_a_twentieth_and_its_right_tokens() -> None:
    """Two rounds of waiting and running, on steps of a tenth of a second."""
    lab = Lab(arena_tokens=640, knobs=Knobs(max_running=1, min_quantum_s=0.0))
    background = lab.ask(60, 200)
    ran = total = rounds = 0
    while rounds < 2:
        while sum(turn.priority is FG for turn in lab.core.ledger) < 2:
            lab.ask(30, 25, salt=len(lab.prompts), priority=FG)
        before = lab.phase(background).running
        lab.tick()
        lab.lab_clock.at += 0.1 - STEP_S
        total += 1
        ran += any(work.turn == background for work in lab.loop.plan.work)
        rounds += before and not lab.phase(background).running
    assert ran >= BACKGROUND_SHARE * total
    assert total > 2 * STARVE_AFTER_S / 0.1
    lab.assert_right(background)
