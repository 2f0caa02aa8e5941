"""The charts' samples, few however long the engine runs: the latest all, older ones thinned into buckets of time.

A bucket keeps its fullest sample of each KV precision, so no peak over the ceiling and no change of precision is lost.
Buckets lie at multiples of their width, a power of two, so that old points stay where they are as new ones come. The
recorder stores every sample; this is what pages draw from.
"""

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby

from engine.geometry import KVDtype
from engine.snapshot import Bands, Sample

WHOLE_S = 180.0
"""So long a sample is kept whatever stands beside it."""
FINE_S = 612.0
FINE_WIDTH_S = 2.0
"""Up to this age buckets are so wide; older ones are as wide as it takes."""
COARSE_BUCKETS = 256


def height(bands: Bands) -> int:
    """Bytes of the turns' KV, with what had to leave: how high the stack stands over weights and runtime."""
    return bands.running_kv + bands.paused_kv + bands.blocked_kv + bands.forced


def fullest(samples: Iterable[Sample]) -> tuple[Sample, ...]:
    """The fullest sample of each KV precision, in order of time."""
    best: dict[KVDtype, Sample] = {}
    for sample in samples:
        known = best.get(sample.kv_dtype)
        if known is None or height(sample.bands) > height(known.bands):
            best[sample.kv_dtype] = sample
    return tuple(best.values()) if len(best) == 1 else tuple(sorted(best.values(), key=_at))


def thinned(samples: Sequence[Sample], buckets: int) -> Sequence[Sample]:
    """At most about `buckets` samples, of each bucket the fullest; all of them if they are no more. Oldest first."""
    if len(samples) <= buckets:
        return samples
    span = samples[-1].at - samples[0].at
    width = 2.0 ** math.ceil(math.log2(max(span, 1e-6) / buckets))
    together = groupby(samples, key=lambda sample: sample.at // width)
    return tuple(chain.from_iterable(fullest(bucket) for _, bucket in together))


def after(samples: Sequence[Sample], since: float) -> Sequence[Sample]:
    """Those with `at` > since; oldest first, as they come."""
    return samples[bisect_right(samples, since, key=_at) :]


class SampleStore:
    """`add` is the engine thread's alone, in order of time; `samples` any thread's. An `add` costs the same after a
    minute and after a month."""

    def __init__(self) -> None:
        self._whole: deque[Sample] = deque()
        self._fine = _Buckets(FINE_WIDTH_S)
        self._coarse = _Buckets(FINE_WIDTH_S)
        self._samples: tuple[Sample, ...] = ()

    @property
    def samples(self) -> tuple[Sample, ...]:
        """Oldest first; replaced by each `add`, never changed."""
        return self._samples

    def add(self, sample: Sample) -> None:
        self._whole.append(sample)
        while self._whole[0].at < sample.at - WHOLE_S:
            self._fine.add(self._whole.popleft())
        for old in self._fine.older(sample.at - FINE_S):
            self._coarse.add(old)
        while len(self._coarse) > COARSE_BUCKETS:
            self._coarse.widen()
        self._samples = (*self._coarse, *self._fine, *self._whole)


class _Buckets:
    """Samples in buckets of `width` seconds, oldest first."""

    def __init__(self, width: float) -> None:
        self._width = width
        self._kept: deque[tuple[Sample, ...]] = deque()

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[Sample]:
        return chain.from_iterable(self._kept)

    def add(self, sample: Sample) -> None:
        """A sample that is no older than those that are there."""
        if self._kept and self._number(self._kept[-1]) == self._number((sample,)):
            self._kept[-1] = fullest((*self._kept[-1], sample))
        else:
            self._kept.append((sample,))

    def older(self, at: float) -> Iterator[Sample]:
        """Takes out the buckets that had ended by `at`."""
        while self._kept and (self._number(self._kept[0]) + 1) * self._width <= at:
            yield from self._kept.popleft()

    def widen(self) -> None:
        """Twice as wide, so about half as many."""
        samples = tuple(self)
        self._width *= 2.0
        self._kept.clear()
        for sample in samples:
            self.add(sample)

    def _number(self, bucket: tuple[Sample, ...]) -> int:
        return math.floor(bucket[0].at / self._width)


def _at(sample: Sample) -> float:
    return sample.at
