"""The policies that act ahead of need, by cases worked out by hand and by what holds for whatever situation.

Blocks of 25 MB at 5 GB/s each way: a block takes 10 ms out and back, its 16 tokens 16 ms to prefill (1,000 tok/s).
pytest tests/engine/policies/test_ahead.py
"""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.costs import Costs
from engine.durations import Durations
from engine.errors import BadKnob
from engine.knob_words import change, differing, parsed, value_of
from engine.knobs import Knobs
from engine.policies import checked, parameters, policies, policy_named
from engine.policies.base import Need, Relief, Situation
from engine.policies.ttl import time_to_live_s
from engine.turn import Phase, Priority, Tier, TurnId
from engine.view import Drop, MemoryView, Reason, SwapOut, TurnView
from engine.waits import WaitBook, Waits

BLOCK_BYTES = 25_000_000
COSTS = Costs(5e9, 5e9, 1000.0, 0.02, 0.002)
NOW = 100.0
FOREGROUND, BACKGROUND = Priority.FOREGROUND, Priority.BACKGROUND
# Eight each: the median of `quick` is 0.05 s, that of `slow` 7 s, its mean 13.75 s.
TOOLS = {"quick": (0.05,) * 8, "slow": (1.0, 2.0, 3.0, 4.0, 10.0, 20.0, 30.0, 40.0)}


def waits_of(**tools: tuple[float, ...]) -> Waits:
    book = WaitBook()
    book.seed((tool, seconds) for tool, found in tools.items() for seconds in found)
    return book.waits


def turn(
    number: int,
    blocks: int,
    tool: str | None = "slow",
    lasted: float = 0.0,
    priority: Priority = FOREGROUND,
    phase: Phase = Phase.BLOCKED,
    arrived_at: float = 0.0,
) -> TurnView:
    return TurnView(
        id=TurnId(number),
        priority=priority,
        phase=phase,
        tier=Tier.RESIDENT,
        tokens=16 * blocks + 1,
        kv_tokens=16 * blocks,
        blocks=blocks,
        arrived_at=arrived_at,
        phase_since=NOW - lasted,
        queued_since=0.0,
        tier_since=0.0,
        tool=tool if phase is Phase.BLOCKED else None,
    )


def asked(
    policy: str,
    *parked: TurnView,
    need: Need | None = None,
    host_blocks: int = 1000,
    running: tuple[TurnView, ...] = (),
    waits: Waits | None = None,
    now: float = NOW,
    **own: float,
) -> Relief:
    memory = MemoryView(16, BLOCK_BYTES, 2000, 100, 2000 * BLOCK_BYTES, host_blocks * BLOCK_BYTES, BLOCK_BYTES)
    knobs = Knobs(parameters=tuple((f"{policy}.{name}", value) for name, value in own.items()))
    known = waits_of(**TOOLS) if waits is None else waits
    return policy_named(policy).relieve(Situation(parked, running, need or Need(), memory, knobs, COSTS, now, known))


def out(*turns: int, reason: Reason = Reason.POLICY) -> tuple[SwapOut, ...]:
    return tuple(SwapOut(TurnId(number), reason) for number in turns)


# -- swap-on-block ----------------------------------------------------------------------------------------------------


def test_swap_on_block_moves_whose_wait_will_outlast_the_copy() -> None:
    # 10 blocks: 0.1 s out and back, twice that is asked for. `slow` will take 7 s, `quick` 0.05 s.
    relief = asked("swap-on-block", turn(1, 10), turn(2, 10, "quick"), turn(3, 20))
    assert relief.moves == out(3, 1), "the longest first"
    # After 0.05 s of `quick` nothing is known to last so long: at 0.2 s it has lasted for its copy, twice.
    assert relief.wake_at == NOW + 0.2


def test_swap_on_block_goes_by_its_margin() -> None:
    # 7 s are 70 times the copy of 10 blocks.
    assert asked("swap-on-block", turn(1, 10), margin=69.0).moves == out(1)
    relief = asked("swap-on-block", turn(1, 10), margin=75.0)
    # 7.5 s: the median of those over 1 s is 10, so 9 are left at 1 s.
    assert (relief.moves, relief.wake_at) == ((), NOW + 1.0)
    assert asked("swap-on-block", turn(1, 10, lasted=1.0), margin=75.0).moves == out(1)


