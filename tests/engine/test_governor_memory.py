"""Where KV lives: room, growth, watermarks, stalls, abandoned turns (S5, S6, W4, W9)."""

import pytest

from engine.errors import BadKnob
from engine.governor import FAIL_AFTER, decide
from engine.policies import policies
from engine.turn import Phase, Priority, Tier
from engine.view import Drop, Fail, Preempt, Reason, Start, SwapIn, SwapOut
from tests.engine.simulator import BLOCK, COSTS, SimTurn, Simulator, knobs, put

FG, BG = Priority.FOREGROUND, Priority.BACKGROUND
POLICIES = list(policies())


def add(sim: Simulator, prompt: int, generate: int, priority: Priority = BG, tool: str | None = None) -> SimTurn:
    turn = sim.submit(prompt, generate, priority, tool)
    assert turn is not None
    return turn


def until_blocked(sim: Simulator, *turns: SimTurn) -> None:
    while any(t.phase is not Phase.BLOCKED for t in turns):
        sim.step()


# -- S6: large turns ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", POLICIES)
def test_prompts_around_the_capacity_end_and_block_nobody(policy: str) -> None:
    capacity = 40 * BLOCK
    for prompt in range(capacity - 20, capacity + 3):
        sim = Simulator(blocks=40, knobs=knobs(policy=policy))
        big, small = sim.submit(prompt, 16), sim.submit(5, 4)
        assert (big is None) == (prompt >= capacity)
        sim.drain(400)
        assert small is not None
        assert small.generated == 4
        if big is not None:
            assert big.phase is Phase.DONE
            assert big.generated == min(16, capacity - prompt)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_growing_turn_ends_alone_at_the_capacity(policy: str) -> None:
    sim = Simulator(blocks=40, knobs=knobs(policy=policy))
    growing, other = add(sim, 100, 10_000), add(sim, 100, 50)
    sim.drain(3000)
    assert growing.tokens == 40 * BLOCK
    assert other.generated == 50


def test_a_context_that_fills_the_arena_exactly_runs_once_more() -> None:
    """The last token's KV is there to compute and no block beyond: this must plan, not fail."""
    sim = Simulator(blocks=8)
    turn = add(sim, 8 * BLOCK - 1, 50)
    turn.tokens += 1
    sim.run(1)
    assert turn.phase is Phase.PREFILL
    assert turn.error is None


def test_a_turn_larger_than_the_arena_fails_with_the_sizes() -> None:
    sim = Simulator(blocks=8)
    turn, small = add(sim, 100, 50), add(sim, 20, 4)
    turn.tokens = 130
    sim.drain(200)
    assert turn.phase is Phase.FAILED
    assert turn.error is not None
    assert "130" in turn.error
    assert "128" in turn.error
    assert small.generated == 4


def test_a_big_turn_is_not_passed_for_ever_by_small_ones() -> None:
    sim = Simulator(blocks=40, knobs=knobs(max_running=8))
    add(sim, 200, 60)
    sim.run(5)
    big = add(sim, 560, 4)
    for _ in range(400):
        if sum(t.tokens < 100 for t in sim.live) < 6:
            add(sim, 40, 6)
        sim.step()
        if not big.live:
            break
    assert big.phase is Phase.DONE


def test_whole_context_is_reserved_not_the_first_chunk() -> None:
    sim = Simulator(blocks=40, knobs=knobs(max_running=8, prefill_chunk=16))
    first, second = add(sim, 400, 4), add(sim, 400, 4)
    sim.step()
    assert first.phase.running
    assert second.phase is Phase.WAITING


# -- growth -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [name for name in POLICIES if name != "resident-only"])
def test_growth_moves_parked_turns_then_preempts_background_then_the_latest_foreground(policy: str) -> None:
    sim = Simulator(blocks=24, host_blocks=50, knobs=knobs(policy=policy, prefill_chunk=256))
    parked = add(sim, 80, 1, tool="bash")
    until_blocked(sim, parked)
    person, background, second = add(sim, 80, 200, FG), add(sim, 60, 200), add(sim, 80, 200, FG)
    while parked.tier is Tier.RESIDENT:
        sim.step()
    assert all(t.phase.running for t in (person, background, second))
    while background.phase.running:
        sim.step()
    assert person.phase.running
    assert second.phase.running
    while second.phase.running:
        sim.step()
    assert person.phase.running
    sim.cancel(parked)
    sim.drain(4000)
    assert [t.generated for t in (person, background, second)] == [200, 200, 200]


