"""From logits to the next token, one turn at a time.

Randomness is counter-based: Philox keyed by the turn's seed, its counter the position of the token that is drawn. So a
turn draws the same tokens whatever runs beside it and however often it was paused, moved or computed again.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from engine.backends.limits import SEED_BITS
from engine.errors import ParkdeckError
from engine.kernels.weigh import STRETCH, above, peak, weigh
from engine.turn import Sampling

COLDEST = 1e-30
"""Temperatures below it take the likeliest token all the same; their float32 quotients would overflow."""

CUTS = (2**-5, 2**-8, 2**-12, 2**-16, 2**-24)
"""Weights, as parts of the heaviest, above which candidates are looked for in turn."""


class UnusableLogits(ParkdeckError):
    """The model's scores for a turn hold NaN or an infinity; that turn fails alone."""


def sample(logits: np.ndarray, sampling: Sampling, seed: int, position: int) -> int:
    """The token at `position` (tokens before it in the turn) from float32 `logits` (vocab,).

    Order: temperature, top-k, top-p, as usual. Raises UnusableLogits.
    """
    most = peak(logits)
    if np.isnan(most):
        bad = int(np.flatnonzero(~np.isfinite(logits))[0])
        raise UnusableLogits(
            f"The model's score for token {bad} at position {position} is {logits[bad]}; "
            "the turn's cache or the model's weights are damaged, start the turn again."
        )
    if sampling.temperature == 0:
        return int(np.argmax(logits))
    weighed = _weighed(logits, most, sampling.temperature)
    tokens = _candidates(weighed, sampling)
    draw = uniform(seed, position)
    if tokens is None:
        return weighed.at(draw)
    masses = np.cumsum(weighed.weights[tokens], dtype=np.float64)
    return int(tokens[_reached(masses, draw * masses[-1])])


def warm_up() -> None:
    """Compile or load what sampling runs."""
    sample(np.zeros(1, np.float32), Sampling(temperature=1.0, top_p=0.5), 0, 0)


def uniform(seed: int, position: int) -> float:
    """A number in [0, 1) that depends on nothing but seed and position."""
    key = seed % 2**SEED_BITS
    return float(np.random.Generator(np.random.Philox(key=key, counter=position)).random())


@dataclass(frozen=True, slots=True)
class _Weighed:
    """Softmax weights (vocab,), the heaviest 1; sum and heaviest of each stretch of them."""

    weights: np.ndarray
    sums: np.ndarray
    tops: np.ndarray

    @property
    def mass(self) -> float:
        return float(self.sums.sum())

    def at(self, draw: float) -> int:
        """The token that the number `draw`, in [0, 1), falls on: the stretch of it first, then the one in it."""
        ends = np.cumsum(self.sums)
        wanted = draw * ends[-1]
        stretch = _reached(ends, wanted)
        first = stretch * STRETCH
        before = ends[stretch - 1] if stretch else 0.0
        return first + _reached(before + np.cumsum(self.weights[first : first + STRETCH], dtype=np.float64), wanted)

    def above(self, enough: Callable[[int, float], bool]) -> np.ndarray:
        """All tokens above one weight, ascending; as few as are `enough`, asked with number and mass: looking through
        these few is much cheaper than looking through all."""
        found = np.empty(self.weights.size, np.int64)
        for cut in (*CUTS, 0.0):
            count, mass = above(self.weights, self.tops, np.float32(cut), found)
            if enough(count, mass):
                break
        return found[:count]


def _weighed(logits: np.ndarray, most: float, temperature: float) -> _Weighed:
    stretches = -(-logits.size // STRETCH)
    weights, tops = np.empty(logits.size, np.float32), np.empty(stretches, np.float32)
    sums = np.empty(stretches, np.float64)
    weigh(logits, np.float32(most), np.float32(1.0 / max(temperature, COLDEST)), weights, sums, tops)
    return _Weighed(weights, sums, tops)


def _reached(ends: np.ndarray, wanted: float) -> int:
    """The first of the ascending `ends` that is past `wanted`, the last if none is."""
    return min(int(np.searchsorted(ends, wanted, side="right")), ends.size - 1)


def _candidates(weighed: _Weighed, sampling: Sampling) -> np.ndarray | None:
    """Tokens left by top-k and top-p, ascending; None when both are off."""
    if 0 < sampling.top_k < weighed.weights.size:
        tokens = weighed.above(lambda count, mass: count >= sampling.top_k)
        falling = _falling(weighed.weights[tokens])[: sampling.top_k]
        wanted = sampling.top_p * float(falling.sum(dtype=np.float64))
    elif sampling.top_p < 1:
        wanted = sampling.top_p * weighed.mass
        tokens = weighed.above(lambda count, mass: mass >= wanted)
        falling = _falling(weighed.weights[tokens])
    else:
        return None
    nucleus = int(np.searchsorted(np.cumsum(falling, dtype=np.float64), wanted)) + 1
    return tokens[_heaviest(weighed.weights[tokens], falling[:nucleus])]


def _falling(weights: np.ndarray) -> np.ndarray:
    return -np.sort(-weights)


def _heaviest(weights: np.ndarray, falling: np.ndarray) -> np.ndarray:
    """Which of `weights` are `falling`, the heaviest of them in order; of equal ones the first."""
    least = falling[-1]
    kept = weights > least
    kept[np.flatnonzero(weights == least)[: falling.size - np.count_nonzero(kept)]] = True
    return kept
