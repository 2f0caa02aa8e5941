"""Room in the host pool: whose copy is dropped for whose, and whose never."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from engine.governor import TIER_DWELL_S
from engine.governor.host_tier import give_way, least_needed, next_in_line
from engine.leaving import squeezed_out
from engine.turn import Phase, Priority, Tier, TurnId
from engine.view import Drop, Reason, SwapOut, TurnView
from tests.engine.simulator import BLOCK, UNIT, SimTurn, Simulator, knobs, put

FG, BG = Priority.FOREGROUND, Priority.BACKGROUND
NOBODY: frozenset[TurnId] = frozenset()


def copy(
    turn: int, priority: Priority = BG, phase: Phase = Phase.BLOCKED, since: float = 0.0, size: int = 4
) -> TurnView:
    """A turn whose copy is in the host pool."""
    return TurnView(
        TurnId(turn), priority, phase, Tier.HOST, 100, 99, 0, arrived_at=0.0, phase_since=since, queued_since=since,
        tier_since=since, host_bytes=size * UNIT,
    )  # fmt: skip


def leaver(priority: Priority = BG, since: float = 50.0) -> TurnView:
    return replace(copy(99, priority, since=since), tier=Tier.RESIDENT, blocks=4, host_bytes=0)


def gone(newcomer: TurnView, units: int, *copies: TurnView, line: frozenset[TurnId] = NOBODY) -> list[int]:
    return [turn.id for turn in give_way(newcomer, units * UNIT, copies, line, now=100.0)]


def test_the_least_recently_used_goes_first_and_only_as_many_as_it_takes() -> None:
    copies = [copy(1, since=30.0), copy(2, since=10.0), copy(3, since=20.0)]
    assert gone(leaver(), 4, *copies) == [2]
    assert gone(leaver(), 5, *copies) == [2, 3]
    assert gone(leaver(), 12, *copies) == [2, 3, 1]
    assert gone(leaver(), 13, *copies) == []
    assert gone(leaver(), 8, copy(1, since=10.0, size=2), copy(2, since=20.0, size=8)) == [2], "the small one need not"


def test_background_gives_way_to_foreground_and_never_the_other_way() -> None:
    person, other = copy(1, FG, since=1.0), copy(2, BG, since=40.0)
    assert gone(leaver(FG), 4, person, other) == [2]
    assert gone(leaver(FG), 8, person, other) == [2, 1]
    assert gone(leaver(BG), 4, person) == []
    assert gone(leaver(BG), 4, person, other) == [2]


def test_a_copy_used_after_the_newcomer_or_about_to_run_or_moved_just_now_stays() -> None:
    assert gone(leaver(since=50.0), 4, copy(1, since=60.0)) == []
    assert gone(leaver(FG), 4, copy(1), line=frozenset({TurnId(1)})) == []
    assert gone(leaver(FG, since=99.9), 4, replace(copy(1), tier_since=100.0 - TIER_DWELL_S / 2)) == []


def test_who_wants_a_slot_keeps_its_copy_from_its_equals_and_the_last_in_line_goes_first_for_a_person() -> None:
    waiting = [copy(n, phase=Phase.PAUSED, since=float(n)) for n in (1, 2, 3)]
    assert gone(leaver(), 4, *waiting) == []
    assert gone(leaver(FG), 4, *waiting) == [3]
    assert gone(leaver(FG), 4, *waiting, copy(9, since=40.0)) == [9], "who wants none goes before them"
    assert next_in_line(waiting, 2, now=10.0) == {1, 2}
    assert next_in_line([*waiting, copy(4, FG, Phase.WAITING, 9.0)], 2, now=10.0) == {4, 1}


def parked(sim: Simulator, tokens: int, priority: Priority = BG, **state: object) -> SimTurn:
    return put(sim, tokens, priority, Phase.BLOCKED, tool="bash", **state)


def in_host(sim: Simulator, tokens: int, priority: Priority = BG, **state: object) -> SimTurn:
    turn = parked(sim, tokens, priority, tier=Tier.HOST, **state)
    turn.host_bytes, turn.blocks = turn.blocks * sim.block_bytes, 0
    return turn


def test_in_a_full_pool_the_oldest_copy_is_dropped_and_the_newer_turn_swapped_out() -> None:
    sim = Simulator(blocks=20, host_blocks=10, knobs=knobs(high_watermark=0.5, low_watermark=0.4))
    sim.now = 100.0
    old = in_host(sim, 5 * BLOCK, phase_since=10.0, tier_since=10.0)
    newer = in_host(sim, 5 * BLOCK, phase_since=20.0, tier_since=20.0)
    leaves = parked(sim, 9 * BLOCK, phase_since=90.0, tier_since=30.0)
    parked(sim, 3 * BLOCK, phase_since=95.0, tier_since=99.9)
    actions = sim.boundary().actions
    assert actions == (
        Drop(old.id, Reason.HOST_FULL), Drop(newer.id, Reason.HOST_FULL), SwapOut(leaves.id, Reason.WATERMARK)
    )  # fmt: skip
    assert sim.host_free == sim.block_bytes


def test_a_copy_larger_than_the_whole_pool_drives_nobody_out() -> None:
    sim = Simulator(blocks=20, host_blocks=8, knobs=knobs(high_watermark=0.5, low_watermark=0.4))
    sim.now = 100.0
    stays = in_host(sim, 5 * BLOCK, phase_since=10.0, tier_since=10.0)
    leaves = parked(sim, 12 * BLOCK, phase_since=90.0, tier_since=30.0)
    assert sim.boundary().actions == (Drop(leaves.id, Reason.WATERMARK),)
    assert stays.tier is Tier.HOST


def test_recompute_only_never_touches_a_copy() -> None:
    sim = Simulator(
        blocks=20, host_blocks=10, knobs=knobs(high_watermark=0.5, low_watermark=0.4, policy="recompute-only")
    )
    sim.now = 100.0
    stays = in_host(sim, 9 * BLOCK, phase_since=10.0, tier_since=10.0)
    leaves = parked(sim, 12 * BLOCK, phase_since=90.0, tier_since=30.0)
    assert sim.boundary().actions == (Drop(leaves.id, Reason.WATERMARK),)
    assert stays.tier is Tier.HOST


def test_who_starts_at_this_boundary_keeps_its_copy_from_whoever_leaves_for_it() -> None:
    """A starving turn that comes back from a full pool, for which a person's parked turn must leave."""
    sim = Simulator(blocks=20, host_blocks=8, knobs=knobs(max_running=1, high_watermark=1.0, low_watermark=1.0))
    sim.now = 100.0
    back = in_host(sim, 8 * BLOCK, phase_since=10.0, queued_since=10.0, tier_since=10.0)
    back.phase, back.tool = Phase.PAUSED, None
    person = parked(sim, 14 * BLOCK, FG, phase_since=90.0, tier_since=30.0)
    waits = [sim.submit(20, 5, FG) for _ in range(2)]
    sim.host_bytes = 14 * sim.block_bytes
    sim.step()
    assert back.phase.running
    assert back.recomputed == 0
    assert person.tier is Tier.DROPPED
    assert all(turn is not None and not turn.phase.running for turn in waits)


