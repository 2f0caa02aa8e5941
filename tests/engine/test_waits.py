"""How long tools take: what is learnt, what is said of a wait that lasts, and how often that was right.

pytest tests/engine/test_waits.py
"""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.durations import Durations
from engine.turn import TurnId
from engine.waits import KEPT, LEAST, ROWS, TOOLS_KEPT, WaitBook

ONE, TWO = TurnId(1), TurnId(2)
SECONDS = st.floats(0.0, 1000.0)
SOME = st.lists(SECONDS, max_size=30).map(lambda found: Durations(tuple(sorted(found))))
# 8 durations: the longer half takes ten times as long.
KNOWN = Durations((1.0, 2.0, 3.0, 4.0, 10.0, 20.0, 30.0, 40.0))


def book_of(**durations: tuple[float, ...]) -> WaitBook:
    book = WaitBook()
    book.seed((tool, each) for tool, found in durations.items() for each in found)
    return book


# -- the rest of a wait -----------------------------------------------------------------------------------------------


def test_the_rest_is_of_the_durations_that_last_longer() -> None:
    # All: (1 + 2 + 3 + 4 + 10 + 20 + 30 + 40) / 8 = 13.75. After 4 s 10, 20, 30 and 40 are left: 25 - 4.
    assert KNOWN.mean_left(0.0) == 13.75
    assert KNOWN.mean_left(4.0) == 21.0
    assert KNOWN.mean_left(35.0) == 5.0
    assert KNOWN.mean_left(40.0) == 40.0, "longer than any: as long again"
    assert Durations().mean_left(7.0) == 7.0


def test_when_a_wait_is_as_likely_as_not_to_last_longer() -> None:
    # Medians: 7 of all, at 100 s 7 - 0 are left; after 1 s (2 .. 40) 10 - 1; after 2 s (3 .. 40) 15 - 2 = 13.
    assert KNOWN.outlasts_median(100.0, 6.9, now=100.0) == 100.0
    assert KNOWN.outlasts_median(100.0, 7.0, now=100.0) == 101.0
    assert KNOWN.outlasts_median(100.0, 12.0, now=100.0) == 102.0
    # After 4 s (10 .. 40) 25 - 4 = 21 is the most; nothing but time itself brings 22.
    assert KNOWN.outlasts_median(100.0, 20.9, now=100.0) == 104.0
    assert KNOWN.outlasts_median(100.0, 22.0, now=100.0) == 140.0
    assert KNOWN.outlasts_median(100.0, 50.0, now=100.0) == 150.0
    # Without durations the time since the call is the estimate.
    assert Durations().outlasts_median(100.0, 3.0, now=101.0) == 103.0
    assert Durations().outlasts_median(100.0, 3.0, now=104.0) == 104.0


def test_quantiles_as_everywhere() -> None:
    assert KNOWN.quantile(0.5) == 7.0
    assert KNOWN.quantile(0.9) == pytest.approx(33.0)
    assert Durations().quantile(0.5) is None


@given(known=SOME, since=st.floats(0, 1e6), least=st.floats(0, 500), after=st.floats(0, 1500), means=st.booleans())
def test_the_instant_that_is_named_is_the_first(
    known: Durations, since: float, least: float, after: float, means: bool
) -> None:
    """Before it the answer is no, at it yes, on whatever float it lies."""
    ask = known.outlasts_mean if means else known.outlasts_median
    now = since + after
    at = ask(since, least, now)
    assert at >= now
    assert at < math.inf
    assert ask(since, least, at) == at
    if at > now:
        for before in (math.nextafter(at, -math.inf), (now + at) / 2):
            if now <= before < at:
                assert ask(since, least, before) == at


@given(known=SOME, worth=st.floats(0, 5000))
def test_the_time_to_live_is_the_argmax(known: Durations, worth: float) -> None:
    def gain(tau: float) -> float:
        size = len(known.ascending)
        return (sum(each <= tau for each in known.ascending) / size if size else 0.0) * worth - tau

    tau = known.keep_s(worth)
    assert tau == 0.0 or tau in known.ascending
    assert gain(tau) >= max(map(gain, (0.0, *known.ascending))) - 1e-6