# -- tiers --------------------------------------------------------------------------------------------------------


def test_a_full_host_pool_means_drop_and_recompute() -> None:
    for budget in (2 * 14, 0):
        sim = Simulator(blocks=100, host_blocks=budget, knobs=knobs(max_running=6, prefill_chunk=256))
        background = [add(sim, 200, 60) for _ in range(6)]
        sim.run(12)
        people = [add(sim, 800, 4, FG), add(sim, 700, 4, FG)]
        sim.step()
        assert sum(t.tier is Tier.HOST for t in background) <= budget // 14
        sim.drain(3000)
        assert [t.generated for t in background] == [60] * 6
        assert [t.generated for t in people] == [4, 4]
        assert sim.counts["swaps_out"] == 0 if budget == 0 else sim.counts["swaps_out"] > 0
        assert sum(n for name, n in sim.counts.items() if name.startswith("drops")) > 0


def test_swapped_turn_comes_back_with_its_start() -> None:
    sim = Simulator(blocks=30, host_blocks=30, knobs=knobs(max_running=1, prefill_chunk=256))
    turn = add(sim, 200, 10, tool="bash")
    until_blocked(sim, turn)
    sim.now += 2
    other = add(sim, 380, 40)
    assert sim.step().actions == (SwapOut(turn.id, Reason.ADMISSION), Start(other.id))
    while other.live:
        sim.step()
    sim.unblock(turn, 30, 5)
    assert sim.step().actions == (SwapIn(turn.id), Start(turn.id))
    sim.drain(100)
    assert turn.recomputed == 0


def test_resident_turn_resumes_past_one_that_lacks_room() -> None:
    sim = Simulator(blocks=40, knobs=knobs(policy="resident-only"))
    runner, talker = add(sim, 250, 90), add(sim, 100, 5, tool="bash")
    until_blocked(sim, talker)
    big = add(sim, 400, 5)
    sim.step()
    assert big.phase is Phase.WAITING
    sim.unblock(talker, 3, 5)
    newcomer = add(sim, 30, 5)
    sim.step()
    assert talker.phase.running
    assert runner.phase.running
    assert newcomer.phase is Phase.WAITING, "a newcomer holds nothing here and waits behind the big one"


@pytest.mark.parametrize(("queued_since", "passes"), [(45.0, True), (20.0, False)])
def test_nobody_resumes_past_a_starving_person_that_lacks_room(queued_since: float, passes: bool) -> None:
    sim = Simulator(blocks=40, knobs=knobs(policy="resident-only"), now=50.0)
    put(sim, 300, FG, Phase.DECODE)
    talker = put(sim, 100, FG, Phase.WAITING, queued_since=49.0)
    put(sim, 400, FG, Phase.WAITING, tier=Tier.NONE, kv=0, blocks=0, queued_since=queued_since)
    sim.step()
    assert talker.phase.running is passes


# -- watermarks ---------------------------------------------------------------------------------------------------


def parked_swarm(sim: Simulator, *sizes: int) -> list[SimTurn]:
    turns = [add(sim, size, 1, tool="bash") for size in sizes]
    until_blocked(sim, *turns)
    sim.now += 2
    return turns


def test_above_the_high_watermark_the_longest_leave_down_to_the_low_one() -> None:
    sim = Simulator(blocks=100, host_blocks=30, knobs=knobs(high_watermark=1.0, low_watermark=1.0))
    turns = parked_swarm(sim, 300, 200, 400, 250)  # 19 + 13 + 25 + 16 blocks held
    sim.boundary()
    assert all(t.tier is Tier.RESIDENT for t in turns)
    sim.set_knobs(high_watermark=0.75, low_watermark=0.5)
    assert sim.boundary().actions == ()  # 73 held: under 75
    sim.set_knobs(high_watermark=0.7)
    assert sim.boundary().actions == (SwapOut(turns[2].id, Reason.WATERMARK),)  # 48 left: under 50
    sim.set_knobs(low_watermark=0.3)
    assert sim.boundary().actions == ()  # between the two and not evicting
    sim.set_knobs(high_watermark=0.3)
    assert sim.boundary().actions == (Drop(turns[0].id, Reason.WATERMARK),)  # 5 host blocks left


