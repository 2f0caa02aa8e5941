"""What operators and agents may ask for, and what they are told (cases S3, S6, W3, W9, H7)."""

import pytest

from engine.errors import BadKnob, Refused, UnknownTurn
from engine.events import EventKind
from engine.geometry import KVDtype
from engine.knobs import Knobs
from engine.turn import Phase, Priority, Tier, TurnId
from tests.engine.backends.fake_executor import MAX_CONTEXT, VOCAB
from tests.engine.lab import Lab


def test_a_turn_runs_from_arrival_to_its_last_token() -> None:
    lab = Lab()
    turn = lab.ask(50, 12)
    lab.finish([turn])
    assert lab.phase(turn) is Phase.DONE
    assert len(lab.generated[turn]) == 12
    lab.assert_right(turn)
    assert lab.leaked() == (0, 0)


@pytest.mark.parametrize("length", [300, 303, 304, 305, 317, 318, 319])
def test_a_prompt_near_the_size_of_the_arena_completes_and_so_does_the_one_behind_it(length: int) -> None:
    lab = Lab(arena_tokens=320)
    turns = [lab.ask(length, 16), lab.ask(5, 5, salt=1)]
    lab.finish(turns)
    assert all(lab.phase(t) is Phase.DONE for t in turns)
    assert len(lab.generated[turns[0]]) == min(16, 320 - length)
    assert len(lab.generated[turns[1]]) == 5
    for turn in turns:
        lab.assert_right(turn)


@pytest.mark.parametrize("length", [320, 321, 400])
def test_a_prompt_that_can_never_fit_is_refused_with_the_sizes_and_others_pass(length: int) -> None:
    lab = Lab(arena_tokens=320)
    with pytest.raises(Refused, match=f"{length} tokens and can never fit the arena of 320 tokens"):
        lab.ask(length, 16)
    small = lab.ask(5, 5)
    lab.finish([small])
    assert lab.phase(small) is Phase.DONE


def test_a_turn_that_outgrows_the_arena_ends_alone_with_length() -> None:
    lab = Lab(arena_tokens=640)
    big, small = lab.ask(100, 10_000), lab.ask(20, 30, salt=1)
    lab.finish([big, small])
    assert lab.phase(big) is Phase.DONE
    assert len(lab.generated[big]) == 640 - 100
    assert len(lab.generated[small]) == 30
    lab.assert_right(big)


def test_a_stall_that_is_broken_is_counted_and_told_by_name_and_is_no_state() -> None:
    lab = Lab(arena_tokens=480, knobs=Knobs(policy="resident-only"))
    for name, length in (("long", 200), ("short", 180)):
        lab.ask(length, 1, agent=name, then_block="bash")
    lab.ticks(20)
    lab.ask(79, 5, agent="waits")
    assert lab.loop.tick().stalled is None
    assert lab.core.counters.stalls == 1
    (stall,) = [e for e in lab.core.events if e.kind is EventKind.STALL]
    assert stall.agent == "waits"
    assert stall.text.startswith("waits lacked 1 block (")
    assert stall.text.endswith(" MiB of this machine) and nobody could run; long left the arena for it")


def test_the_context_of_the_model_is_the_other_limit() -> None:
    lab = Lab(arena_tokens=2 * MAX_CONTEXT)
    with pytest.raises(Refused, match=r"2,048 tokens; the model's context is 2,048"):
        lab.ask(MAX_CONTEXT, 4)
    turn = lab.ask(MAX_CONTEXT - 1, 4)
    lab.finish([turn])
    assert len(lab.generated[turn]) == 1


@pytest.mark.parametrize("bad", [0, -1, 2**31 * 10, 1.5, "x", True])
def test_absurd_max_tokens_are_refused(bad: object) -> None:
    with pytest.raises(Refused, match="max_tokens"):
        Lab().ask(5, bad)  # type: ignore[arg-type]


def test_empty_prompts_and_unknown_tokens_are_refused() -> None:
    lab = Lab()
    with pytest.raises(Refused, match="empty"):
        lab.submit((), 4)
    with pytest.raises(Refused, match="okens"):
        lab.submit((1, VOCAB), 4)
    assert lab.live() == []
    assert lab.core.counters.turns == 0


def test_a_foreground_turn_takes_a_slot_at_the_next_boundary() -> None:
    lab = Lab(knobs=Knobs(max_running=2))
    background = [lab.ask(30, 60, salt=i) for i in range(2)]
    lab.ticks(5)
    person = lab.ask(8, 8, salt=9, priority=Priority.FOREGROUND)
    lab.ticks(2)
    assert lab.generated[person]
    assert [lab.phase(t) for t in background].count(Phase.PAUSED) == 1
    lab.finish([*background, person])
    for turn in (*background, person):
        lab.assert_right(turn)


