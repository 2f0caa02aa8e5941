"""Who comes back ahead of its slot. Rule 10.

pytest tests/engine/test_governor_prefetch.py
"""

import pytest

from engine.governor import TIER_DWELL_S, decide
from engine.turn import Phase, Priority, Tier
from engine.view import SwapIn
from engine.waits import LEAST
from tests.engine.simulator import BLOCK, COSTS, SimTurn, Simulator, knobs, put

FG, BG = Priority.FOREGROUND, Priority.BACKGROUND


def parked(
    sim: Simulator, tokens: int, priority: Priority = BG, phase: Phase = Phase.WAITING, **state: object
) -> SimTurn:
    """Waits for a slot, and its KV is in the host pool."""
    blocks = -(-(tokens - 1) // BLOCK)
    away: dict[str, object] = {"tier": Tier.HOST, "blocks": 0, "tier_since": -9.0, "queued_since": sim.now}
    return put(sim, tokens, priority, phase, **(away | {"host_bytes": blocks * sim.block_bytes} | state))


def full(blocks: int = 100, slots: int = 2, **changes: object) -> Simulator:
    """All slots are taken, by turns of 3 blocks that may take 4 each."""
    sim = Simulator(blocks, host_blocks=200, knobs=knobs(max_running=slots, low_watermark=0.9, **changes))
    for _ in range(slots):
        put(sim, 47, FG, Phase.DECODE)
    return sim


def brought(sim: Simulator) -> list[SimTurn]:
    """By this boundary, ahead of their slots."""
    view = sim.view()
    decision = decide(view, sim.knobs, COSTS, sim.now)
    sim.boundary()
    return [sim.turns[act.turn] for act in decision.actions if isinstance(act, SwapIn) and act.ahead]


def test_the_first_in_line_comes_back_before_its_slot_is_free() -> None:
    sim = full()
    turn = parked(sim, 100)
    assert brought(sim) == [turn]
    assert turn.phase is Phase.WAITING
    assert turn.tier is Tier.RESIDENT
    assert brought(sim) == []


def test_with_a_free_slot_it_starts_instead() -> None:
    sim = full(slots=2)
    sim.cancel(sim.running[0])
    turn = parked(sim, 100)
    assert brought(sim) == []
    assert turn.phase.running


def test_half_as_many_as_there_are_slots_by_priority_and_place() -> None:
    sim = full(blocks=300, slots=5)
    late, early = parked(sim, 50, queued_since=-1.0), parked(sim, 50, queued_since=-2.0)
    person = parked(sim, 50, FG)
    assert brought(sim) == [person, early]
    assert brought(sim) == []
    sim.cancel(person)
    assert brought(sim) == [late]


def test_whoever_is_ahead_in_line_keeps_its_room() -> None:
    """Of 27 blocks below the low watermark 16 are taken or promised, and the newcomer will want 9."""
    sim = full(blocks=30, slots=4)
    newcomer = sim.submit(8 * BLOCK - 1, 5, FG)
    assert newcomer is not None
    turn = parked(sim, 4 * BLOCK - 1)
    assert brought(sim) == []
    sim.cancel(newcomer)
    assert brought(sim) == [turn]


@pytest.mark.parametrize(("tokens", "comes"), [(18 * BLOCK - 1, True), (18 * BLOCK, False)])
def test_its_whole_context_must_fit_below_the_low_watermark(tokens: int, comes: bool) -> None:
    """Of 30 blocks 27 lie below the low watermark, 8 of them taken or promised: 19 are left, one of them to grow by."""
    sim = full(blocks=30)
    turn = parked(sim, tokens)
    assert brought(sim) == ([turn] if comes else [])


def test_who_has_just_left_waits_for_its_dwell_and_names_it() -> None:
    sim = full()
    turn = parked(sim, 100, FG, tier_since=sim.now)
    decision = decide(sim.view(), sim.knobs, COSTS, sim.now)
    assert decision.actions == ()
    assert decision.next_at == pytest.approx(sim.now + TIER_DWELL_S)
    sim.now += TIER_DWELL_S
    assert brought(sim) == [turn]


def test_nobody_comes_while_one_ahead_lacks_room() -> None:
    """A slot is free and the newcomer finds no room: what there is must gather for it."""
    sim = full(blocks=40, slots=3, policy="resident-only")
    put(sim, 10 * BLOCK, BG, Phase.BLOCKED, tier_since=-9.0)
    sim.cancel(sim.running[0])
    newcomer = sim.submit(26 * BLOCK, 5, FG)
    sim.book.seed([("bash", 5.0), ("bash", 9.0)] * LEAST)
    turn = parked(sim, 60, phase=Phase.BLOCKED, tool="bash", phase_since=sim.now - 7.5)
    assert brought(sim) == []
    assert newcomer is not None
    sim.cancel(newcomer)
    assert brought(sim) == [turn]


def test_held_turns_stay_where_they_were_put() -> None:
    sim = full()
    parked(sim, 100, phase=Phase.PAUSED, held=True)
    assert brought(sim) == []


def test_a_blocked_turn_comes_when_its_result_is_due_within_its_copy() -> None:
    sim = full()
    sim.book.seed([("bash", 5.0)] * LEAST + [("web", 0.1 * 2**n) for n in range(LEAST)])
    copy_s = 7 * sim.block_bytes / COSTS.swap_in_bytes_per_s
    turn = parked(sim, 100, phase=Phase.BLOCKED, tool="bash", phase_since=sim.now)
    unknown = parked(sim, 100, phase=Phase.BLOCKED, tool="web", phase_since=sim.now)
    late = parked(sim, 100, phase=Phase.BLOCKED, tool="bash", phase_since=sim.now - 5.0)
    decision = decide(sim.view(), sim.knobs, COSTS, sim.now)
    assert decision.actions == ()
    assert decision.next_at == pytest.approx(sim.now + 5.0 - copy_s, abs=1e-12)
    sim.now = decision.next_at
    assert brought(sim) == [turn]
    assert turn.phase is Phase.BLOCKED
    assert unknown.tier is late.tier is Tier.HOST


def test_one_that_came_ahead_leaves_again_like_any_other() -> None:
    sim = full(blocks=40)
    turn = parked(sim, 100)
    assert brought(sim) == [turn]
    person = sim.submit(30 * BLOCK, 5, FG)
    assert person is not None
    sim.cancel(sim.running[0])
    sim.boundary()
    assert person.phase.running
    assert turn.tier is Tier.HOST
