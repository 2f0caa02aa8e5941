"""Thinning keeps ends and extremes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.record.thin import thin
from tests.engine.record.records import sample


@given(st.lists(st.integers(-1000, 1000), max_size=400), st.integers(4, 60))
def test_bounded_ordered_with_ends_and_extremes(values: list[int], limit: int) -> None:
    points = list(enumerate(values))
    kept = thin(points, limit, (lambda point: float(point[1]),))
    assert len(kept) <= limit
    assert kept == sorted(set(kept))
    assert set(kept) <= set(points)
    if values:
        assert kept[0] == points[0]
        assert kept[-1] == points[-1]
        assert {max(values), min(values)} <= {value for _, value in kept}


def test_samples_by_used_bytes_keep_a_lone_peak() -> None:
    samples = [sample(number, running_kv=10**9 if number == 4321 else number % 7) for number in range(10_000)]
    kept = thin(samples)
    assert len(kept) <= 1000
    assert samples[4321] in kept
    assert thin(samples[:1000]) == samples[:1000]


def test_two_keys_and_a_limit_that_is_too_low() -> None:
    points = [(number, -number) for number in range(100)]
    kept = thin(points, 10, (lambda p: float(p[0]), lambda p: float(p[1])))
    assert len(kept) <= 10
    with pytest.raises(ValueError, match="under 6"):
        thin(points, 5, (lambda p: float(p[0]), lambda p: float(p[1])))
