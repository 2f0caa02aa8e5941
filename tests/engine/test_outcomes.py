"""What each policy came to while it was in force: the session cut at the policy's changes, nothing counted twice.

pytest tests/engine/test_outcomes.py
"""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.events import Event, EventKind
from engine.histogram import CLASSES, EDGES, place_of, quantile_of
from engine.outcomes import outcomes
from engine.snapshot import Counters, Sample
from engine.stats import Stats
from engine.turn import Priority
from tests.engine.test_effect import event, sample


def policy_change(at: float, old: str, new: str) -> Event:
    return event(at, "policy", old, new)


def counts(*latencies: float) -> tuple[int, ...]:
    found = [0] * CLASSES
    for seconds in latencies:
        found[place_of(seconds)] += 1
    return tuple(found)


def at(seconds: float, tokens: int, **more: object) -> Sample:
    return sample(seconds, counters=Counters(generated_tokens=tokens, **more))  # type: ignore[arg-type]


def test_a_session_under_one_policy_is_its_alone() -> None:
    (one,) = outcomes("walk-down", (), [at(10.0, 0), at(20.0, 500, swaps_out=2, swap_out_bytes=64)], 21.0)
    assert (one.policy, one.now) == ("walk-down", True)
    assert (one.in_force_s, one.measured_s) == (11.0, 10.0)
    assert (one.generated_tokens, one.tokens_per_s, one.swaps, one.swapped_bytes) == (500, 50.0, 2, 64)
    assert one.ttft_foreground_p95_s is None


def test_spans_of_a_policy_are_added_up_and_a_straddling_pair_is_nobodys() -> None:
    events = [policy_change(10.0, "a", "b"), event(12.0, "max_running", "8", "6"), policy_change(20.0, "b", "a")]
    samples = [
        at(0.0, 0),
        at(9.0, 90),
        at(11.0, 150),
        at(19.0, 950, recomputed_tokens=7),
        at(20.0, 1_000),
        at(30.0, 1_100),
    ]
    first, second = outcomes("a", events, samples, 30.0)
    assert (first.policy, first.now, first.in_force_s, first.measured_s) == ("a", True, 20.0, 19.0)
    assert first.generated_tokens == 90 + 100
    assert (second.policy, second.now, second.in_force_s, second.measured_s) == ("b", False, 10.0, 8.0)
    assert (second.generated_tokens, second.recomputed_tokens) == (800, 7)


def test_ttft_is_of_the_span_alone() -> None:
    before, after = counts(*[4.0] * 30), counts(*[4.0] * 30, *[0.1] * 99, 0.4)
    samples = [sample(0.0, ttft_counts=counts()), sample(9.0, ttft_counts=before), sample(10.0, ttft_counts=before),
               sample(20.0, ttft_counts=after)]  # fmt: skip
    first, second = outcomes("b", [policy_change(10.0, "a", "b")], samples, 20.0)
    assert first.first_tokens == 30
    assert first.ttft_foreground_p95_s == pytest.approx(4.0, rel=0.13)
    assert second.first_tokens == 100
    assert second.ttft_foreground_p95_s == pytest.approx(0.1, rel=0.13)


def test_without_a_sample_nothing_is_known() -> None:
    assert outcomes("a", [policy_change(3.0, "b", "a")], (), 9.0) == ()


POLICIES = st.sampled_from(("a", "b", "c"))


@given(st.lists(st.floats(0.0, 100.0), min_size=2, unique=True), st.lists(st.tuples(st.floats(0.0, 100.0), POLICIES)))
def test_every_second_and_token_is_at_most_one_policys(instants: list[float], changes: list[tuple[float, str]]) -> None:
    samples = [at(one, round(one * 10)) for one in sorted(instants)]
    events, policy = [], "a"
    for when, new in sorted(changes):
        events.append(policy_change(when, policy, new))
        policy = new
    found = outcomes(policy, events, samples, samples[-1].at)
    lasted = samples[-1].at - samples[0].at
    assert sum(one.measured_s for one in found) <= lasted + 1e-6
    assert sum(one.generated_tokens for one in found) <= samples[-1].counters.generated_tokens
    assert all(one.in_force_s >= 0 and one.generated_tokens >= 0 for one in found)
    assert [one.policy for one in found if one.now] == [policy]


@given(st.lists(st.floats(1e-4, 2_000.0), min_size=1, max_size=60), st.floats(0.01, 1.0))
def test_a_quantile_lies_in_a_class_that_holds_as_many(latencies: list[float], q: float) -> None:
    value = quantile_of(counts(*latencies), q)
    ordered = sorted(latencies)
    true = min(max(ordered[min(int(q * len(ordered) - 1e-9), len(ordered) - 1)], EDGES[0]), EDGES[-1])
    assert value is not None
    assert true / 1.13 <= value <= true * 1.13


def test_no_latency_has_no_quantile_and_classes_grow() -> None:
    assert quantile_of(counts(), 0.95) is None
    assert all(low < high < low * 1.13 for low, high in pairwise(EDGES))


def test_only_the_foreground_is_counted() -> None:
    stats = Stats(0.0)
    stats.first_token(0.5, Priority.FOREGROUND)
    stats.first_token(0.5, Priority.BACKGROUND)
    assert stats.foreground_counts() == counts(0.5)


def test_events_of_other_kinds_cut_nothing() -> None:
    other = Event(5.0, 5.0, 1, EventKind.SWARM, "tab 1", "policy", name="policy", old="x", new="y")
    assert [one.policy for one in outcomes("a", [other], [at(0.0, 0), at(9.0, 9)], 9.0)] == ["a"]