def test_eviction_goes_on_below_the_high_watermark_until_the_low_one() -> None:
    sim = Simulator(blocks=100, host_blocks=100, knobs=knobs(high_watermark=0.6, low_watermark=0.3))
    settled = parked_swarm(sim, 300)  # 19 blocks, may be moved
    young = [add(sim, 280, 1, tool="bash"), add(sim, 320, 1, tool="bash")]  # 18 + 20, not yet
    until_blocked(sim, *young)
    assert sim.boundary().actions == ()
    assert not sim.evicting
    sim.set_knobs(high_watermark=0.5)
    assert sim.boundary().actions == (SwapOut(settled[0].id, Reason.WATERMARK),)
    assert sim.evicting, "38 held: under the high one, above the low one"
    assert sim.step().wake_at == young[0].tier_since + 1.0
    assert sim.boundary().actions == (SwapOut(young[0].id, Reason.WATERMARK),)
    assert not sim.evicting


def test_long_turns_leave_above_the_low_watermark_already() -> None:
    sim = Simulator(blocks=100, host_blocks=100, knobs=knobs(low_watermark=1.0, long_turn_tokens=350))
    short, long = parked_swarm(sim, 300, 400)
    sim.set_knobs(low_watermark=0.3)
    assert sim.step().actions == (SwapOut(long.id, Reason.LONG),)
    assert short.tier is Tier.RESIDENT


def test_stand_in_proportion_two_paused_turns_stay_and_the_third_leaves() -> None:
    """Arena of 8 + 2 average turns and one growth block per slot, as the stand-in is sized."""
    average = 10 * BLOCK - 12
    sim = Simulator(blocks=10 * 10 + 8, host_blocks=600, knobs=knobs(max_running=8, prefill_chunk=256))
    parked = parked_swarm(sim, average, average)
    running = [add(sim, average, 10) for _ in range(8)]
    sim.run(8)
    assert all(t.phase.running for t in running)
    assert all(t.tier is Tier.RESIDENT for t in parked)
    sim.block(running[0])
    add(sim, average, 10)
    sim.step()
    assert [t.tier for t in sim.in_phase(Phase.BLOCKED)].count(Tier.RESIDENT) == 2


@pytest.mark.parametrize("low", [0.4, 0.9])
def test_equal_watermarks_under_steady_load(low: float) -> None:
    """The simulator checks the dwell at each move; here that all ends."""
    sim = Simulator(blocks=50, host_blocks=30, knobs=knobs(high_watermark=low, low_watermark=low))
    for n in range(30):
        add(sim, 60 + 11 * (n % 7), 12, FG if n % 4 == 0 else BG, "bash" if n % 2 else None)
        sim.run(5)
        for turn in sim.in_phase(Phase.BLOCKED)[:1]:
            sim.unblock(turn, 10, 5)
    sim.drain(5000)


@pytest.mark.parametrize("change", [{"low_watermark": 0.9, "high_watermark": 0.5}, {"low_watermark": -0.1}])
def test_impossible_watermarks_leave_the_old_ones(change: dict[str, float]) -> None:
    sim = Simulator()
    before = sim.knobs
    with pytest.raises(BadKnob):
        sim.set_knobs(**change)
    assert sim.knobs is before


# -- abandoned and stalled ----------------------------------------------------------------------------------------


