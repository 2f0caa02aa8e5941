"""Spans, ratios to their neighbours, and the meter that cuts them."""

import math
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.bench import spans as module
from app.bench.spans import Meter, Reading, Span, alternation, cost, median_speed, ratios
from engine.errors import Refused

TURN = 256


def at(kind: str, tokens_per_s: float) -> Span:
    return Span(kind, 2.0, round(2.0 * tokens_per_s))


def test_a_base_span_stands_on_both_sides_of_each_other() -> None:
    assert list(alternation(["one", "three"], 2, "none")) == [
        "none", "one", "none", "three", "none", "one", "none", "three", "none",
    ]  # fmt: skip


def test_each_span_is_held_against_the_mean_of_its_neighbours() -> None:
    seen = [at("none", 100), at("one", 90), at("none", 80), at("three", 60), at("none", 160)]
    assert ratios(seen, "one", "none") == (1.0,)
    assert ratios(seen, "three", "none") == (0.5,)
    assert ratios([at("one", 50), at("none", 100)], "one", "none") == (0.5,)


def test_the_cost_is_of_the_median_ratio_with_its_quartiles() -> None:
    seen = [at("none", 100)]
    for speed in (95, 90, 10):
        seen += [at("one", speed), at("none", 100)]
    found = cost(seen, "one", "none")
    assert found.share == pytest.approx(0.10)
    assert found.low < found.share < found.high
    assert median_speed(seen, "one") == 90


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(Refused, match="no span 'none' beside it"):
        ratios([at("one", 1), at("one", 1)], "one", "none")
    with pytest.raises(Refused, match="there is no span 'three'"):
        cost([at("none", 1), at("one", 1), at("none", 1)], "three", "none")


@given(
    base=st.floats(10, 1000),
    drift=st.floats(-0.02, 0.02),
    share=st.floats(0.0, 0.5),
    rounds=st.integers(1, 6),
)
def test_a_steady_drift_of_the_machine_is_no_cost(base: float, drift: float, share: float, rounds: int) -> None:
    seen = []
    for number, kind in enumerate(alternation(["one"], rounds, "none")):
        speed = base * (1 + drift * number) * (1.0 if kind == "none" else 1.0 - share)
        seen.append(Span(kind, 1e6 / speed, 10**6))
    found = cost(seen, "one", "none")
    for value in (found.share, found.low, found.high):
        assert math.isclose(value, share, abs_tol=1e-9)


@dataclass(slots=True)
class Engine:
    """Generates `step` tokens each time it is looked at, a tenth of a second apart; stands still at `most`."""

    tokens: int = 0
    step: int = 10
    most: int = 10**9
    at: float = 0.0

    def read(self) -> Reading:
        self.tokens, self.at = min(self.tokens + self.step, self.most), self.at + 0.1
        return Reading(self.at, self.tokens)


@given(begun=st.integers(0, 3 * TURN), step=st.integers(1, 40), turns=st.integers(1, 3))
def test_a_span_has_whole_turns_and_begins_between_two_ends(begun: int, step: int, turns: int) -> None:
    engine = Engine(begun, step)
    span = Meter(engine.read, TURN, poll_s=0.0).span("none", turns)
    assert turns * TURN <= span.tokens < turns * TURN + step
    assert span.tokens_per_s == pytest.approx(step / 0.1)
    start = engine.tokens - span.tokens
    assert 0 <= (start - TURN // 2) % TURN < step


def test_an_engine_that_stands_still_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STUCK_S", 0.01)
    meter = Meter(Engine(most=300).read, TURN, poll_s=0.001)
    meter.warm_up(1)
    with pytest.raises(Refused, match="generated nothing"):
        meter.warm_up(2)
