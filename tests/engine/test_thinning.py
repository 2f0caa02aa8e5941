"""The charts' samples: few for ever, the latest all there, no peak or change of precision lost, nothing shimmers."""

import dataclasses
import itertools
import math
import threading
from collections.abc import Iterable, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.geometry import KVDtype
from engine.snapshot import Sample
from engine.thinning import COARSE_BUCKETS, FINE_S, FINE_WIDTH_S, WHOLE_S, SampleStore, after, height, thinned
from tests.engine.record.records import sample

EVERY_S = 0.25
BUCKETS = COARSE_BUCKETS + math.ceil((FINE_S - WHOLE_S) / FINE_WIDTH_S) + 1
MOST = math.ceil(WHOLE_S / EVERY_S) + 1 + BUCKETS
DAY_S = 86_400
ONE = sample(0)
PRECISIONS = (KVDtype.FP16, KVDtype.Q8)

steps = st.lists(
    st.tuples(st.floats(EVERY_S, 400.0), st.integers(0, 100), st.sampled_from(PRECISIONS)), min_size=1, max_size=400
)


def at(instant: float, kv: int = 0, dtype: KVDtype = KVDtype.FP16) -> Sample:
    bands = dataclasses.replace(ONE.bands, running_kv=kv, paused_kv=0, blocked_kv=0, forced=0)
    return dataclasses.replace(ONE, at=instant, kv_dtype=dtype, bands=bands)


def along(moves: Iterable[tuple[float, int, KVDtype]]) -> list[Sample]:
    clock = 0.0
    made = []
    for seconds, kv, dtype in moves:
        clock += seconds
        made.append(at(clock, kv, dtype))
    return made


def stored(samples: Iterable[Sample]) -> SampleStore:
    store = SampleStore()
    for one in samples:
        store.add(one)
    return store


def covered(one: Sample, kept: Sequence[Sample], width: float) -> bool:
    """There is a sample as full, of the same precision, in the same bucket of `width`."""
    return any(
        other.kv_dtype is one.kv_dtype
        and height(other.bands) >= height(one.bands)
        and math.floor(other.at / width) == math.floor(one.at / width)
        for other in kept
    )


@settings(max_examples=60)
@given(steps)
def test_it_is_bounded_in_order_whole_at_the_end_and_keeps_what_counts(
    moves: list[tuple[float, int, KVDtype]],
) -> None:
    samples = along(moves)
    kept = stored(samples).samples
    assert list(kept) == sorted(kept, key=lambda one: one.at)
    assert len(set(map(id, kept))) == len(kept)
    assert len(kept) <= MOST + BUCKETS
    assert kept[-1] is samples[-1]
    recent = [one for one in samples if one.at >= samples[-1].at - WHOLE_S]
    assert list(kept[-len(recent) :]) == recent
    # So wide that the whole run has at least half as many buckets as there may be.
    width = 2.0 ** max(1, math.ceil(math.log2(max(samples[-1].at, 1.0) / (COARSE_BUCKETS / 2))))
    assert all(covered(one, kept, width) for one in samples)


@settings(max_examples=20)
@given(st.integers(0, 5000), st.integers(1, 4000), st.integers(0, 2**32))
def test_old_points_stay_where_they_are_as_new_ones_come(before: int, more: int, seed: int) -> None:
    """Those that are gone later were merged into a fuller one of their own bucket; none moves."""
    samples = [at(number * EVERY_S, (number * 7919 + seed) % 101) for number in range(before + more + 1)]
    store = stored(samples[: before + 1])
    then = store.samples
    for one in samples[before + 1 :]:
        store.add(one)
    now = {one.at for one in store.samples}
    gone = [one for one in then if one.at not in now]
    assert all(covered(one, store.samples, 16.0) for one in gone)
    assert {one.at for one in store.samples if one.at <= then[-1].at} <= {one.at for one in then}


def test_a_minute_later_a_settled_point_is_the_same() -> None:
    samples = [at(number * EVERY_S, number * 7919 % 101) for number in range(4 * 1800)]
    store = stored(samples)
    old = [one.at for one in store.samples if one.at < 800]
    for number in range(4 * 1800, 4 * 1860):
        store.add(at(number * EVERY_S))
    assert [one.at for one in store.samples if one.at < 800] == old


def test_a_week_is_a_thousand_points_and_its_one_peak_is_among_them() -> None:
    peak = 3 * DAY_S + 75
    samples = (at(float(time), 10**9 if time == peak else time % 101) for time in range(0, 7 * DAY_S, 5))
    kept = stored(samples).samples
    assert len(kept) <= WHOLE_S / 5 + 1 + BUCKETS
    assert max(kept, key=lambda one: height(one.bands)).at == peak
    gaps = [later.at - one.at for one, later in itertools.pairwise(kept)]
    assert max(gaps) <= 2 * 7 * DAY_S / (COARSE_BUCKETS / 2), "the whole week is there, not its end alone"


def test_one_second_at_another_precision_is_there_after_a_day() -> None:
    brief = 40_000
    samples = (at(float(n), 50, KVDtype.Q8 if n == brief else KVDtype.FP16) for n in range(DAY_S))
    kept = stored(samples).samples
    assert [one.at for one in kept if one.kv_dtype is KVDtype.Q8] == [brief]


def test_a_precision_that_is_switched_all_day_stays_bounded() -> None:
    kept = stored(at(number * EVERY_S, 1, PRECISIONS[number % 2]) for number in range(40_000)).samples
    assert len(kept) <= MOST + BUCKETS


def test_readers_get_whole_tuples_while_it_is_written() -> None:
    store = SampleStore()
    over = threading.Event()
    faults: list[str] = []

    def read() -> None:
        while not over.is_set():
            seen = [one.at for one in store.samples]
            if seen != sorted(seen):
                faults.append("out of order")
            if seen and seen[-1] > WHOLE_S and seen[-1] - seen[0] < WHOLE_S:
                faults.append("not whole")

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(8_000):
        store.add(at(number * EVERY_S))
    over.set()
    reader.join()
    assert not faults


@given(st.lists(st.integers(0, 50), max_size=300), st.integers(2, 60))
def test_a_chart_has_few_and_its_highest(heights: list[int], buckets: int) -> None:
    samples = [at(float(number), kv) for number, kv in enumerate(heights)]
    kept = thinned(samples, buckets)
    assert len(kept) <= buckets + 1
    assert set(kept) <= set(samples)
    if heights:
        assert max(height(one.bands) for one in kept) == max(heights)


def test_what_came_after_an_instant() -> None:
    samples = tuple(at(float(number)) for number in range(5))
    assert after(samples, 2.0) == samples[3:]
    assert after(samples, float("-inf")) == samples
    assert after((), 2.0) == ()