def test_equal_priorities_never_preempt() -> None:
    lab = Lab(knobs=Knobs(max_running=2))
    turns = [lab.ask(20, 25, salt=i) for i in range(6)]
    lab.finish(turns)
    assert lab.core.counters.preemptions == 0


def test_prompts_without_pause_never_starve_a_decoding_turn() -> None:
    lab = Lab(arena_tokens=4096, knobs=Knobs(prefill_chunk=64))
    decoding = lab.ask(10, 60)
    lab.ticks(2)
    for number in range(40):
        if number % 3 == 0:
            lab.ask(200, 1, salt=number, priority=Priority.FOREGROUND)
        before = len(lab.generated[decoding])
        lab.tick()
        assert len(lab.generated[decoding]) == before + 1


def test_block_frees_the_slot_and_only_what_was_appended_is_prefilled() -> None:
    lab = Lab(knobs=Knobs(max_running=1))
    turn = lab.ask(40, 5, then_block="pytest")
    waiting = lab.ask(10, 5, salt=1)
    lab.run_until(lambda: lab.phase(turn) is Phase.BLOCKED)
    lab.finish([waiting])
    context = lab.core.ledger.turns[turn].tokens.copy()
    before = lab.core.counters.recomputed_tokens
    lab.unblock(turn, (1, 2, 3), 4)
    lab.tick()
    assert lab.core.backend.holding(turn).kv_tokens == len(context) + 3
    lab.finish([turn])
    assert lab.core.counters.recomputed_tokens == before == 0


def test_a_result_for_a_turn_that_is_not_blocked_is_refused() -> None:
    lab = Lab()
    turn = lab.ask(10, 30)
    lab.ticks(3)
    with pytest.raises(Refused, match="not blocked but in phase decode"):
        lab.unblock(turn, (1,), 4)
    with pytest.raises(UnknownTurn, match="not known"):
        lab.unblock(TurnId(99), (1,), 4)
    lab.commands.cancel(turn, "page")
    with pytest.raises(UnknownTurn, match="is over \\(cancelled\\)"):
        lab.unblock(turn, (1,), 4)


@pytest.mark.parametrize("verb", ["pause", "swap_out", "drop"])
def test_a_turn_held_by_the_operator_waits_for_him(verb: str) -> None:
    lab = Lab()
    turn = lab.ask(40, 30)
    lab.ticks(6)
    getattr(lab.commands, verb)(turn, "page")
    lab.ticks(20)
    assert lab.phase(turn) is Phase.PAUSED
    assert lab.core.ledger.turns[turn].tier is {
        "pause": Tier.RESIDENT, "swap_out": Tier.HOST, "drop": Tier.DROPPED
    }[verb]  # fmt: skip
    lab.commands.resume(turn, "page")
    lab.finish([turn])
    lab.assert_right(turn)
    assert lab.leaked() == (0, 0)


@pytest.mark.parametrize("phase", ["waiting", "prefill", "decode", "paused", "host", "dropped", "blocked"])
def test_cancel_in_every_phase_and_tier_leaves_nothing_behind(phase: str) -> None:
    lab = Lab(knobs=Knobs(prefill_chunk=16))
    other = lab.ask(24, 40, salt=3)
    turn = lab.ask(90, 60)
    if phase == "prefill":
        lab.ticks(3)
    elif phase != "waiting":
        lab.ticks(12)
    match phase:
        case "paused":
            lab.commands.pause(turn, "page")
        case "host":
            lab.commands.swap_out(turn, "page")
        case "dropped":
            lab.commands.drop(turn, "page")
        case "blocked":
            lab.commands.block(turn, "pytest", "page")
    lab.commands.cancel(turn, "page")
    assert lab.phase(turn) is Phase.CANCELLED
    lab.finish([other])
    lab.assert_right(other)
    assert lab.leaked() == (0, 0)


def test_an_abandoned_turn_is_dropped_then_ended_and_counted() -> None:
    lab = Lab(knobs=Knobs(abandon_after_s=5.0))
    turns = [lab.ask(10, 2, salt=i, then_block="pytest") for i in range(4)]
    lab.run_until(lambda: all(lab.phase(t) is Phase.BLOCKED for t in turns))
    lab.lab_clock.at += 6
    lab.tick()
    assert lab.core.counters.abandoned == 4
    assert lab.leaked() == (0, 0)
    lab.unblock(turns[0], (1, 2), 3)
    lab.finish([turns[0]])
    assert lab.phase(turns[0]) is Phase.DONE
    lab.lab_clock.at += 20
    lab.tick()
    assert all(lab.phase(t) is Phase.FAILED for t in turns[1:])
    with pytest.raises(UnknownTurn, match="is over"):
        lab.unblock(turns[1], (1,), 3)