def test_swap_on_block_has_background_wait_out_its_dwell() -> None:
    """It comes back no sooner than a second after it left."""
    waits = waits_of(half=(0.6,) * 8)
    assert asked("swap-on-block", turn(1, 10, "half"), waits=waits).moves == out(1)
    relief = asked("swap-on-block", turn(1, 10, "half", priority=BACKGROUND), waits=waits)
    assert (relief.moves, relief.wake_at) == ((), NOW + 1.0)


def test_swap_on_block_drops_nobody_ahead_of_need() -> None:
    assert asked("swap-on-block", turn(1, 10), turn(2, 30), host_blocks=12).moves == out(1)
    assert asked("swap-on-block", turn(1, 10), host_blocks=9).moves == ()


def test_swap_on_block_is_walk_down_for_need() -> None:
    there = (turn(1, 10, "quick"), turn(2, 30, "quick"), turn(3, 20, phase=Phase.PAUSED))
    need = Need(hard=40)
    assert asked("swap-on-block", *there, need=need).moves == asked("walk-down", *there, need=need).moves
    assert asked("swap-on-block", turn(1, 10), need=Need(hard=5)).moves == out(1, reason=Reason.ADMISSION)
    # Turn 1 leaves of itself; of the 25 blocks above the low watermark 15 are still to come free.
    relief = asked("swap-on-block", turn(1, 10), turn(2, 30, "quick"), need=Need(soft=25))
    assert relief.moves == (*out(1), *out(2, reason=Reason.WATERMARK))


# -- min-waste --------------------------------------------------------------------------------------------------------


def test_min_waste_takes_the_least_of_the_three() -> None:
    # C = 160 tokens, C_other = 480, C_batch = 640. swap = 0.1 s x 640 = 64 token-s, discard = 0.16 s x 640 = 102.4;
    # preserve = T_int x 160: less than 64 below 0.4 s.
    running = (turn(9, 30, phase=Phase.DECODE),)
    waits = waits_of(short=(0.39,) * 8, long=(0.41,) * 8)
    there = (turn(1, 10, "short"), turn(2, 10, "long"))
    relief = asked("min-waste", *there, running=running, waits=waits)
    assert relief.moves == out(2)
    # Nothing outlasts 0.39 s, then the time since the call is the estimate: from 0.4 s on.
    assert relief.wake_at == NOW + 0.4
    # Without room in the pool: discard is less than preserve from 102.4 / 160 = 0.64 s on.
    assert asked("min-waste", *there, running=running, waits=waits, host_blocks=0).moves == ()
    waits = waits_of(short=(0.63,) * 8, long=(0.65,) * 8)
    relief = asked("min-waste", *there, running=running, waits=waits, host_blocks=0)
    assert relief.moves == (Drop(TurnId(2), Reason.POLICY),)


def test_min_waste_drops_what_is_prefilled_sooner_than_copied() -> None:
    # 1 block of 8 tokens: 8 ms to prefill, 10 ms to copy.
    short = replace(turn(1, 1), kv_tokens=8, tokens=9)
    assert asked("min-waste", short).moves == (Drop(TurnId(1), Reason.POLICY),)
    assert asked("min-waste", turn(1, 1)).moves == out(1)


def test_a_copy_beside_steps_wastes_nothing() -> None:
    waits = waits_of(short=(0.01,) * 8)
    assert asked("min-waste", turn(1, 10, "short"), waits=waits).moves == ()
    # 0.1 s x (1 - 0.95) = 5 ms.
    assert asked("min-waste", turn(1, 10, "short"), waits=waits, overlap=95.0).moves == out(1)


