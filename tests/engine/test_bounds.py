"""Nothing that the engine remembers grows with the length of a run: each history has its bound, and memory is flat."""

import gc
import tracemalloc

from engine.books import MOVES_KEPT
from engine.event_log import CHANGES_KEPT, EVENTS_KEPT
from engine.events import EventKind
from engine.ledger import ENDED_KEPT, LATE_KEPT
from engine.publish import Publisher
from engine.snapshot import HostState, Sample
from engine.stats import LATENCIES_KEPT, RATE_WINDOW_S, Stats
from engine.turn import Priority, TurnId
from tests.engine.lab import Lab

FLAT_BYTES = 50_000


def test_events_and_moves_keep_the_latest() -> None:
    lab = Lab()
    turn = lab.core.ledger.find(lab.ask(20, 4))
    made = EVENTS_KEPT + 2 * CHANGES_KEPT
    for number in range(made):
        lab.core.event(EventKind.SWARM, "bench", str(number))
    assert len(lab.core.events) == EVENTS_KEPT
    assert len(lab.core.events.copy()) == EVENTS_KEPT + CHANGES_KEPT
    assert lab.core.events.latest(1)[0].text == str(made - 1)
    for number in range(MOVES_KEPT + 10):
        lab.core.recompute(turn, 1 + number, 0.001, whole=True)
    assert len(lab.core.moves) == MOVES_KEPT
    assert lab.core.moves[-1].tokens == MOVES_KEPT + 10
    assert len(lab.core.events) == EVENTS_KEPT


def test_turns_that_ended_are_forgotten_but_for_the_latest() -> None:
    lab = Lab()
    turns = [cancelled(lab, salt) for salt in range(ENDED_KEPT + 20)]
    assert len(lab.core.ledger.ended) == ENDED_KEPT
    assert [turn.id for turn in lab.core.ledger.late] == turns[-LATE_KEPT:]
    assert lab.leaked() == (0, 0)


def test_latencies_and_rates_keep_their_window() -> None:
    """Ten minutes at a hundred steps a second, read as often as a snapshot is published."""
    stats = Stats(0.0)
    sizes = []
    tracemalloc.start()
    for second in range(0, 600, 4):
        for step in range(400):
            at = second + step / 100
            stats.tokens(at, 16, 8)
            for _ in range(8):
                stats.next_token(at, 0.08)
            stats.first_token(0.2, Priority.FOREGROUND)
        rates = stats.rates(second + 4.0)
        stats.new_latencies()
        sizes.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    warm = sizes[int(60 / 4) + LATENCIES_KEPT // 400 + int(RATE_WINDOW_S / 4) :]
    assert max(warm) - min(warm) < FLAT_BYTES
    assert rates.decode_tokens_per_s == 800.0


def test_an_engine_that_takes_turn_after_turn_holds_no_more_than_before() -> None:
    lab = Lab()
    for salt in range(ENDED_KEPT):
        cancelled(lab, salt)
    churn(lab, 40)
    before = objects()
    churn(lab, 200)
    assert abs(objects() - before) < 100


def test_charts_thin_what_the_recorder_gets_whole() -> None:
    lab = Lab()
    taken: list[Sample] = []
    publisher = Publisher("s", lab.core, None, 768, taken.append)
    hours = 6
    for _ in range(hours * 3600):
        publisher.snapshot(HostState.IDLE, None, 0)
        lab.lab_clock.at += 1.0
    assert len(taken) == hours * 3600
    assert len(publisher.samples) < 1_000
    assert publisher.samples[-1] is taken[-1]
    assert list(publisher.samples[-180:]) == taken[-180:]


def cancelled(lab: Lab, salt: int) -> TurnId:
    turn = lab.ask(20, 4, salt=salt)
    lab.commands.cancel(turn, "bench")
    lab.generated.pop(turn)
    lab.prompts.pop(turn)
    return turn


def churn(lab: Lab, turns: int) -> None:
    """Each waits, runs, is dropped, runs again and ends, and so makes events and a move of its own."""
    publisher = Publisher("s", lab.core, None, 768, lambda sample: None)
    for salt in range(turns):
        turn = lab.ask(40, 4, salt=salt)
        lab.ticks(2)
        lab.commands.drop(turn, "bench")
        lab.commands.resume(turn, "bench")
        lab.finish([turn])
        publisher.snapshot(HostState.RUNNING, None, 0)
        # The rig's own notes are no part of the engine; moves are kept by the thousand, so none is full here.
        lab.generated.clear()
        lab.prompts.clear()
        lab.intervals.clear()
        lab.core.moves.clear()


def objects() -> int:
    gc.collect()
    return len(gc.get_objects())