def test_a_swap_pool_of_nothing_falls_back_to_recompute() -> None:
    lab = Lab(arena_tokens=400, host_tokens=0, knobs=Knobs(max_running=2))
    background = [lab.ask(150, 20, salt=i) for i in range(2)]
    lab.ticks(4)
    burst = [lab.ask(150, 4, salt=9 + i, priority=Priority.FOREGROUND) for i in range(3)]
    lab.finish([*background, *burst])
    for turn in (*background, *burst):
        lab.assert_right(turn)
    assert lab.core.counters.drops > 0
    assert lab.core.counters.recomputed_tokens > 0
    assert lab.core.counters.swaps_out == 0


def test_the_precision_switch_moves_what_no_longer_fits_and_loses_nobody() -> None:
    lab = Lab(arena_tokens=400, host_tokens=4000)
    lab.commands.set_knobs({"kv_dtype": "q8"}, "page")
    turns = [lab.ask(100, 30, salt=i) for i in range(5)]
    lab.ticks(8)
    lab.commands.set_knobs({"kv_dtype": "fp16"}, "page")
    assert lab.core.backend.kv_dtype is KVDtype.FP16
    assert lab.core.counters.swaps_out > 0
    lab.finish(turns)
    for turn in turns:
        lab.assert_right(turn)
    assert lab.leaked() == (0, 0)


def test_a_switch_that_would_strand_a_turn_is_refused_before_anything_moves() -> None:
    lab = Lab(arena_tokens=256)
    lab.commands.set_knobs({"kv_dtype": "q8"}, "page")
    turn = lab.ask(300, 30)
    lab.ticks(4)
    with pytest.raises(Refused, match="the arena holds 256 at fp16"):
        lab.commands.set_knobs({"kv_dtype": "fp16", "max_running": 3}, "page")
    assert lab.core.knobs.kv_dtype is KVDtype.Q8
    assert lab.core.knobs.max_running == 8
    lab.finish([turn])
    lab.assert_right(turn)


def test_every_change_is_an_event_with_author_old_and_new() -> None:
    lab = Lab()
    lab.commands.set_knobs({"kv_dtype": "q8", "max_running": 3}, "page")
    events = {e.name: e for e in lab.core.events if e.kind is EventKind.KNOB}
    assert (events["max_running"].old, events["max_running"].new, events["max_running"].author) == ("8", "3", "page")
    assert events["kv_dtype"].seconds is not None
    with pytest.raises(BadKnob):
        lab.commands.set_knobs({"max_running": 99}, "page")
    with pytest.raises(Refused, match="policy 'lru' is not known"):
        lab.commands.set_knobs({"policy": "lru"}, "page")
    assert lab.core.knobs.max_running == 3


def test_a_smaller_host_pool_drops_the_copies_that_no_longer_fit() -> None:
    lab = Lab()
    turns = [lab.ask(60 + 20 * i, 30, salt=i) for i in range(3)]
    lab.ticks(6)
    for turn in turns:
        lab.commands.swap_out(turn, "page")
    used = lab.core.backend.memory().host_used_bytes
    lab.commands.set_knobs({"host_pool_bytes": used // 2}, "page")
    tiers = [lab.core.ledger.turns[t].tier for t in turns]
    assert tiers[0] is Tier.DROPPED, "used no later than the others"
    assert tiers[2] is Tier.HOST
    for turn in turns:
        lab.commands.resume(turn, "page")
    lab.finish(turns)
    for turn in turns:
        lab.assert_right(turn)


def test_waiting_running_and_parked_times_add_up_to_the_life_of_the_turn() -> None:
    lab = Lab()
    turn = lab.ask(40, 10, then_block="pytest")
    lab.ticks(4)
    lab.commands.pause(turn, "page")
    lab.ticks(250)
    lab.commands.resume(turn, "page")
    lab.run_until(lambda: lab.phase(turn) is Phase.BLOCKED)
    lab.lab_clock.at += 3
    lab.unblock(turn, (1,), 4)
    lab.finish([turn])
    spans = [i for i in lab.intervals if i.turn == turn]
    total = sum(i.end_utc - i.start_utc for i in spans)
    assert total == pytest.approx(spans[-1].end_utc - spans[0].start_utc)
    paused = sum(i.end_utc - i.start_utc for i in spans if i.phase is Phase.PAUSED)
    assert paused == pytest.approx(5.0, abs=0.1)
    assert sum(i.queued_ms for i in spans) < 200
    assert len(lab.core.stats._ttft) == 2
