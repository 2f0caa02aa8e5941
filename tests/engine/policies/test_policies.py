"""Each policy by itself: whom it chooses, in which order, where to and for which reason."""

from dataclasses import replace

import pytest

from engine.errors import BadKnob
from engine.knobs import Knobs
from engine.policies import policies, policy_named
from engine.policies.base import Need, Situation
from engine.turn import Phase, Priority, Tier, TurnId
from engine.view import Drop, MemoryView, Reason, SwapOut, TurnView
from tests.engine.simulator import COSTS


def parked(turn: int, tokens: int, priority: Priority = Priority.BACKGROUND, arrived_at: float = 0.0) -> TurnView:
    return TurnView(
        id=TurnId(turn),
        priority=priority,
        phase=Phase.BLOCKED,
        tier=Tier.RESIDENT,
        tokens=tokens,
        kv_tokens=tokens - 1,
        blocks=-(-(tokens - 1) // 16),
        arrived_at=arrived_at,
        phase_since=5.0,
        queued_since=0.0,
        tier_since=1.0,
        tool="bash",
    )


TURNS = (
    parked(1, 161, arrived_at=1),
    parked(2, 321, arrived_at=2),
    parked(3, 641, Priority.FOREGROUND, arrived_at=3),
    parked(4, 321, arrived_at=4),
)


def situation(need: Need, host_blocks: int = 1000) -> Situation:
    memory = MemoryView(16, 100, 200, 10, 100_000, host_blocks * 100, 100)
    return Situation(TURNS, (), need, memory, Knobs(long_turn_tokens=300), COSTS, 9.0)


NAMES = ["walk-down", "swap-on-block", "min-waste", "ttl", "recompute-only", "resident-only"]


def test_all_are_there_and_the_default_is_the_first() -> None:
    assert list(policies()) == NAMES
    assert Knobs().policy == NAMES[0]
    assert all(policy_named(name).name == name and policy_named(name).title for name in policies())
    with pytest.raises(BadKnob, match="resident-only"):
        policy_named("lru")


@pytest.mark.parametrize("name", ["walk-down", "recompute-only", "resident-only"])
def test_without_need_nobody_leaves(name: str) -> None:
    assert policy_named(name).relieve(situation(Need())).moves == ()


def test_walk_down_takes_the_longest_background_first_and_people_last() -> None:
    moves = policy_named("walk-down").relieve(situation(Need(hard=90))).moves
    assert moves == tuple(SwapOut(TurnId(n), Reason.ADMISSION) for n in (2, 4, 1, 3))


def test_walk_down_frees_no_more_than_is_needed() -> None:
    assert len(policy_named("walk-down").relieve(situation(Need(hard=20))).moves) == 1
    assert len(policy_named("walk-down").relieve(situation(Need(hard=21))).moves) == 2


def test_walk_down_drops_what_the_host_pool_cannot_take() -> None:
    moves = policy_named("walk-down").relieve(situation(Need(hard=45, reason=Reason.GROWTH), host_blocks=30)).moves
    assert moves == (
        SwapOut(TurnId(2), Reason.GROWTH),
        Drop(TurnId(4), Reason.GROWTH),
        SwapOut(TurnId(1), Reason.GROWTH),
    )


def test_each_move_names_the_strongest_need_still_open() -> None:
    moves = policy_named("walk-down").relieve(situation(Need(hard=5, soft=25, long=80))).moves
    assert [(m.turn, m.reason) for m in moves] == [
        (2, Reason.ADMISSION),
        (4, Reason.WATERMARK),
        (3, Reason.LONG),
    ], "turn 1 is short and above the low watermark only long ones leave"


def test_recompute_only_drops_the_latest_background_first_and_knows_no_long_turns() -> None:
    policy = policy_named("recompute-only")
    moves = policy.relieve(situation(Need(hard=41))).moves
    assert moves == tuple(Drop(TurnId(n), Reason.ADMISSION) for n in (4, 2, 1))
    assert policy.relieve(situation(Need(long=50))).moves == ()


def test_resident_only_never_moves() -> None:
    assert policy_named("resident-only").relieve(situation(Need(90, Reason.GROWTH, 90, 90))).moves == ()


def test_the_order_does_not_depend_on_how_turns_are_given() -> None:
    for name in policies():
        there = situation(Need(hard=60))
        back = replace(there, parked=TURNS[::-1])
        assert policy_named(name).relieve(there) == policy_named(name).relieve(back)
