"""Who runs: order, preemption, quantum, aging (S3, S4). Every step is also checked by the simulator."""

import pytest

from engine.governor import STARVE_AFTER_S
from engine.policies import policies
from engine.turn import Phase, Priority, Tier
from engine.view import Preempt, Reason, Start
from tests.engine.simulator import SimTurn, Simulator, knobs, put

FG, BG = Priority.FOREGROUND, Priority.BACKGROUND


def add(sim: Simulator, prompt: int, generate: int, priority: Priority = BG, tool: str | None = None) -> SimTurn:
    turn = sim.submit(prompt, generate, priority, tool)
    assert turn is not None
    return turn


def test_foreground_takes_a_slot_at_the_next_boundary() -> None:
    sim = Simulator(blocks=400, knobs=knobs(max_running=2, min_quantum_s=0.0))
    background = [add(sim, 300, 200), add(sim, 310, 200)]
    sim.run(20)
    person = add(sim, 8, 10, FG)
    decision = sim.step()
    assert decision.actions == (Preempt(background[1].id, person.id, Reason.ADMISSION), Start(person.id))
    assert person.first_token_at is not None
    assert all(t.live for t in background)
    sim.drain(2000)
    assert [t.generated for t in (*background, person)] == [200, 200, 10]
    assert background[1].recomputed == 0


def test_several_foreground_turns_preempt_several_the_longest_first_ties_by_id() -> None:
    sim = Simulator(blocks=400, knobs=knobs(max_running=4, prefill_chunk=256))
    background = [add(sim, n, 200) for n in (40, 90, 60, 90)]
    sim.run(8)
    people = [add(sim, 8, 4, FG) for _ in range(3)]
    preempted = [a.turn for a in sim.step().actions if isinstance(a, Preempt)]
    assert preempted == [background[1].id, background[3].id, background[2].id]
    assert all(t.phase.running for t in people)


@pytest.mark.parametrize("priority", [FG, BG])
def test_equals_never_preempt_each_other(priority: Priority) -> None:
    sim = Simulator(blocks=60, host_blocks=20, knobs=knobs(max_running=2))
    for n in range(6):
        add(sim, 50 + 40 * n, 60, priority)
    sim.drain(5000)
    assert sim.counts["preemptions"] == 0


def test_a_resumed_turn_keeps_its_slot_for_the_quantum() -> None:
    sim = Simulator(blocks=400, knobs=knobs(max_running=1, min_quantum_s=0.5))
    background = add(sim, 100, 500)
    sim.run(5)
    add(sim, 8, 3, FG)
    while background.resumed_at is None:
        sim.step()
    person = add(sim, 8, 3, FG)
    sim.step()
    assert background.phase is Phase.DECODE
    while not person.phase.running:
        sim.step()
    assert background.phase is Phase.PAUSED
    assert background.phase_since >= background.resumed_at + 0.5


def test_a_preempted_turn_keeps_its_place() -> None:
    sim = Simulator(blocks=400, knobs=knobs(max_running=1))
    first = add(sim, 100, 120)
    sim.run(52)
    person = add(sim, 20, 30, FG)
    sim.step()
    assert first.phase is Phase.PAUSED
    later = [add(sim, 30, 5) for _ in range(10)]
    while person.live:
        sim.step()
    sim.step()
    assert first.phase.running
    sim.drain(3000)
    assert first.recomputed <= first.tokens
    assert min(t.first_token_at or 0.0 for t in later) > first.phase_since - 1e-9


def test_a_moved_turn_keeps_its_slot_free_while_it_dwells() -> None:
    """Newcomers must not overtake a preempted turn that had to leave the arena a moment ago."""
    sim = Simulator(blocks=40, host_blocks=100, knobs=knobs(max_running=1, prefill_chunk=512))
    first = add(sim, 300, 60)
    sim.run(5)
    person = add(sim, 500, 2, FG)
    sim.step()
    assert first.tier is Tier.HOST
    newcomer = add(sim, 20, 5)
    while person.live:
        sim.step()
    assert sim.now < first.tier_since + 1.0
    decision = sim.step()
    assert not decision.plan.work
    assert decision.wake_at == first.tier_since + 1.0
    sim.step()
    assert first.phase.running
    assert newcomer.phase is Phase.WAITING


@pytest.mark.parametrize("slots", [1, 3])
@pytest.mark.parametrize("policy", [name for name in policies() if name != "resident-only"])
def test_background_gets_its_minimum_share_under_foreground_without_end(slots: int, policy: str) -> None:
    """A starving turn takes the next slot that comes free and keeps it for its prefill, the quantum and a share of its
    wait."""
    sim = Simulator(blocks=60, host_blocks=60, knobs=knobs(max_running=slots, policy=policy, min_quantum_s=0.3))
    background = add(sim, 400, 150)
    shares, gaps, waited_from = 0, [], sim.now
    longest = 25 * 0.1
    while background.live:
        while sum(t.priority is FG for t in sim.live) < slots + 2:
            add(sim, 30, 25, FG)
        before = background.phase.running
        sim.step()
        if background.phase.running and not before:
            shares += 1
            gaps.append(sim.now - waited_from)
        if before and background.phase is Phase.PAUSED:
            assert background.generated > 0
            waited_from = sim.now
        assert sim.steps < 30_000
    assert background.generated == 150
    assert shares >= 2
    assert max(gaps) <= STARVE_AFTER_S + longest


