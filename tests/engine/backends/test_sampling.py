"""Sampling: greedy, temperature, top-k, top-p, seeds, and what is refused."""

import math

import numpy as np
import pytest

from engine.backends.limits import validated
from engine.backends.torch.sampling import UnusableLogits, sample, uniform
from engine.errors import Refused
from engine.turn import Sampling


def logits(size: int = 3000) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(size).astype(np.float32) * 3


def draws(row: np.ndarray, sampling: Sampling, count: int, seed: int = 5) -> list[int]:
    return [sample(row, sampling, seed, position) for position in range(count)]


def test_greedy_is_the_first_of_the_largest() -> None:
    row = np.zeros(50, np.float32)
    row[[20, 30]] = 4
    assert sample(row, Sampling(), 0, 0) == 20


def test_temperature_follows_the_softmax() -> None:
    row = np.log(np.array([0.5, 0.3, 0.15, 0.05], np.float32))
    seen = np.bincount(draws(row, Sampling(temperature=1.0), 4000), minlength=4) / 4000
    assert seen == pytest.approx([0.5, 0.3, 0.15, 0.05], abs=0.03)
    sharp = np.bincount(draws(row, Sampling(temperature=0.5), 4000), minlength=4) / 4000
    squares = np.array([0.25, 0.09, 0.0225, 0.0025])
    assert sharp == pytest.approx(squares / squares.sum(), abs=0.03)


@pytest.mark.parametrize("temperature", [1e-30, 1e-3])
def test_tiny_temperature_is_greedy(temperature: float) -> None:
    row = logits()
    assert set(draws(row, Sampling(temperature=temperature), 20)) == {int(np.argmax(row))}


def test_top_k_keeps_the_k_largest_and_equals_by_token() -> None:
    row = np.zeros(2000, np.float32)
    row[[5, 6]] = 1
    assert set(draws(row, Sampling(temperature=5.0, top_k=4), 300)) == {0, 1, 5, 6}
    assert set(draws(row, Sampling(temperature=5.0, top_k=1), 20)) == {5}


@pytest.mark.parametrize("size", [4, 3000])
@pytest.mark.parametrize("top_p", [0.05, 0.5, 0.79, 0.95])
def test_top_p_is_the_shortest_set_that_holds_the_mass(size: int, top_p: float) -> None:
    row = logits(size)
    weights = np.exp(row.astype(np.float64) - row.max())
    weights /= weights.sum()
    order = np.argsort(-weights, kind="stable")
    inside = set(order[: int(np.searchsorted(np.cumsum(weights[order]), top_p)) + 1].tolist())
    seen = set(draws(row, Sampling(temperature=1.0, top_p=top_p), 400))
    assert seen <= inside
    assert int(order[0]) in seen


def test_top_p_of_flat_logits_looks_past_the_first_thousand() -> None:
    seen = draws(np.zeros(5000, np.float32), Sampling(temperature=1.0, top_p=0.9), 400)
    assert max(seen) < 4500
    assert max(seen) > 4000


@pytest.mark.parametrize("top_p", [0.3, 0.61, 0.999, 1 - 2**-53])
def test_top_p_among_equals_keeps_the_first(top_p: float) -> None:
    row = np.repeat(np.float32([0, 2, 1]), [700, 200, 100])[np.random.default_rng(3).permutation(1000)]
    weights = np.exp(row.astype(np.float64))
    order = np.argsort(-row, kind="stable")
    mass = np.cumsum(weights[order]) / weights.sum()
    inside = set(order[: int(np.searchsorted(mass, top_p)) + 1].tolist())
    assert set(draws(row, Sampling(temperature=1.0, top_p=top_p), 2000)) <= inside


def test_top_p_counts_what_top_k_left() -> None:
    row = np.log(np.array([0.4, 0.3, 0.2, 0.1], np.float32))
    assert set(draws(row, Sampling(temperature=1.0, top_k=2, top_p=0.6), 200)) == {0, 1}
    assert set(draws(row, Sampling(temperature=1.0, top_k=2, top_p=0.55), 200)) == {0}


def test_a_draw_depends_on_seed_and_position_alone() -> None:
    row = logits()
    sampling = Sampling(temperature=1.0)
    forwards = [sample(row, sampling, 3, position) for position in range(30)]
    backwards = [sample(row, sampling, 3, position) for position in reversed(range(30))]
    assert forwards == backwards[::-1]
    assert forwards != draws(row, sampling, 30, seed=4)
    assert len(set(forwards)) > 5
    assert uniform(-1, 3) == uniform(2**64 - 1, 3)
    assert len({uniform(seed, at) for seed in range(20) for at in range(20)}) == 400


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=1.0)])
def test_logits_that_are_no_numbers_are_told(bad: float, sampling: Sampling) -> None:
    row = logits(100)
    row[42] = bad
    with pytest.raises(UnusableLogits, match=r"token 42 at position 9"):
        sample(row, sampling, 0, 9)


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"temperature": -0.1}, "temperature"),
        ({"temperature": math.nan}, "temperature"),
        ({"temperature": math.inf}, "temperature"),
        ({"temperature": 10.5}, "temperature"),
        ({"temperature": "1"}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"top_p": 1.01}, "top_p"),
        ({"top_p": math.nan}, "top_p"),
        ({"top_k": -1}, "top_k"),
        ({"top_k": 1.5}, "top_k"),
        ({"top_k": True}, "top_k"),
        ({"seed": 2**64}, "seed"),
        ({"seed": -(2**63) - 1}, "seed"),
        ({"seed": 1.0}, "seed"),
    ],
)
def test_bad_values_are_refused_by_name(values: dict[str, object], word: str) -> None:
    with pytest.raises(Refused, match=f"^{word} is "):
        validated(Sampling(**values))  # type: ignore[arg-type]


def test_good_values_pass() -> None:
    for sampling in (Sampling(), Sampling(2.0, 0.1, 50, 2**64 - 1), Sampling(seed=-(2**63)), Sampling(1, 1, 0, 0)):
        assert validated(sampling) is sampling