def test_the_time_to_live_by_hand() -> None:
    # Worth 9 s: t = 4 gives 4/8 x 9 - 4 = 0.5, t = 3 0.375, t = 10 5/8 x 9 - 10 < 0. Worth 8: 0 at each up to 4, so 0.
    assert KNOWN.keep_s(9.0) == 4.0
    assert KNOWN.keep_s(8.0) == 0.0
    # Worth 100 s: t = 40 gives 60; t = 30 gives 57.5.
    assert KNOWN.keep_s(100.0) == 40.0


# -- what is learnt ---------------------------------------------------------------------------------------------------


def test_the_tools_own_durations_once_there_are_enough_then_those_of_all() -> None:
    few = (5.0,) * (LEAST - 1)
    waits = book_of(bash=few).waits
    assert waits.of("bash").ascending == ()
    waits = book_of(bash=few, pytest=(1.0,)).waits
    assert waits.of("bash").ascending == waits.of("unknown").ascending == (1.0, *few)
    assert book_of(bash=(*few, 5.0), pytest=(1.0,)).waits.of("bash").ascending == (*few, 5.0)


def test_a_wait_is_learnt_when_its_result_comes_and_never_otherwise() -> None:
    book = WaitBook()
    for turn in (ONE, TWO):
        book.began(turn, "bash", 0.1)
    book.ended(ONE, 3.0, 13.0, here=True)
    book.over(TWO)
    everything, bash = book.waits.rows
    assert (everything.tool, bash.tool) == (None, "bash")
    assert (bash.ended, bash.p50, bash.p90, bash.cut_short) == (1, 3.0, 3.0, 1)
    book.over(ONE)
    assert book.waits.rows[1].cut_short == 1, "a turn that ends while it runs was not cut short"


def test_how_often_it_was_foretold_rightly_whether_a_wait_outlasts_its_copy() -> None:
    book = book_of(bash=(2.0,) * LEAST)
    for seconds, trip in ((3.0, 1.0), (0.5, 1.0), (1.0, 4.0), (9.0, 4.0), (9.0, 0.0)):
        book.began(ONE, "bash", trip)
        book.ended(ONE, seconds, 0.0, here=True)
    # Said: long, long, short, short, and of a turn without KV nothing. Came: long, short, short, long.
    row = book.waits.rows[1]
    assert (row.right, row.foretold) == (2, 4)
    assert (book.waits.rows[0].right, book.waits.rows[0].foretold) == (2, 4)


def test_it_stays_small() -> None:
    book = WaitBook()
    book.seed((f"tool {nth % 100}", float(nth)) for nth in range(100 * (KEPT + 20)))
    waits = book.waits
    assert len(waits.tools) == TOOLS_KEPT
    assert "tool 99" in waits.tools
    assert "tool 35" not in waits.tools, "who was seen longest ago leaves"
    assert len(waits.every.recent) == KEPT
    assert len(waits.rows) == ROWS + 1
    book = book_of(bash=tuple(map(float, range(KEPT + 10, 0, -1))))
    assert book.waits.tools["bash"].durations.ascending == tuple(map(float, range(1, KEPT + 1)))
    assert book.waits.rows[1].ended == KEPT + 10


def test_what_was_known_before_is_older_than_what_was_learnt() -> None:
    book = WaitBook()
    for seconds in (1.0, 2.0):
        book.began(ONE, "bash", 0.1)
        book.ended(ONE, seconds, 0.0, here=True)
    book.began(ONE, "bash", 0.1)
    book.over(ONE)
    book.seed((("bash", 9.0), ("pytest", 8.0)))
    assert book.waits.tools["bash"].recent == (9.0, 1.0, 2.0)
    assert book.waits.rows[1].cut_short == 1
    assert sorted(book.waits.known()) == [("bash", 1.0), ("bash", 2.0), ("bash", 9.0), ("pytest", 8.0)]


def test_the_queueing_gain_is_the_difference_of_the_means_once_both_are_known() -> None:
    book = WaitBook()
    for nth in range(LEAST):
        for here, seconds in ((True, 0.5), (False, 2.0)):
            assert book.waits.queueing_gain_s == 0.0
            book.began(ONE, "bash", 0.1)
            book.ended(ONE, 1.0, float(nth), here=here)
            book.started(ONE, nth + seconds)
    assert book.waits.queueing_gain_s == pytest.approx(1.5)
    book.began(ONE, "bash", 0.1)
    book.ended(ONE, 1.0, 0.0, here=False)
    book.held(ONE)
    book.started(ONE, 500.0)
    assert book.waits.queueing_gain_s == pytest.approx(1.5), "who is held by the operator waits for him"
