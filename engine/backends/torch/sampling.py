"""From logits to the next token, one turn at a time.

Randomness is counter-based: Philox keyed by the turn's seed, its counter the position of the token that is drawn. So a
turn draws the same tokens whatever runs beside it and however often it was paused, moved or computed again.
"""

from collections.abc import Callable

import numpy as np
import torch

from engine.backends.limits import SEED_BITS
from engine.errors import ParkdeckError
from engine.turn import Sampling

COLDEST = 1e-30
"""Temperatures below it take the likeliest token all the same; their float32 quotients would overflow."""

STRETCH = 256
"""Weights that are added up together: so one need not add up all of them one by one."""

CUTS = (2**-5, 2**-8, 2**-12, 2**-16, 2**-24)
"""Weights, as parts of the heaviest, above which candidates are looked for in turn."""


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
    colder = 1.0 / max(sampling.temperature, COLDEST)
    weights = torch.from_numpy(logits).sub(float(logits.max())).mul_(colder).exp_().numpy()
    tokens = _candidates(weights, sampling)
    draw = uniform(seed, position)
    return _drawn(weights, draw) if tokens is None else int(tokens[_drawn(weights[tokens], draw)])


def _drawn(weights: np.ndarray, draw: float) -> int:
    """Which of `weights` the number `draw`, in [0, 1), falls on: the stretch of them first, then the one in it."""
    stretches = np.cumsum(np.add.reduceat(weights, np.arange(0, weights.size, STRETCH), dtype=np.float64))
    wanted = draw * stretches[-1]
    stretch = min(int(np.searchsorted(stretches, wanted, side="right")), stretches.size - 1)
    first = stretch * STRETCH
    before = stretches[stretch - 1] if stretch else 0.0
    mass = before + np.cumsum(weights[first : first + STRETCH], dtype=np.float64)
    return first + min(int(np.searchsorted(mass, wanted, side="right")), mass.size - 1)


def uniform(seed: int, position: int) -> float:
    """A number in [0, 1) that depends on nothing but seed and position."""
    key = seed % 2**SEED_BITS
    return float(np.random.Generator(np.random.Philox(key=key, counter=position)).random())


def _candidates(weights: np.ndarray, sampling: Sampling) -> np.ndarray | None:
    """Tokens left by top-k and top-p, likeliest first; None when both are off."""
    count = sampling.top_k if 0 < sampling.top_k < weights.size else weights.size
    if count < weights.size:
        kept = _heaviest(weights, _above(weights, lambda tokens: tokens.size >= count))[:count]
        return _nucleus(weights, kept, sampling.top_p * _mass(weights[kept]))
    if sampling.top_p == 1:
        return None
    wanted = sampling.top_p * _mass(weights)
    return _nucleus(
        weights, _heaviest(weights, _above(weights, lambda tokens: _mass(weights[tokens]) >= wanted)), wanted
    )


def _mass(weights: np.ndarray) -> float:
    return float(weights.sum(dtype=np.float64))


def _above(weights: np.ndarray, enough: Callable[[np.ndarray], bool]) -> np.ndarray:
    """All tokens above one weight, as few as are `enough`: sorting these few is much cheaper than sorting all."""
    for cut in CUTS:
        tokens = np.flatnonzero(weights >= cut)
        if enough(tokens):
            return tokens
    return np.arange(weights.size)


def _heaviest(weights: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """`tokens`, which ascend, heaviest first, equals by token id."""
    return tokens[np.argsort(-weights[tokens], kind="stable")]


def _nucleus(weights: np.ndarray, ordered: np.ndarray, mass: float) -> np.ndarray:
    """The shortest prefix of `ordered` that holds at least `mass`."""
    reached = int(np.searchsorted(np.cumsum(weights[ordered], dtype=np.float64), mass, side="left"))
    return ordered[: min(reached + 1, ordered.size)]
