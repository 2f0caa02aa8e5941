"""A bounded set of known durations, and what it says of a wait that lasts: the mean or the median of what is left, when
that first exceeds a bound, and for how long keeping something pays. Pure."""

import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import cached_property

ALIKE = 2.0
"""Durations are alike where nine in ten are at most so many times their median."""
ROUNDING_S = 1e-6
"""More than the sum of an engine clock's reading and a duration is rounded by."""


@dataclass(frozen=True)
class Durations:
    """Known durations, `ascending`, in seconds. What is derived of them is made once, when a policy asks for it."""

    ascending: tuple[float, ...] = ()

    def mean_left(self, lasted_s: float) -> float:
        """How much longer a wait that has lasted so long is expected to take, in seconds: by the mean of the longer
        ones, or as long again."""
        longer = bisect_right(self.ascending, lasted_s)
        return self._means[longer] - lasted_s if longer < len(self.ascending) else lasted_s

    def outlasts_mean(self, since: float, least_s: float, now: float) -> float:
        """The first instant from `now` on at which the wait, while it lasts, is expected to last for another `least_s`
        and longer, by the mean of those that last so long; `now`: already."""
        return self._outlasts(self._means, self._highest_mean, since, least_s, now)

    def outlasts_median(self, since: float, least_s: float, now: float) -> float:
        """Likewise by the median: it is as likely as not to last for longer than `least_s`."""
        return self._outlasts(self._medians, self._highest_median, since, least_s, now)

    def keep_s(self, worth_s: float) -> float:
        """argmax over the durations t, and 0, of P(duration <= t) x `worth_s` - t: where the last second of keeping
        something for a result that would save `worth_s` pays for itself (Continuum, arXiv 2511.02230). Of two that
        are equal the shorter."""
        corners, gains = self._hull
        # The hull's pieces cost ever more seconds for each share of results; those dearer than the gain are left.
        return corners[bisect_left(gains, worth_s)]

    @cached_property
    def due_s(self) -> tuple[float, float] | None:
        """Between which seconds a result is to be expected: the median and the 0.9 quantile; None where durations are
        not alike, so that the median tells nothing."""
        median, late = self.quantile(0.5), self.quantile(0.9)
        return (median, late) if median and late and late <= ALIKE * median else None

    def quantile(self, share: float) -> float | None:
        """As engine/stats.py has it; None without durations."""
        known = self.ascending
        if not known:
            return None
        at = share * (len(known) - 1)
        low, high = known[int(at)], known[min(int(at) + 1, len(known) - 1)]
        return low + (high - low) * (at - int(at))

    def _outlasts(
        self, centres: tuple[float, ...], highest: tuple[float, ...], since: float, least_s: float, now: float
    ) -> float:
        known, lasted = self.ascending, now - since
        size, count = len(known), bisect_right(known, lasted)
        # What it has outlasted goes by the instants that are named: a difference may be rounded otherwise than a sum.
        while count < size and since + known[count] <= now:
            count += 1
        while count and since + known[count - 1] > now:
            count -= 1
        if count < size and centres[count] - lasted > least_s:
            return now
        # Between two durations an estimate only falls, so it first suffices where one of them has just been outlasted.
        if count + 1 < size and highest[count + 1] > least_s - ROUNDING_S:
            for nth in range(count + 1, size):
                at = since + known[nth - 1]
                if centres[nth] - (at - since) > least_s:
                    return at
        # Longer than any: the time since the call is the estimate.
        longest = known[-1] if known else 0.0
        return max(now, since + longest, since + least_s)

    @cached_property
    def _means(self) -> tuple[float, ...]:
        """[n]: the mean of all but the n shortest."""
        found, total = [], 0.0
        for nth in range(len(self.ascending) - 1, -1, -1):
            total += self.ascending[nth]
            found.append(total / (len(self.ascending) - nth))
        return tuple(reversed(found))

    @cached_property
    def _medians(self) -> tuple[float, ...]:
        known, size = self.ascending, len(self.ascending)
        return tuple([(known[(n + size - 1) // 2] + known[(n + size) // 2]) / 2 for n in range(size)])

    @cached_property
    def _highest_mean(self) -> tuple[float, ...]:
        return self._highest(self._means)

    @cached_property
    def _highest_median(self) -> tuple[float, ...]:
        return self._highest(self._medians)

    def _highest(self, centres: tuple[float, ...]) -> tuple[float, ...]:
        """[n]: the most that is left once n or more have been outlasted, for n from 1 on."""
        most, found = -math.inf, []
        for nth in range(len(centres) - 1, 0, -1):
            most = max(most, centres[nth] - self.ascending[nth - 1])
            found.append(most)
        return (math.inf, *reversed(found))

    @cached_property
    def _hull(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """The lower convex hull of duration over share, from (0, 0): its corners' durations, and between each two
        the seconds that it costs to be there for one more share of results, ascending."""
        size = len(self.ascending)
        corners: list[tuple[float, float]] = [(0.0, 0.0)]
        gains: list[float] = []
        for nth, duration in enumerate(self.ascending, 1):
            share = nth / size
            while True:
                (before, at) = corners[-1]
                gain = (duration - at) / (share - before)
                if not gains or gain > gains[-1]:
                    break
                corners.pop()
                gains.pop()
            corners.append((share, duration))
            gains.append(gain)
        return tuple([duration for _, duration in corners]), tuple(gains)


NOTHING = Durations()
