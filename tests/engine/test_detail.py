"""What the engine knows of one turn: its spans, what its moves have cost, the end of its text, and how it ended."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core import Core
from engine.errors import UnknownTurn
from engine.events import EventKind
from engine.history import SPANS_KEPT, History, Span
from engine.ledger import LATE_KEPT
from engine.snapshot import TurnDetail
from engine.turn import Phase, Tier, TurnId
from tests.engine.lab import STEP_S, Lab

AUTHOR = "page"


def decoding(lab: Lab, prompt: int = 64, tokens: int = 30) -> TurnId:
    turn = lab.ask(prompt, tokens)
    lab.run_until(lambda: len(lab.generated[turn]) >= 3)
    return turn


def told(detail: TurnDetail) -> list[tuple[Phase, Tier, bool]]:
    return [(span.phase, span.tier, span.held) for span in detail.spans]


def test_a_turn_that_runs_has_a_row_spans_and_the_end_of_its_text() -> None:
    lab = Lab()
    turn = decoding(lab)
    detail = lab.commands.turn_detail(turn)
    assert (detail.row.phase, detail.row.tier, detail.ended) == (Phase.DECODE, Tier.RESIDENT, "")
    assert detail.row.context_tokens == 64 + detail.text_tokens
    assert detail.row.kv_bytes > 0
    assert detail.prompt_end == lab.prompts[turn]
    assert detail.text_end == tuple(lab.generated[turn])
    assert detail.spans[0].start == detail.arrived_utc
    assert detail.spans[-1].end == detail.at_utc
    assert told(detail)[-1] == (Phase.DECODE, Tier.RESIDENT, False)


def test_a_pause_a_swap_and_the_way_back_are_spans_and_costs() -> None:
    lab = Lab()
    turn = decoding(lab)
    lab.commands.pause(turn, AUTHOR)
    lab.ticks(2)
    lab.commands.swap_out(turn, AUTHOR)
    lab.ticks(3)
    away = lab.commands.turn_detail(turn)
    assert told(away)[-2:] == [(Phase.PAUSED, Tier.RESIDENT, True), (Phase.PAUSED, Tier.HOST, True)]
    assert [round(span.seconds / STEP_S) for span in away.spans[-2:]] == [2, 3]
    assert away.row.host_bytes > 0
    assert (away.swapped_out.count, away.swapped_in.count) == (1, 0)
    assert away.queued_s == 0, "who is held by the operator waits for no slot"
    lab.commands.resume(turn, AUTHOR)
    generated = len(lab.generated[turn])
    lab.run_until(lambda: len(lab.generated[turn]) > generated)
    back = lab.commands.turn_detail(turn)
    assert (back.swapped_in.count, back.swapped_in.nbytes) == (1, back.swapped_out.nbytes)
    assert back.swapped_in.seconds > 0


def test_a_recompute_is_counted_while_it_runs() -> None:
    lab = Lab()
    lab.commands.set_knobs({"prefill_chunk": 32}, AUTHOR)
    turn = decoding(lab, prompt=100)
    lab.commands.drop(turn, AUTHOR)
    assert told(lab.commands.turn_detail(turn))[-1][0] is Phase.DECODE, "the new span has no length yet"
    lab.commands.resume(turn, AUTHOR)
    lab.run_until(lambda: lab.core.backend.holding(turn).kv_tokens == 32)
    halfway = lab.commands.turn_detail(turn).recomputed
    assert (halfway.count, halfway.tokens) == (1, 32)
    assert halfway.seconds > 0
    lab.run_until(lambda: bool(lab.core.moves))
    whole = lab.commands.turn_detail(turn)
    assert (whole.recomputed.count, whole.recomputed.tokens) == (1, lab.core.counters.recomputed_tokens)
    assert whole.row.recomputed_tokens == whole.recomputed.tokens


def test_waits_on_tools_and_for_slots_are_summed_over_the_whole_life() -> None:
    lab = Lab()
    lab.commands.set_knobs({"max_running": 1}, AUTHOR)
    first = lab.ask(40, 10)
    turn = lab.ask(40, 4, salt=1, then_block="pytest")
    lab.run_until(lambda: lab.phase(turn) is Phase.BLOCKED)
    queued = lab.commands.turn_detail(turn).queued_s
    assert lab.phase(first).ended
    assert queued >= 8 * STEP_S
    lab.ticks(5)
    detail = lab.commands.turn_detail(turn)
    assert detail.spans[-1].tool == "pytest"
    assert detail.blocked_s == pytest.approx(5 * STEP_S, abs=1.5 * STEP_S)
    lab.unblock(turn, range(30), 4)
    lab.run_until(lambda: lab.phase(turn).ended)
    after = lab.commands.turn_detail(turn)
    assert after.text_tokens == 4 + 30 + 4
    assert after.blocked_s >= detail.blocked_s


@pytest.mark.parametrize("end", ["done", "cancel"])
def test_one_that_ended_is_still_told_with_how(end: str) -> None:
    lab = Lab()
    turn = decoding(lab, tokens=12)
    if end == "cancel":
        lab.commands.cancel(turn, "page")
    else:
        lab.finish([turn])
    detail = lab.commands.turn_detail(turn)
    assert detail.ended == ("bench cancelled while decode" if end == "cancel" else "bench done: 12 tokens (length)")
    assert (detail.row.kv_bytes, detail.row.host_bytes, detail.row.tier) == (0, 0, Tier.NONE)
    assert detail.text_end == tuple(lab.generated[turn])
    lab.ticks(10)
    assert lab.commands.turn_detail(turn) == detail, "nothing goes on after the end"


def test_only_the_last_few_that_ended_are_kept() -> None:
    lab = Lab()
    turns = [lab.ask(20, 2, salt=salt) for salt in range(LATE_KEPT + 3)]
    lab.finish(turns)
    kept = [live.id for live in lab.core.ledger.late]
    assert len(kept) == LATE_KEPT
    gone = next(turn for turn in turns if turn not in kept)
    with pytest.raises(UnknownTurn, match=rf"turn {gone} is over \(done\)"):
        lab.commands.turn_detail(gone)
    with pytest.raises(UnknownTurn, match="turn 999 is not known"):
        lab.commands.turn_detail(TurnId(999))


def test_many_changes_of_a_knob_are_one_span() -> None:
    lab = Lab()
    turn = decoding(lab)
    lab.commands.pause(turn, AUTHOR)
    lab.ticks(1)
    before = len(lab.commands.turn_detail(turn).spans)
    for step in range(3 * SPANS_KEPT):
        lab.commands.set_knobs({"min_quantum_s": 0.1 + step / 1000}, AUTHOR)
        lab.ticks(1)
    assert len(lab.commands.turn_detail(turn).spans) == before


PHASES = st.tuples(
    st.sampled_from([Phase.WAITING, Phase.DECODE, Phase.PAUSED, Phase.BLOCKED]),
    st.sampled_from([Tier.RESIDENT, Tier.HOST]),
    st.booleans(),
    st.integers(1, 50),
)


@given(st.lists(PHASES, max_size=4 * SPANS_KEPT))
def test_spans_are_bounded_joined_and_without_gaps(changes: list[tuple[Phase, Tier, bool, int]]) -> None:
    past, at = History(), 0.0
    for phase, tier, held, seconds in changes:
        past.add(Span(at, at + seconds, phase, tier, None, held))
        at += seconds
    spans = list(past.spans)
    assert len(spans) <= SPANS_KEPT
    assert all(a.end == b.start for a, b in pairwise(spans))
    assert not any(a.goes_on_in(b) for a, b in pairwise(spans))
    assert not changes or spans[-1].end == at
    assert past.blocked_s == sum(s for phase, _, _, s in changes if phase is Phase.BLOCKED)
    assert past.queued_s == sum(
        s for phase, _, held, s in changes if phase in (Phase.WAITING, Phase.PAUSED) and not held
    )


@settings(max_examples=25)
@given(st.lists(st.sampled_from(["drop", "swap_out", "pause", "resume", "cancel", "tick"]), max_size=30))
def test_whatever_is_done_costs_add_up_to_what_was_booked(script: list[str]) -> None:
    lab = Lab(arena_tokens=512)
    turn = lab.ask(90, 40)
    lab.ticks(4)
    for verb in script:
        live = lab.core.ledger.turns.get(turn)
        if live is None:
            break
        movable = {"drop": (Tier.RESIDENT, Tier.HOST), "swap_out": (Tier.RESIDENT,)}
        if verb == "tick":
            lab.ticks(2)
        elif live.tier in movable.get(verb, (live.tier,)) and (
            verb not in ("pause", "resume") or live.held == (verb == "resume")
        ):
            getattr(lab.commands, verb)(turn, AUTHOR)
        check(lab.core, lab.commands.turn_detail(turn))


def check(core: Core, detail: TurnDetail) -> None:
    for kind, paid in ((EventKind.SWAP_OUT, detail.swapped_out), (EventKind.SWAP_IN, detail.swapped_in)):
        booked = [move for move in core.moves if move.kind is kind]
        assert (paid.count, paid.nbytes) == (len(booked), sum(move.nbytes for move in booked))
    assert detail.recomputed.tokens == core.counters.recomputed_tokens
    assert all(a.end == b.start for a, b in pairwise(detail.spans))
    assert detail.row.tier is Tier.NONE or detail.spans
