"""Rotary scaling as files state it, brought to one RopeConfig."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from engine.errors import ModelError
from engine.models.config import RopeConfig
from engine.models.stated import integer, number, shown, wrong

_TOLERANCE = 1e-3
_NEEDED = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")


def rope_from_config(config: Mapping[str, Any], file: str) -> RopeConfig:
    """From config.json: `rope_parameters` (newer) or `rope_theta` with `rope_scaling`.

    Raises ModelError for another scaling than default, linear and llama3, and for a partly rotated head.
    """
    key = "rope_parameters" if config.get("rope_parameters") else "rope_scaling"
    scaling = config.get(key) or {}
    if not isinstance(scaling, dict):
        raise wrong(config, key, file, "not an object")
    theta = number(scaling, "rope_theta", file, number(config, "rope_theta", file, 10_000.0))
    rotated = number(scaling, "partial_rotary_factor", file, number(config, "partial_rotary_factor", file, 1.0))
    if rotated != 1:
        raise ModelError(f"{file}: only {rotated:g} of each head is rotated; this engine rotates the whole head.")
    kind = scaling.get("rope_type", scaling.get("type", "default")) or "default"
    if kind == "default":
        return check_rope(RopeConfig(theta=theta), file)
    if kind not in ("linear", "llama3"):
        raise unknown_scaling(file, kind)
    for needed in _NEEDED if kind == "llama3" else _NEEDED[:1]:
        if scaling.get(needed) is None:
            raise ModelError(f"{file}: the {kind} rotary scaling lacks {needed!r}; the configuration is incomplete.")
    factor = number(scaling, "factor", file)
    if kind == "linear":
        return check_rope(RopeConfig(theta=theta, kind="linear", factor=factor), file)
    llama3 = RopeConfig(
        theta=theta,
        kind="llama3",
        factor=factor,
        low_freq_factor=number(scaling, "low_freq_factor", file),
        high_freq_factor=number(scaling, "high_freq_factor", file),
        original_max_position=integer(scaling, "original_max_position_embeddings", file),
    )
    return check_rope(llama3, file)


def check_rope(rope: RopeConfig, file: str) -> RopeConfig:
    """Raises ModelError when the numbers give no rotation; returns them otherwise."""
    for name, value in (("theta", rope.theta), ("factor", rope.factor)):
        if not (math.isfinite(value) and value > 0):
            raise ModelError(f"{file}: the rotary {name} is {value:g}, it must be finite and above 0.")
    if not 0 < rope.low_freq_factor < rope.high_freq_factor < math.inf or rope.original_max_position < 1:
        raise ModelError(
            f"{file}: the llama3 rotary scaling has low_freq_factor {rope.low_freq_factor:g}, high_freq_factor "
            f"{rope.high_freq_factor:g} and {rope.original_max_position:,} original positions; the factors must "
            "ascend from above 0, the positions be at least 1."
        )
    return rope


def unknown_scaling(file: str, kind: object) -> ModelError:
    return ModelError(
        f"{file}: rotary scaling {shown(kind)!r} is not known; default, linear and llama3 are, so run this model on "
        "the vLLM backend."
    )


def llama3_divisors(rope: RopeConfig, head_dim: int) -> list[float]:
    """What each of the head_dim / 2 frequencies is divided by (the llama3 rule; llama.cpp stores these numbers)."""
    divisors = []
    for index in range(head_dim // 2):
        turns = rope.original_max_position / (2 * math.pi) * rope.theta ** (-2 * index / head_dim)
        smooth = (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor)
        smooth = min(1.0, max(0.0, smooth))
        divisors.append(1 / ((1 - smooth) / rope.factor + smooth))
    return divisors


def rope_from_divisors(divisors: Sequence[float], theta: float, head_dim: int, file: str) -> RopeConfig:
    """The llama3 parameters behind a `rope_freqs.weight` tensor.

    The blend is linear in a frequency's turns over the original context, with two unknowns: so `low_freq_factor` is
    set to 1, as in every published model, and the other two follow from the blended frequencies. The result is
    checked against all divisors. Raises ModelError when no llama3 rule gives them.
    """
    if len(divisors) != head_dim // 2 or any(not divisor > 0 for divisor in divisors):
        raise ModelError(
            f"{file}: tensor rope_freqs.weight does not hold {head_dim // 2} positive numbers; it is corrupt."
        )
    factor = max(divisors)
    if factor <= 1 + _TOLERANCE and min(divisors) >= 1 - _TOLERANCE:
        return RopeConfig(theta=theta)
    for candidate in _candidates(divisors, theta, head_dim, factor):
        if all(
            math.isclose(given, wanted, rel_tol=_TOLERANCE)
            for given, wanted in zip(llama3_divisors(candidate, head_dim), divisors, strict=True)
        ):
            return candidate
    raise ModelError(
        f"{file}: tensor rope_freqs.weight does not follow the llama3 scaling rule; this engine knows no other "
        "per-frequency scaling, so run this model on the vLLM backend."
    )


def _candidates(divisors: Sequence[float], theta: float, head_dim: int, factor: float) -> list[RopeConfig]:
    """The published parameters first, then those solved from the two outermost blended frequencies."""
    published = RopeConfig(theta=theta, kind="llama3", factor=factor)
    blended = [
        (theta ** (-2 * index / head_dim) / (2 * math.pi), (1 / divisor - 1 / factor) / (1 - 1 / factor))
        for index, divisor in enumerate(divisors)
        if 1 + _TOLERANCE < divisor < factor * (1 - _TOLERANCE)
    ]
    if len(blended) < 2:
        return [published]
    (rate_a, smooth_a), (rate_b, smooth_b) = blended[0], blended[-1]
    slope = (smooth_a - smooth_b) / (rate_a - rate_b)
    offset = slope * rate_a - smooth_a
    if offset <= 0:
        return [published]
    original = round(slope / offset)
    solved = RopeConfig(
        theta=theta, kind="llama3", factor=factor, high_freq_factor=1 + 1 / offset, original_max_position=original
    )
    return [published, solved]
