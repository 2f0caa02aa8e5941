"""The tour over the engine's own loop on a virtual clock: six steps, whatever it finds, and everything put back."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from engine.errors import Refused
from engine.events import EventKind
from engine.geometry import KVDtype
from engine.knobs import Knobs
from engine.snapshot import HostState
from engine.turn import Phase as TurnPhase
from engine.turn import Tier
from engine.workload.tour.sizes import LEAST_OUTPUT, sizes_for
from engine.workload.tour.state import Phase, Status
from engine.workload.tour.steps import STEPS
from tests.engine.workload.tour_lab import ARENA, LabControl, Visit

ODD = Knobs(
    kv_dtype=KVDtype.FP16, policy="resident-only", high_watermark=0.6, low_watermark=0.3, long_turn_tokens=64,
    max_running=3, prefill_chunk=64, abandon_after_s=0.5,
)  # fmt: skip


def rows(control: LabControl, tier: Tier) -> list[str]:
    return sorted(row.agent for row in control.snapshot.turns if row.held and row.tier is tier)


def events(control: LabControl, *kinds: EventKind) -> list[str]:
    return [event.text for event in control.lab.core.events if event.kind in kinds]


def nothing_left(control: LabControl, before: Knobs) -> None:
    assert control.lab.live() == []
    assert control.lab.leaked() == (0, 0)
    assert control.snapshot.knobs == before


def test_six_steps_are_seen_and_each_says_what_was_measured() -> None:
    control = LabControl()
    before = control.snapshot.knobs
    visit = Visit(control)
    assert visit.seen().startswith("8 of 8 slots run and hold ")
    two = visit.seen()
    resident = rows(control, Tier.RESIDENT)
    assert len(resident) == 2
    assert two.startswith(f"{resident[0]} and {resident[1]} are paused and resident with ")
    assert two.endswith("Price: 0 bytes copied, 0 tokens recomputed.")
    assert events(control, EventKind.SWAP_OUT, EventKind.DROP) == []
    third = visit.seen()
    (left,) = rows(control, Tier.HOST)
    (swap,) = [e for e in control.lab.core.events if e.kind is EventKind.SWAP_OUT]
    assert swap.nbytes is not None
    assert third.startswith(f"{left} left: {swap.nbytes / 2**20:,.1f} MiB of this machine to the host pool in ")
    assert rows(control, Tier.RESIDENT) == resident
    q8 = visit.seen()
    assert "Paused that fit 1 → 6" in q8
    assert f"{left} back in " in q8
    assert len(rows(control, Tier.RESIDENT)) == 3
    assert rows(control, Tier.HOST) == []
    tool = visit.seen()
    assert " on pytest: " in tool
    assert "nothing was recomputed" in tool
    assert [text for text in events(control, EventKind.BLOCK, EventKind.UNBLOCK) if "pytest" in text]
    policy = visit.seen()
    assert " was dropped and computed again in " in policy
    assert " out and " in policy
    assert control.snapshot.counters.recomputed_tokens > 0
    said = visit.ended()
    assert said.startswith("That was the tour. ")
    assert "Put back: Tier policy recompute-only → walk-down." in said
    nothing_left(control, before)
    assert control.authors == {"tour"}


@pytest.mark.parametrize("steps", range(6))
def test_leaving_after_any_step_puts_all_back(steps: int) -> None:
    control = LabControl(knobs=ODD)
    before = control.snapshot.knobs
    visit = Visit(control)
    visit.walk(steps)
    assert visit.leave().startswith("The tour was left. ")
    nothing_left(control, before)


@pytest.mark.parametrize("rounds", [0, 1, 3, 40])
@pytest.mark.parametrize("steps", range(6))
def test_leaving_in_the_middle_of_a_step_puts_all_back(steps: int, rounds: int) -> None:
    control = LabControl()
    before = control.snapshot.knobs
    visit = Visit(control)
    visit.walk(steps)
    visit.player.act()
    for _ in range(rounds):
        visit.player.advance()
        control.lab.tick()
    visit.leave()
    nothing_left(control, before)


def hostile(**changes: Any) -> Callable[[], LabControl]:
    return lambda: LabControl(knobs=Knobs(**changes))


@pytest.mark.parametrize(
    "made",
    [
        hostile(policy="resident-only"), hostile(policy="recompute-only"), hostile(max_running=1),
        hostile(max_running=3), hostile(max_running=64), hostile(high_watermark=0.05, low_watermark=0.05),
        hostile(long_turn_tokens=1), hostile(prefill_chunk=16), hostile(abandon_after_s=0.1),
        hostile(min_quantum_s=5.0), lambda: LabControl(knobs=ODD), lambda: LabControl(host=16),
        lambda: LabControl(arena=1600),
    ],
)  # fmt: skip
def test_it_works_whatever_the_knobs_are(made: Callable[[], LabControl]) -> None:
    control = made()
    before = control.snapshot.knobs
    visit = Visit(control)
    said = visit.walk(6)
    assert "left: " in said[2]
    assert "to the host pool" in said[2]
    assert " was dropped and computed again in " in said[5]
    visit.ended()
    nothing_left(control, before)


def test_q8_at_the_start_is_set_aside_and_comes_back() -> None:
    control = LabControl()
    control.lab.commands.set_knobs({"kv_dtype": "q8"}, "page")
    before = control.snapshot.knobs
    visit = Visit(control)
    assert "For the tour: KV precision q8 → fp16." in visit.seen()
    visit.walk(5)
    visit.ended()
    nothing_left(control, before)


def test_a_swarm_is_stopped_first_and_offered_at_the_end() -> None:
    control = LabControl()
    control.play_swarm()
    visit = Visit(control)
    assert "The swarm was stopped." in visit.seen()
    assert {row.agent.split()[0] for row in control.snapshot.turns} == {"tour"}
    visit.leave()
    assert visit.player.state.swarm_ran


def test_without_a_swarm_none_is_offered() -> None:
    visit = Visit(LabControl())
    assert "The swarm" not in visit.seen()
    visit.leave()
    assert not visit.player.state.swarm_ran


def test_the_slots_stay_full_while_the_visitor_reads() -> None:
    control = LabControl()
    visit = Visit(control)
    visit.walk(2)
    turns = control.snapshot.counters.turns
    empty = 0
    for _ in range(400):
        visit.player.advance()
        control.lab.tick()
        empty += control.snapshot.counters.turns > turns and visit.player._stage.playing.running(control.snapshot) < 7
    assert empty == 0
    assert control.snapshot.counters.turns > turns + 8, "agents take one turn after the other"
    assert len(rows(control, Tier.RESIDENT)) == 2, "and the paused ones stay"
    assert events(control, EventKind.SWAP_OUT, EventKind.DROP) == []


def test_a_host_pool_that_cannot_be_had_is_told_and_the_third_is_dropped() -> None:
    control = LabControl(host=16)
    control.refuse = lambda verb, value: "the host has no memory" if "host_pool_bytes" in str(value) else None
    visit = Visit(control)
    assert "the host pool stays small (the host has no memory)" in visit.seen()
    visit.seen()
    assert "left: dropped" in visit.seen()
    assert "back, recomputed in " in visit.seen()


def test_a_body_without_q8_says_so_and_the_tour_goes_on() -> None:
    control = LabControl()
    sentence = "this backend has no q8 KV; choose fp16"
    control.refuse = lambda verb, value: sentence if verb == "set_knobs" and "q8" in str(value.values()) else None
    before = control.snapshot.knobs
    visit = Visit(control)
    visit.walk(3)
    status, said = visit.step()
    assert (status, said.split(".")[0]) == (Status.UNSEEN, "This backend has no q8 KV; choose fp16")
    visit.walk(2)
    visit.ended()
    nothing_left(control, before)


def test_an_arena_that_is_too_big_says_why_nothing_leaves() -> None:
    control = LabControl(arena=64 * 4096)
    visit = Visit(control)
    visit.walk(2)
    status, said = visit.step()
    assert status is Status.UNSEEN
    assert "the arena holds 262,144 tokens and has room for all of the tour's turns" in said


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"kv_dtype": "q8"}, "KV precision fp16 → q8 was not the tour's doing"),
        ({"policy": "resident-only"}, "Tier policy walk-down → resident-only was not the tour's doing"),
    ],
)
def test_a_knob_that_is_turned_during_the_tour_is_the_reason(changes: dict[str, object], why: str) -> None:
    control = LabControl(knobs=Knobs(policy="recompute-only"))
    visit = Visit(control)
    visit.walk(2)
    control.lab.commands.set_knobs(changes, "page")
    control.lab.ticks(60)
    status, said = visit.step()
    assert status is Status.UNSEEN
    assert why in said
    visit.leave()
    name = next(iter(changes))
    assert str(getattr(control.snapshot.knobs, name)) == changes[name], "what the operator chose stays"


def test_q8_that_is_on_already_cannot_be_flipped_and_can_be_tried_again() -> None:
    control = LabControl()
    visit = Visit(control)
    visit.walk(3)
    control.lab.commands.set_knobs({"kv_dtype": "q8"}, "page")
    visit.player.act()
    visit.rounds(lambda: visit.player.state.steps[3].status is Status.UNSEEN)
    assert "KV precision was q8 already" in visit.player.state.steps[3].said
    control.lab.commands.set_knobs({"kv_dtype": "fp16"}, "page")
    assert "Paused that fit" in visit.seen()


def test_turns_of_others_are_the_reason_and_stay() -> None:
    control = LabControl()
    other = control.lab.ask(600, 1400, agent="somebody")
    control.lab.commands.pause(other, "page")
    visit = Visit(control)
    status, said = visit.step()
    assert status is Status.UNSEEN
    assert "1 turn beside the tour's (somebody) take slots and room" in said
    visit.leave()
    assert control.lab.phase(other) is TurnPhase.PAUSED


def test_a_turn_of_the_tour_that_is_cancelled_by_hand_is_no_end() -> None:
    control = LabControl()
    visit = Visit(control)
    visit.walk(2)
    for row in control.snapshot.turns:
        if row.held:
            control.lab.commands.cancel(row.id, "page")
    assert "left: " in visit.seen()


def test_a_restart_in_the_middle_ends_it_with_a_sentence_and_the_knobs_back() -> None:
    control = LabControl()
    visit = Visit(control)
    visit.walk(4)
    assert control.snapshot.knobs.kv_dtype is KVDtype.Q8
    before = dataclasses.replace(control.snapshot.knobs, kv_dtype=KVDtype.FP16)
    control.restart()
    assert visit.ended().startswith("The engine was started anew in step 5 of the tour, which ends here. ")
    nothing_left(control, before)


def test_a_failed_engine_ends_it_and_gets_its_knobs_back_when_it_runs_again() -> None:
    control = LabControl()
    visit = Visit(control)
    visit.walk(4)
    control.state = HostState.FAILED
    visit.rounds(lambda: visit.player.state.phase is Phase.OVER)
    assert visit.player.state.note == "The engine failed in step 5 of the tour, which ends here."
    assert not visit.player.over
    control.restart()
    control.state = HostState.RUNNING
    assert "KV precision q8 → fp16" in visit.ended()
    assert control.snapshot.knobs.kv_dtype is KVDtype.FP16


def test_steps_go_in_order_only_and_a_step_that_was_seen_is_not_done_twice() -> None:
    control = LabControl()
    visit = Visit(control)
    visit.player.next()
    assert visit.player.state.step == 0
    visit.player.act()
    visit.player.next()
    assert visit.player.state.step == 0
    visit.rounds(lambda: visit.player.state.steps[0].status is Status.SEEN)
    said = visit.player.state.steps[0].said
    visit.player.act()
    visit.player.advance()
    assert visit.player.state.steps[0] == dataclasses.replace(visit.player.state.steps[0], said=said)
    visit.player.next()
    assert [step.status for step in visit.player.state.steps[:3]] == [Status.SEEN, Status.READY, Status.AHEAD]


@pytest.mark.parametrize("slots", range(2, 65))
@pytest.mark.parametrize("spare", [0, 7])
def test_sizes_let_two_paused_turns_stay_and_no_third(slots: int, spare: int) -> None:
    blocks = (slots + 2) * 48 + slots + spare
    sizes = sizes_for(blocks, 16, 8192)
    begin, end = -(-(sizes.prompt + 1) // 16), -(-(sizes.longest + 1) // 16)
    assert sizes.tight
    assert sizes.output >= LEAST_OUTPUT
    assert sizes.slots * (end + 1) + 2 * end <= blocks
    assert sizes.slots * (begin + 1) + 3 * -(-sizes.prompt // 16) > blocks


def test_the_stand_in_has_turns_of_about_768_tokens_in_eight_slots() -> None:
    sizes = sizes_for(ARENA // 16, 16, 8192)
    assert (sizes.slots, sizes.longest) == (8, 767)
    assert 640 <= sizes.prompt <= 720


def test_an_arena_of_a_few_blocks_is_refused() -> None:
    with pytest.raises(Refused, match="the arena holds 160 tokens, too few"):
        sizes_for(10, 16, 8192)


def test_every_step_says_what_it_does_and_where_to_look() -> None:
    assert len(STEPS) == 6
    for step in STEPS:
        assert step.does.count(".") == 2, step.does
        assert step.watch


def test_what_happens_while_somebody_reads_is_not_kept() -> None:
    visit = Visit(LabControl())
    visit.seen()
    for _ in range(2000):
        visit.player.advance()
        visit.control.lab.tick()
    assert visit.player._stage.events == []
    assert len(visit.control.lab.core.events) > 100
    visit.seen()