def test_only_one_starving_turn_at_a_time_goes_ahead_of_people() -> None:
    sim = Simulator(blocks=400, knobs=knobs(max_running=2, min_quantum_s=5.0))
    people = [add(sim, 20, 30, FG) for _ in range(2)]
    sim.step()
    starved = [add(sim, 20, 30) for _ in range(5)]
    sim.now += STARVE_AFTER_S + 1
    waiting = [add(sim, 20, 30, FG) for _ in range(4)]
    while all(t.live for t in people):
        sim.step()
    sim.run(5)
    assert [t.phase.running for t in starved] == [True, False, False, False, False]
    assert sum(t.phase.running for t in waiting) == 1


def test_background_waits_behind_foreground_until_it_starves() -> None:
    sim = Simulator(blocks=400, knobs=knobs(max_running=1))
    add(sim, 20, 3, FG)
    background, person = add(sim, 20, 3), add(sim, 20, 3, FG)
    sim.drain(100)
    assert (person.first_token_at or 0) < (background.first_token_at or 0)


def test_fewer_slots_take_them_from_background_first_then_the_latest_foreground() -> None:
    sim = Simulator(blocks=400, knobs=knobs(max_running=5, prefill_chunk=256))
    turns = [add(sim, 60, 90), add(sim, 90, 90), *(add(sim, 20 + n, 90, FG) for n in range(3))]
    sim.run(10)
    sim.set_knobs(max_running=2)
    decision = sim.step()
    preempted = [a.turn for a in decision.actions if isinstance(a, Preempt)]
    assert preempted == [turns[1].id, turns[0].id, turns[4].id]
    assert not any(isinstance(a, Start) for a in decision.actions)


def test_a_turn_held_by_the_operator_wants_no_slot() -> None:
    sim = Simulator(blocks=40, host_blocks=40, knobs=knobs(max_running=2))
    held = add(sim, 300, 20)
    sim.run(8)
    sim.pause(held)
    other = add(sim, 500, 20)
    sim.now += 2
    while other.live:
        sim.step()
    assert held.tier is Tier.HOST, "held turns leave under pressure"
    decision = sim.step()
    assert not decision.plan.work
    assert decision.stalled is None
    sim.resume(held)
    sim.drain(500)
    assert held.phase is Phase.DONE


def test_a_preempted_turn_goes_before_one_that_came_later_and_waited_longer() -> None:
    sim = Simulator(blocks=400, knobs=knobs(max_running=1))
    first = add(sim, 100, 60)
    sim.run(5)
    later = add(sim, 30, 5)
    sim.step()
    person = add(sim, 20, 5, FG)
    while person.live:
        sim.step()
    assert first.queued_since > later.queued_since
    sim.step()
    assert first.phase.running
    assert later.phase is Phase.WAITING


def test_a_second_starving_turn_waits_until_the_first_has_had_its_share() -> None:
    sim = Simulator(blocks=400, knobs=knobs(max_running=3, min_quantum_s=5.0))
    people = [add(sim, 20, n, FG) for n in (20, 40, 90)]
    sim.step()
    starved = [add(sim, 20, 200) for _ in range(3)]
    sim.now += STARVE_AFTER_S + 1
    waiting = [add(sim, 20, 30, FG) for _ in range(4)]
    while people[1].live:
        sim.step()
    sim.run(2)
    assert [t.phase.running for t in starved] == [True, False, False]
    assert sim.counts["preemptions"] == 0
    assert any(t.phase.running for t in waiting)


def test_nobody_passes_a_starving_turn_that_lacks_room() -> None:
    """The slots are free and people come without end; the big turn gets its room because no more of them start."""
    sim = Simulator(blocks=40, host_blocks=40, knobs=knobs(max_running=8, prefill_chunk=256))
    add(sim, 100, 30, FG)
    sim.step()
    big = add(sim, 560, 4)
    while big.live and sim.now < 2 * STARVE_AFTER_S:
        while sum(t.priority is FG for t in sim.live) < 6:
            add(sim, 100, 30, FG)
        sim.step()
    assert big.phase is Phase.DONE


def test_a_person_passes_a_starving_turn_by_taking_the_room_of_background() -> None:
    sim = Simulator(blocks=40, host_blocks=40, knobs=knobs(max_running=4, min_quantum_s=0.0), now=50.0)
    runner = put(sim, 200, BG, Phase.DECODE, queued_since=40.0, phase_since=45.0)
    starved = put(sim, 600, BG, Phase.WAITING, tier=Tier.NONE, kv=0, blocks=0, queued_since=20.0)
    person = add(sim, 50, 5, FG)
    assert sim.step().actions == (Preempt(runner.id, person.id, Reason.ADMISSION), Start(person.id))
    assert starved.phase is Phase.WAITING


def test_a_person_does_not_wait_for_the_dwell_of_others_when_nobody_runs() -> None:
    sim = Simulator(blocks=40, host_blocks=40, knobs=knobs(), now=50.0)
    put(sim, 500, BG, Phase.BLOCKED, tier_since=49.5)
    put(sim, 400, BG, Phase.WAITING, tier=Tier.NONE, kv=0, blocks=0, queued_since=20.0)
    person = add(sim, 50, 5, FG)
    sim.step()
    assert person.phase.running


def test_preemption_gives_back_what_was_promised() -> None:
    """Also where nothing is moved: 16 of the 26 free blocks were promised to the one that loses its slot."""
    sim = Simulator(blocks=30, knobs=knobs(policy="resident-only"))
    background = add(sim, 300, 5)
    sim.step()
    people = [add(sim, 200, 5, FG), add(sim, 130, 5, FG)]
    sim.step()
    assert background.phase is Phase.PAUSED
    assert all(t.phase.running for t in people)