def test_abandoned_turns_are_dropped_then_fail_and_memory_is_flat() -> None:
    sim = Simulator(blocks=100, host_blocks=100, knobs=knobs(max_running=8, abandon_after_s=30.0, prefill_chunk=256))
    turns = [add(sim, 40, 3, tool="bash") for _ in range(100)]
    until_blocked(sim, *turns)
    late = turns[0]
    while sim.now < late.phase_since + 60:
        sim.step()
    assert late.tier is Tier.DROPPED
    sim.unblock(late, 5, 4)
    while any(t.phase is Phase.BLOCKED for t in turns):
        sim.step()
    assert late.phase is Phase.DONE
    assert late.recomputed >= 40
    assert sum(t.phase is Phase.FAILED for t in turns) == 99
    assert all("abandon_after_s" in (t.error or "") for t in turns[1:])
    assert sim.free == 100
    assert sim.host_free == sim.host_bytes
    assert turns[-1].phase_since >= FAIL_AFTER * 30


def test_abandoning_names_its_instants() -> None:
    sim = Simulator(knobs=knobs(abandon_after_s=10.0))
    turn = add(sim, 40, 2, tool="bash")
    until_blocked(sim, turn)
    since = turn.phase_since
    sim.now += 2
    assert sim.step().wake_at == since + 10.0
    assert sim.step().actions == (Drop(turn.id, Reason.ABANDONED),)
    assert sim.now == since + 40.0
    (fail,) = sim.step().actions
    assert isinstance(fail, Fail)
    assert sim.step().wake_at is None


def test_a_stall_is_broken_even_if_the_policy_never_moves() -> None:
    sim = Simulator(blocks=30, host_blocks=20, knobs=knobs(policy="resident-only", prefill_chunk=256))
    longest, other = parked_swarm(sim, 200, 180)
    waits = add(sim, 100, 5)
    decision = sim.step()
    assert decision.stalled is not None
    assert decision.actions == (SwapOut(longest.id, Reason.STALL), Start(waits.id))
    assert other.tier is Tier.RESIDENT
    while waits.live:
        sim.step()


def test_time_that_helps_is_no_stall() -> None:
    sim = Simulator(blocks=30, host_blocks=20, knobs=knobs(prefill_chunk=256))
    parked = add(sim, 380, 1, tool="bash")
    until_blocked(sim, parked)
    waits = add(sim, 300, 5)
    decision = sim.step()
    assert decision.stalled is None
    assert decision.wake_at == parked.tier_since + 1.0
    sim.step()
    assert waits.phase.running


def test_resident_only_lets_foreground_preempt_for_a_slot_but_moves_nothing() -> None:
    sim = Simulator(blocks=200, knobs=knobs(policy="resident-only", max_running=2))
    background = [add(sim, 100, 50), add(sim, 120, 50)]
    sim.run(6)
    person = add(sim, 50, 5, FG)
    sim.step()
    assert person.phase.running
    assert background[1].tier is Tier.RESIDENT
    sim.drain(500)
    assert sim.counts["swaps_out"] == 0


def test_an_unknown_policy_is_named() -> None:
    sim = Simulator(knobs=knobs(policy="walk-up"))
    with pytest.raises(BadKnob, match=r"walk-up.*walk-down"):
        decide(sim.view(), sim.knobs, COSTS, 0.0)


def test_where_nothing_moves_only_a_turn_that_lacks_a_block_loses_its_slot() -> None:
    sim = Simulator(blocks=30, knobs=knobs(policy="resident-only"), now=50.0)
    put(sim, 161, BG, Phase.BLOCKED)
    longer = put(sim, 180, BG, Phase.DECODE)
    needy = put(sim, 8 * BLOCK + 1, BG, Phase.DECODE)
    assert sim.free == 0
    assert sim.step().actions == (Preempt(needy.id, None, Reason.GROWTH),)
    assert longer.phase.running


def test_with_nobody_running_starvation_is_an_instant_to_wake_at() -> None:
    """A starving turn goes ahead of one whose place is kept while it dwells."""
    sim = Simulator(blocks=32, knobs=knobs(), now=50.0)
    put(sim, 197, BG, Phase.PAUSED, tier=Tier.DROPPED, kv=0, blocks=0, arrived_at=1.0, tier_since=50.0)
    waits = put(sim, 328, BG, Phase.WAITING, tier=Tier.NONE, kv=0, blocks=0, queued_since=30.25)
    assert sim.step().wake_at == 50.25
    assert sim.step().actions == (Start(waits.id),)
