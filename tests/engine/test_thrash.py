"""A move of KV that is undone at once is counted as thrash, each once, and told at most once a second."""

from itertools import pairwise

import pytest

from engine.events import EventKind
from engine.knobs import Knobs
from engine.thrash import THRASH_S, TOLD_EVERY_S, Telling
from engine.turn import Phase, Tier, TurnId
from engine.view import Reason
from tests.engine.lab import Lab


def blocked_turn(lab: Lab, salt: int = 0) -> TurnId:
    turn = lab.ask(40, 3, salt=salt, then_block="bash")
    lab.run_until(lambda: lab.phase(turn) is Phase.BLOCKED)
    return turn


def out(lab: Lab, turn: TurnId, **more: object) -> None:
    assert lab.core.swap_out(lab.core.ledger.find(turn), lab.lab_clock.at, Reason.WATERMARK, **more)  # type: ignore[arg-type]


def back(lab: Lab, turn: TurnId) -> None:
    assert lab.core.swap_in(lab.core.ledger.find(turn), lab.lab_clock.at)


def told(lab: Lab) -> list[str]:
    return [event.text for event in lab.core.events if event.kind is EventKind.THRASH]


@pytest.mark.parametrize(("waits", "counted"), [((0.5, 0.5), 2), ((5.0, 0.5), 1), ((0.5, 5.0), 1), ((5.0, 5.0), 0)])
def test_leaving_soon_after_coming_back_and_coming_back_soon_after_leaving_are_thrash(
    waits: tuple[float, float], counted: int
) -> None:
    lab = Lab()
    turn = blocked_turn(lab)
    out(lab, turn)
    assert lab.core.counters.thrashes == 0, "it had never left before"
    lab.lab_clock.at += waits[0]
    back(lab, turn)
    lab.lab_clock.at += waits[1]
    out(lab, turn)
    assert lab.core.counters.thrashes == counted
    assert len(told(lab)) == min(1, counted)


def test_a_recompute_is_a_way_back_and_a_first_prefill_is_none() -> None:
    lab = Lab()
    turn = lab.ask(40, 30)
    lab.ticks(3)
    assert lab.core.ledger.find(turn).tier is Tier.RESIDENT
    lab.core.preempt(lab.core.ledger.find(turn), lab.lab_clock.at, "here")
    lab.core.drop(lab.core.ledger.find(turn), lab.lab_clock.at, Reason.WATERMARK)
    assert lab.core.counters.thrashes == 0
    lab.finish([turn])
    assert lab.core.counters.thrashes == 1
    assert "came back" in told(lab)[0]


def test_what_an_operator_moves_is_no_thrash() -> None:
    lab = Lab()
    turn = blocked_turn(lab)
    out(lab, turn, author="tab 1")
    lab.lab_clock.at += 0.5
    back(lab, turn)
    assert lab.core.counters.thrashes == 0
    lab.lab_clock.at += 0.5
    lab.core.drop(lab.core.ledger.find(turn), lab.lab_clock.at, Reason.PRECISION)
    assert lab.core.counters.thrashes == 0


def test_a_storm_is_one_event_a_second_and_each_move_is_counted() -> None:
    lab = Lab()
    turns = [blocked_turn(lab, salt) for salt in range(4)]
    for _ in range(30):
        for turn in turns:
            out(lab, turn)
            lab.lab_clock.at += 0.01
            back(lab, turn)
            lab.lab_clock.at += 0.01
    assert lab.core.counters.thrashes == 4 * (30 + 29)
    events = [event for event in lab.core.events if event.kind is EventKind.THRASH]
    assert all(later.at - earlier.at >= TOLD_EVERY_S for earlier, later in pairwise(events))
    assert 2 <= len(events) <= 3
    assert "such moves since the last event" in events[1].text


def test_every_move_is_in_the_count_of_some_event_or_still_to_be_told() -> None:
    telling = Telling()
    found = [telling.note(n * 0.3) for n in range(20)]
    assert found[0] == 1
    assert found[1:4] == [None] * 3
    assert found[4] == 4
    assert 20 - sum(count or 0 for count in found) < 4


def test_the_governors_own_dwell_keeps_background_from_the_fastest_thrash() -> None:
    """Two sets that do not fit together, for a minute: the arena's and the turns' own way of it."""
    lab = Lab(arena_tokens=160, host_tokens=4096, knobs=Knobs(max_running=1, min_quantum_s=0.0))
    turns = [lab.ask(60, 60, salt=salt) for salt in range(4)]
    lab.finish(turns)
    assert lab.core.counters.thrashes <= 2 * 60 / THRASH_S
    for turn in turns:
        lab.assert_right(turn)
