"""What each swap and recompute cost, as the engine books it: tokens, bytes and seconds that really passed."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.backends.base import StepPlan, StepResult
from engine.events import EventKind, MoveCost
from engine.turn import Phase, Tier, TurnId
from tests.engine.lab import Lab

AUTHOR = "page"


class Timed(Lab):
    """Knows the seconds of every step of the backend."""

    def __init__(self, **more: int) -> None:
        super().__init__(**more)
        self.steps: list[StepResult] = []
        real = self.core.backend.step

        def step(plan: StepPlan) -> StepResult:
            self.steps.append(real(plan))
            return self.steps[-1]

        self.core.backend.step = step  # type: ignore[method-assign]

    def booked(self, kind: EventKind) -> list[MoveCost]:
        return [move for move in self.core.moves if move.kind is kind]

    def decoding(self, prompt: int, tokens: int, generated: int = 3, salt: int = 0) -> TurnId:
        """A turn that has generated `generated` of `tokens` tokens."""
        turn = self.ask(prompt, tokens, salt)
        self.run_until(lambda: len(self.generated[turn]) >= generated)
        return turn


def test_a_swap_out_and_in_are_booked_with_context_bytes_and_seconds() -> None:
    lab = Timed()
    turn = lab.decoding(64, 20)
    context = lab.core.backend.holding(turn).kv_tokens
    lab.commands.swap_out(turn, AUTHOR)
    (out,) = lab.core.moves
    assert (out.kind, out.turn, out.agent, out.tokens) == (EventKind.SWAP_OUT, turn, "bench", context)
    lab.commands.resume(turn, AUTHOR)
    lab.finish([turn])
    lab.assert_right(turn)
    assert [move.kind for move in lab.core.moves] == [EventKind.SWAP_OUT, EventKind.SWAP_IN]
    back = lab.core.moves[1]
    assert (back.tokens, back.nbytes) == (out.tokens, out.nbytes)
    counters = lab.core.counters
    assert (out.nbytes, back.nbytes) == (counters.swap_out_bytes, counters.swap_in_bytes)
    assert out.seconds + back.seconds == pytest.approx(counters.swap_seconds)
    assert min(out.seconds, back.seconds) > 0


def test_a_recompute_is_one_entry_and_one_event_with_the_seconds_of_its_steps() -> None:
    lab = Timed()
    lab.commands.set_knobs({"prefill_chunk": 32}, AUTHOR)
    turn = lab.decoding(100, 20)
    before = lab.core.backend.holding(turn).kv_tokens
    assert not lab.core.moves, "a first prefill is no recompute"
    lab.commands.drop(turn, AUTHOR)
    lab.commands.resume(turn, AUTHOR)
    first = len(lab.steps)
    generated = len(lab.generated[turn])
    lab.run_until(lambda: len(lab.generated[turn]) > generated)
    (move,) = lab.core.moves
    assert (move.kind, move.tokens, move.nbytes) == (EventKind.RECOMPUTE, before, 0)
    took = sum(step.seconds for step in lab.steps[first:])
    assert len(lab.steps) - first == 4
    assert move.seconds == pytest.approx(took)
    (event,) = [event for event in lab.core.events if event.kind is EventKind.RECOMPUTE]
    assert event.seconds == pytest.approx(took)
    assert event.text.startswith(f"bench recomputed {before} tokens in ")
    lab.finish([turn])
    lab.assert_right(turn)
    assert len(lab.core.moves) == 1


def test_new_tokens_behind_a_recomputed_context_are_not_counted() -> None:
    lab = Timed()
    turn = lab.ask(50, 4, then_block="tool")
    lab.run_until(lambda: lab.phase(turn) is Phase.BLOCKED)
    once = lab.core.backend.holding(turn).kv_tokens
    lab.commands.drop(turn, AUTHOR)
    lab.unblock(turn, range(30), 4)
    lab.finish([turn])
    (move,) = lab.booked(EventKind.RECOMPUTE)
    assert move.tokens == once == lab.core.counters.recomputed_tokens


def halfway(lab: Timed) -> tuple[TurnId, int]:
    """A turn whose recompute has run for one chunk of 32 tokens, and the whole of its context."""
    lab.commands.set_knobs({"prefill_chunk": 32}, AUTHOR)
    turn = lab.decoding(100, 20)
    context = lab.core.backend.holding(turn).kv_tokens
    lab.commands.drop(turn, AUTHOR)
    lab.commands.resume(turn, AUTHOR)
    lab.run_until(lambda: lab.core.backend.holding(turn).kv_tokens == 32)
    assert not lab.booked(EventKind.RECOMPUTE)
    return turn, context


def test_a_pause_or_a_swap_halfway_splits_no_recompute() -> None:
    lab = Timed()
    turn, context = halfway(lab)
    lab.commands.pause(turn, AUTHOR)
    lab.ticks(3)
    lab.commands.swap_out(turn, AUTHOR)
    lab.commands.resume(turn, AUTHOR)
    lab.finish([turn])
    assert [move.tokens for move in lab.booked(EventKind.RECOMPUTE)] == [context]
    assert [move.tokens for move in lab.booked(EventKind.SWAP_OUT)] == [32]


def test_a_second_drop_halfway_books_what_ran_and_then_all_of_it() -> None:
    lab = Timed()
    turn, context = halfway(lab)
    lab.commands.drop(turn, AUTHOR)
    assert [move.tokens for move in lab.booked(EventKind.RECOMPUTE)] == [32]
    lab.commands.resume(turn, AUTHOR)
    lab.finish([turn])
    assert [move.tokens for move in lab.booked(EventKind.RECOMPUTE)] == [32, context]


def test_a_cancel_halfway_books_what_ran() -> None:
    lab = Timed()
    turn, _ = halfway(lab)
    lab.commands.cancel(turn, AUTHOR)
    assert [move.tokens for move in lab.booked(EventKind.RECOMPUTE)] == [32]


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.sampled_from(["drop", "swap", "pause", "cancel", "tick"]), st.integers(0, 3)), max_size=40)
)
def test_entries_add_up_to_the_counters(script: list[tuple[str, int]]) -> None:
    """Whatever is done to four turns: what is booked is what was counted, and an event stands for each recompute."""
    lab = Timed(arena_tokens=512, host_tokens=1024)
    lab.commands.set_knobs({"prefill_chunk": 32}, AUTHOR)
    turns = [lab.ask(60 + 20 * salt, 12, salt) for salt in range(4)]
    lab.ticks(6)
    for verb, which in script:
        live = lab.core.ledger.turns.get(turns[which])
        if verb == "tick" or live is None:
            lab.ticks(2)
        elif verb == "drop" and live.tier in (Tier.RESIDENT, Tier.HOST):
            lab.commands.drop(live.id, AUTHOR)
        elif verb == "swap" and live.tier is Tier.RESIDENT:
            lab.commands.swap_out(live.id, AUTHOR)
        elif verb == "pause" and not live.held:
            lab.commands.pause(live.id, AUTHOR)
        elif verb == "cancel":
            lab.commands.cancel(live.id, AUTHOR)
        for held in [turn for turn in lab.core.ledger if turn.held]:
            lab.commands.resume(held.id, AUTHOR)
    lab.finish(turns)
    moves, counters = lab.core.moves, lab.core.counters
    again = lab.booked(EventKind.RECOMPUTE)
    assert sum(move.tokens for move in again) == counters.recomputed_tokens
    assert len(again) == sum(event.kind is EventKind.RECOMPUTE for event in lab.core.events)
    assert sum(move.nbytes for move in moves) == counters.swap_out_bytes + counters.swap_in_bytes
    assert all(move.seconds > 0 and move.tokens > 0 for move in moves)