def test_min_waste_takes_for_need_whose_leaving_wastes_least_for_each_block() -> None:
    # Of 10, 20 and 30 paused blocks: 10 ms a block x C = 1.6, 3.2 and 4.8 token-s for each block. Of the turn that
    # waits for 0.05 s more: 20 blocks, 3.2 - 0.05 x 16 = 2.4.
    there = (
        turn(1, 30, phase=Phase.PAUSED),
        turn(2, 20, phase=Phase.PAUSED),
        turn(3, 10, phase=Phase.PAUSED),
        turn(4, 20, "quick"),
        turn(5, 90, phase=Phase.PAUSED, priority=BACKGROUND),
    )
    moves = asked("min-waste", *there, need=Need(hard=171)).moves
    assert moves == tuple(SwapOut(TurnId(n), Reason.ADMISSION) for n in (5, 3, 4, 2, 1)), "background first"
    assert len(asked("min-waste", *there, need=Need(hard=120)).moves) == 3


# -- ttl --------------------------------------------------------------------------------------------------------------


def test_the_time_to_live_of_a_cold_start_is_the_logarithm_of_the_reload() -> None:
    assert time_to_live_s(Durations(), 5.0, 1.0) == 0.0
    assert time_to_live_s(Durations(), 5.0, 0.3) == 0.0
    assert time_to_live_s(Durations(), 5.0, 20.0) == pytest.approx(2.9957, abs=1e-4)


def test_ttl_keeps_for_as_long_as_keeping_pays() -> None:
    # A prefill of 9 s (9,000 tokens and no pool): by hand in test_waits.py 4 s of `slow`; a copy back of 2.8 s: 0.
    nine = replace(turn(1, 563), kv_tokens=9000)
    relief = asked("ttl", nine, host_blocks=0, samples=8.0)
    assert (relief.moves, relief.wake_at) == ((), NOW + 4.0)
    expired = replace(nine, phase_since=NOW - 4.0)
    assert asked("ttl", expired, host_blocks=0, samples=8.0).moves == (Drop(TurnId(1), Reason.POLICY),)
    assert asked("ttl", nine, samples=8.0).moves == out(1)


def test_ttl_learns_from_as_many_samples_as_asked() -> None:
    # 16 are known of all tools and 8 of this one: with 100 asked, ln(9) s.
    nine = replace(turn(1, 563), kv_tokens=9000)
    assert asked("ttl", nine, host_blocks=0).wake_at == pytest.approx(NOW + 2.1972, abs=1e-4)


def test_ttl_unpins_the_latest_arrival_first() -> None:
    there = (
        turn(1, 10, arrived_at=1.0),
        turn(2, 10, arrived_at=3.0),
        turn(3, 10, arrived_at=2.0),
        turn(4, 10, arrived_at=0.0, phase=Phase.PAUSED),
    )
    moves = asked("ttl", *there, need=Need(hard=31)).moves
    assert [move.turn for move in moves] == [4, 2, 3, 1], "who is not pinned leaves before"


# -- whatever the situation -------------------------------------------------------------------------------------------


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    parked = tuple(
        turn(
            number,
            draw(st.integers(1, 60)),
            draw(st.sampled_from(["quick", "slow", "new"])),
            draw(st.floats(0, 60)),
            draw(st.sampled_from([FOREGROUND, BACKGROUND])),
            draw(st.sampled_from([Phase.BLOCKED, Phase.BLOCKED, Phase.PAUSED, Phase.WAITING])),
            draw(st.floats(0, 90)),
        )
        for number in range(draw(st.integers(0, 7)))
    )
    running = tuple(turn(100 + n, 20, phase=Phase.DECODE) for n in range(draw(st.integers(0, 3))))
    need = Need(
        hard=draw(st.sampled_from([0, 0, 1, 40, 500])),
        soft=draw(st.sampled_from([0, 0, 30])),
        long=draw(st.sampled_from([0, 0, 60])),
    )
    free = draw(st.integers(0, 120))
    memory = MemoryView(16, BLOCK_BYTES, 2000, 100, 200 * BLOCK_BYTES, free * BLOCK_BYTES, BLOCK_BYTES)
    own = tuple((name, draw(st.sampled_from([one.low, one.default, one.high]))) for name, one in parameters().items())
    known = draw(st.sampled_from([waits_of(**TOOLS), Waits()]))
    return Situation(parked, running, need, memory, Knobs(long_turn_tokens=300, parameters=own), COSTS, NOW, known)


