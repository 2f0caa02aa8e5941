"""Measured rates and latencies over sliding windows. Times are of the engine's clock, in seconds."""

from collections import deque
from collections.abc import Sequence

from engine.histogram import CLASSES, place_of
from engine.snapshot import Rates
from engine.turn import Priority

RATE_WINDOW_S = 10.0
LATENCIES_KEPT = 256
DISTINCT_KEPT = 64

Latencies = tuple[tuple[float, int], ...]
"""Seconds and how many tokens had them; the turns of one step mostly share theirs."""


def quantile(values: Sequence[float], q: float) -> float | None:
    """Linear interpolation between order statistics; None without values."""
    if not values:
        return None
    ordered = sorted(values)
    at = q * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def _mean(latencies: Sequence[tuple[float, int]]) -> tuple[float, int]:
    count = sum(n for _, n in latencies)
    return sum(seconds * n for seconds, n in latencies) / count, count


class _WindowSum:
    """Sum of amounts seen in the last `span` seconds."""

    def __init__(self, span: float) -> None:
        self._span = span
        self._seen: deque[tuple[float, float]] = deque()
        self._sum = 0.0

    def add(self, at: float, amount: float) -> None:
        self._seen.append((at, amount))
        self._sum += amount

    def total(self, now: float) -> float:
        while self._seen and self._seen[0][0] < now - self._span:
            self._sum -= self._seen.popleft()[1]
        return self._sum if self._seen else 0.0


class Stats:
    """Fed by the host at each step; `rates` answers at any time."""

    def __init__(self, started_at: float) -> None:
        self._started_at = started_at
        self._decode = _WindowSum(RATE_WINDOW_S)
        self._prefill = _WindowSum(RATE_WINDOW_S)
        self._ttft: deque[float] = deque(maxlen=LATENCIES_KEPT)
        self._ttft_foreground: deque[float] = deque(maxlen=LATENCIES_KEPT)
        self._ttft_counts = [0] * CLASSES
        self._itl: deque[float] = deque(maxlen=LATENCIES_KEPT)
        self._itl_new: dict[float, int] = {}
        self._cut_at = started_at

    def tokens(self, at: float, prefill: int, decode: int) -> None:
        if prefill:
            self._prefill.add(at, prefill)
        if decode:
            self._decode.add(at, decode)

    def first_token(self, seconds: float, priority: Priority) -> None:
        """One per submit and one per tool result: from then to the first token."""
        self._ttft.append(seconds)
        if priority is Priority.FOREGROUND:
            self._ttft_foreground.append(seconds)
            self._ttft_counts[place_of(seconds)] += 1

    def foreground_counts(self) -> tuple[int, ...]:
        """Foreground TTFT since the start, by the classes of engine/histogram.py."""
        return tuple(self._ttft_counts)

    def next_token(self, at: float, seconds: float) -> None:
        """Between two tokens of a turn that kept its slot in between; the second came at `at`."""
        self._itl.append(seconds)
        if at - seconds >= self._cut_at:
            self._itl_new[seconds] = self._itl_new.get(seconds, 0) + 1

    def cut(self, at: float) -> None:
        """A change took effect at `at`: a latency that began before it tells of neither side."""
        self._cut_at = at

    def new_latencies(self) -> Latencies:
        """All between two tokens since this was asked last, shortest first. At most DISTINCT_KEPT are told apart, of
        more those next to each other become their mean."""
        found = sorted(self._itl_new.items())
        self._itl_new = {}
        while len(found) > DISTINCT_KEPT:
            found = [_mean(found[i : i + 2]) for i in range(0, len(found), 2)]
        return tuple(found)

    def rates(self, now: float, blocked_fraction: float | None = None) -> Rates:
        """`blocked_fraction`: as the ledger's spans say it."""
        span = max(min(RATE_WINDOW_S, now - self._started_at), 1e-3)
        return Rates(
            decode_tokens_per_s=self._decode.total(now) / span,
            prefill_tokens_per_s=self._prefill.total(now) / span,
            ttft_p50=quantile(self._ttft, 0.5),
            ttft_p95=quantile(self._ttft, 0.95),
            ttft_foreground_p50=quantile(self._ttft_foreground, 0.5),
            ttft_foreground_p95=quantile(self._ttft_foreground, 0.95),
            itl_p50=quantile(self._itl, 0.5),
            itl_p95=quantile(self._itl, 0.95),
            blocked_fraction=blocked_fraction,
        )