COPIES = st.lists(
    st.builds(
        copy, st.integers(1, 10**6), st.sampled_from([FG, BG]), st.sampled_from([Phase.BLOCKED, Phase.PAUSED]),
        st.floats(0, 100), st.integers(1, 9),
    ),
    max_size=12, unique_by=lambda turn: turn.id,
)  # fmt: skip


@given(COPIES, st.sampled_from([FG, BG]), st.floats(0, 100), st.integers(1, 60))
def test_whatever_is_there_what_goes_is_enough_and_worth_less_and_none_of_it_in_vain(
    copies: list[TurnView], priority: Priority, since: float, units: int
) -> None:
    newcomer = leaver(priority, since)
    line = next_in_line([turn for turn in copies if turn.wants_slot], 2, now=100.0)
    out = give_way(newcomer, units * UNIT, copies, line, now=100.0)
    freed = sum(turn.host_bytes for turn in out)
    assert not out or freed >= units * UNIT
    for turn in out:
        assert turn.id not in line
        assert turn.priority >= priority
        assert turn.priority > priority or (not turn.wants_slot and turn.phase_since < since)
        assert freed - turn.host_bytes < units * UNIT, f"{turn.id} went in vain"
        assert turn.tier_since + TIER_DWELL_S <= 100.0


@given(COPIES, st.integers(0, 120))
def test_a_pool_that_shrinks_gives_up_the_least_needed_and_no_more_than_it_must(
    copies: list[TurnView], units: int
) -> None:
    sizes = {turn.id: turn.host_bytes for turn in copies}
    out = squeezed_out(copies, sizes, units * UNIT)
    left = sum(sizes.values()) - sum(turn.host_bytes for turn in out)
    assert left <= units * UNIT
    assert not out or left + out[-1].host_bytes > units * UNIT
    assert list(out) == sorted(copies, key=least_needed)[: len(out)]