@pytest.mark.parametrize("name", list(policies()))
@settings(max_examples=60)
@given(there=situations())
def test_what_holds_for_every_policy(name: str, there: Situation) -> None:
    policy, blocks = policy_named(name), {one.id: one.blocks for one in there.parked}
    relief = policy.relieve(there)
    assert relief == policy.relieve(there), "pure"
    assert relief == policy.relieve(replace(there, parked=there.parked[::-1])), "whatever the order they are given in"
    moved = [move.turn for move in relief.moves]
    assert set(moved) <= set(blocks), "only turns that were offered"
    assert len(set(moved)) == len(moved), "each once"
    room = there.memory.host_free_bytes
    room -= sum(there.memory.host_bytes(blocks[move.turn]) for move in relief.moves if isinstance(move, SwapOut))
    assert room >= 0
    if name != "resident-only":
        freed = sum(blocks[one] for one in moved)
        assert freed >= min(max(there.need.hard, there.need.soft), sum(blocks.values()))
    ahead = {move.turn for move in relief.moves if move.reason is Reason.POLICY}
    assert ahead <= {one.id for one in there.parked if one.phase is Phase.BLOCKED}
    assert not ahead or not there.need.hard


@pytest.mark.parametrize("name", ["swap-on-block", "min-waste", "ttl"])
@settings(max_examples=60)
@given(there=situations())
def test_a_policy_names_the_instant_at_which_its_answer_changes(name: str, there: Situation) -> None:
    """Whoever is left after its moves: nothing before that instant, with room in the pool something at it."""
    policy = policy_named(name)
    there = replace(there, need=Need())
    left = tuple(one for one in there.parked if one.id not in {move.turn for move in policy.relieve(there).moves})
    there = replace(there, parked=left)
    wake_at = policy.relieve(there).wake_at
    if policy.relieve(there).moves:
        return
    blocked = [one for one in left if one.phase is Phase.BLOCKED]
    if wake_at is None:
        assert all(there.memory.host_bytes(one.blocks) > there.memory.host_free_bytes for one in blocked)
        return
    assert not policy.relieve(replace(there, now=(NOW + wake_at) / 2)).moves
    late = policy.relieve(replace(there, now=wake_at))
    assert late.moves or any(there.memory.host_bytes(one.blocks) > there.memory.host_free_bytes for one in blocked)


# -- parameters -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"swap-on-block.margin": -1}, "Margin of swap-on-block -1 x is outside 0 to 1000 x"),
        ({"min-waste.overlap": 101.0}, "Overlap of copies of min-waste 101 % is outside 0 to 100 %"),
        ({"ttl.samples": "many"}, "ttl.samples 'many' is not a number"),
        ({"ttl.samples": float("nan")}, "ttl.samples nan is not a number"),
        ({"walk-down.margin": 2.0}, "there is no knob 'walk-down.margin'; the policies' own are swap-on-block.margin"),
        ({"policy": "lru"}, "policy 'lru' is not known; choose walk-down"),
    ],
)
def test_a_bad_parameter_is_a_sentence(changes: dict[str, object], sentence: str) -> None:
    with pytest.raises(BadKnob, match=sentence):
        checked(Knobs().changed(changes))


def test_a_parameter_is_a_knob_like_any_other() -> None:
    old = checked(Knobs().changed({"swap-on-block.margin": 2}))
    assert old == Knobs(), "its default is nothing to say"
    new = checked(old.changed({"swap-on-block.margin": 3, "max_running": 4}))
    assert new.parameters == (("swap-on-block.margin", 3.0),)
    assert differing(old, new) == ("max_running", "swap-on-block.margin")
    assert value_of(old, "swap-on-block.margin") == 2.0
    assert parsed("swap-on-block.margin", "3.0") == 3.0
    assert change("swap-on-block.margin", 2.0, 3.0) == "Margin of swap-on-block 2 → 3 x"
    assert checked(new.changed({"swap-on-block.margin": 2.0})).parameters == ()
    assert change("gone.knob", "1.0", "2.0") == "gone.knob 1.0 → 2.0"
