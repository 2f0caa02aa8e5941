"""Rates and latencies: none before the first value, none negative, fractions in 0..1 (cases X3, X5)."""

import pytest

from engine.snapshot import Rates
from engine.stats import DISTINCT_KEPT, Stats, quantile
from engine.turn import Priority


def test_nothing_measured_is_none_and_idle_is_zero() -> None:
    rates = Stats(0.0).rates(1.0)
    assert rates == Rates(decode_tokens_per_s=0.0, prefill_tokens_per_s=0.0)


def test_the_rate_is_over_the_last_ten_seconds_and_falls_to_zero() -> None:
    stats = Stats(0.0)
    for second in range(20):
        stats.tokens(second, prefill=0, decode=50)
    assert stats.rates(19.0).decode_tokens_per_s == pytest.approx(55.0)
    assert stats.rates(100.0).decode_tokens_per_s == 0.0


def test_a_short_life_is_not_diluted() -> None:
    stats = Stats(100.0)
    stats.tokens(101.0, prefill=0, decode=40)
    assert stats.rates(102.0).decode_tokens_per_s == pytest.approx(20.0)


def test_foreground_latency_is_kept_apart() -> None:
    stats = Stats(0.0)
    stats.first_token(0.2, Priority.FOREGROUND)
    stats.first_token(4.0, Priority.BACKGROUND)
    rates = stats.rates(1.0)
    assert rates.ttft_foreground_p50 == pytest.approx(0.2)
    assert rates.ttft_p95 == pytest.approx(0.2 + 0.95 * 3.8)


def test_quantiles() -> None:
    assert quantile([], 0.5) is None
    assert quantile([3.0], 0.95) == 3.0
    assert quantile([1.0, 2.0, 3.0, 4.0], 0.5) == 2.5


def test_the_latencies_of_a_sample_are_those_since_the_one_before() -> None:
    stats = Stats(0.0)
    for seconds in (0.04, 0.02, 0.04):
        stats.next_token(1.0, seconds)
    assert stats.new_latencies() == ((0.02, 1), (0.04, 2))
    assert stats.new_latencies() == ()
    assert stats.rates(1.0).itl_p50 == pytest.approx(0.04)


def test_a_latency_that_a_change_lies_in_is_of_neither_side() -> None:
    stats = Stats(0.0)
    stats.cut(5.0)
    stats.next_token(5.1, 0.3)
    stats.next_token(5.2, 0.1)
    assert stats.new_latencies() == ((0.1, 1),)


def test_many_different_latencies_are_told_in_few_and_none_is_lost() -> None:
    stats = Stats(0.0)
    values = [0.01 + 0.0001 * i for i in range(1000)]
    for seconds in values:
        stats.next_token(10.0, seconds)
    told = stats.new_latencies()
    assert len(told) <= DISTINCT_KEPT
    assert sum(count for _, count in told) == 1000
    assert sum(s * n for s, n in told) == pytest.approx(sum(values))
    assert told == tuple(sorted(told))
