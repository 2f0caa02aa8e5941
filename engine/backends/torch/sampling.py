"""From logits to the next token, one turn at a time.

Randomness is counter-based: Philox keyed by the turn's seed, its counter the position of the token that is drawn. So a
turn draws the same tokens whatever runs beside it and however often it was paused, moved or computed again.
"""

import numpy as np

from engine.backends.limits import SEED_BITS
from engine.errors import ParkdeckError
from engine.turn import Sampling

NUCLEUS_FIRST_LOOK = 1024


class UnusableLogits(ParkdeckError):
    """The model's scores for a turn hold NaN or an infinity; that turn fails alone."""


def sample(logits: np.ndarray, sampling: Sampling, seed: int, position: int) -> int:
    """The token at `position` (tokens before it in the turn) from float32 `logits` (vocab,).

    Order: temperature, top-k, top-p, as usual. Raises UnusableLogits.
    """
    if not np.isfinite(logits).all():
        bad = int(np.flatnonzero(~np.isfinite(logits))[0])
        raise UnusableLogits(
            f"The model's score for token {bad} at position {position} is {logits[bad]}; "
            "the turn's cache or the model's weights are damaged, start the turn again."
        )
    if sampling.temperature == 0:
        return int(np.argmax(logits))
    weights = np.exp((logits.astype(np.float64) - float(logits.max())) / sampling.temperature)
    tokens = _candidates(weights, sampling)
    mass = np.cumsum(weights if tokens is None else weights[tokens])
    draw = uniform(seed, position) * mass[-1]
    chosen = min(int(np.searchsorted(mass, draw, side="right")), mass.size - 1)
    return chosen if tokens is None else int(tokens[chosen])


def uniform(seed: int, position: int) -> float:
    """A number in [0, 1) that depends on nothing but seed and position."""
    key = seed % 2**SEED_BITS
    return float(np.random.Generator(np.random.Philox(key=key, counter=position)).random())


def _candidates(weights: np.ndarray, sampling: Sampling) -> np.ndarray | None:
    """Tokens left by top-k and top-p, likeliest first; None when both are off."""
    count = sampling.top_k if 0 < sampling.top_k < weights.size else weights.size
    if count == weights.size and sampling.top_p == 1:
        return None
    total = float(weights.sum())
    if count == weights.size and weights.size > NUCLEUS_FIRST_LOOK:
        first = _largest(weights, NUCLEUS_FIRST_LOOK)
        if float(weights[first].sum()) >= sampling.top_p * total:
            return _nucleus(weights, first, sampling.top_p * total)
    kept = _largest(weights, count)
    return _nucleus(weights, kept, sampling.top_p * float(weights[kept].sum()))


def _largest(weights: np.ndarray, count: int) -> np.ndarray:
    """The `count` heaviest tokens, heaviest first, equals by token id."""
    if count < weights.size:
        edge = np.partition(weights, weights.size - count)[weights.size - count]
        above = np.flatnonzero(weights > edge)
        kept = np.concatenate([above, np.flatnonzero(weights == edge)[: count - above.size]])
    else:
        kept = np.arange(weights.size)
    return kept[np.lexsort((kept, -weights[kept]))]


def _nucleus(weights: np.ndarray, ordered: np.ndarray, mass: float) -> np.ndarray:
    """The shortest prefix of `ordered` that holds at least `mass`."""
    reached = int(np.searchsorted(np.cumsum(weights[ordered]), mass, side="left"))
    return ordered[: min(reached + 1, ordered.size)]
