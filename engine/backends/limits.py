"""What every body takes from outside: tokens, contexts and sampling values within their ranges."""

import math
from collections.abc import Collection, Container, Sequence

from engine.errors import Refused
from engine.turn import Sampling, TurnId

MAX_TEMPERATURE = 10.0
SEED_BITS = 64


def check_new(turn: TurnId, known: Container[TurnId], tokens: Sequence[int]) -> None:
    """A turn that is to be opened is not among `known` and has tokens. Raises Refused."""
    if turn in known:
        raise Refused(f"Turn {turn} is open already; give each turn an id of its own.")
    if not tokens:
        raise Refused("A turn needs at least one token; give a prompt.")


def check_tokens(tokens: Sequence[int], context: int, max_context: int, vocab_size: int) -> None:
    """`tokens` are new in a turn of `context` tokens in all. Raises Refused with the ranges."""
    if context > max_context:
        raise Refused(f"The turn has {context} tokens, the model takes {max_context}; shorten it.")
    if tokens and not (min(tokens) >= 0 and max(tokens) < vocab_size):
        raise Refused(f"Tokens go from 0 to {vocab_size - 1}; {min(tokens)} to {max(tokens)} were given.")


def check_keep(turn: TurnId, has: int, keep: int, added: int) -> None:
    """A turn of `has` tokens keeps the first `keep` and gets `added` more. Raises Refused."""
    if not 0 <= keep <= has or keep + added == 0:
        raise Refused(
            f"Turn {turn} has {has} tokens and was to keep {keep} and add {added}; keep at most what it has, and at "
            "least one token in all."
        )


def check_probe(block_bytes: int, sizes: Collection[int], open_turns: int) -> None:
    """Copies may be measured: no turn is open, and the size is one of `sizes`. Raises Refused."""
    if open_turns:
        raise Refused(f"Copies can only be measured while no turn is open; {open_turns} are.")
    if block_bytes not in sizes:
        known = ", ".join(f"{size:,}" for size in sizes)
        raise Refused(f"Blocks of {block_bytes:,} bytes cannot be copied here; choose one of {known}.")


def validated(sampling: Sampling) -> Sampling:
    """`sampling` itself. Raises Refused with the value, its range and what to do."""
    temperature, top_p, top_k, seed = sampling.temperature, sampling.top_p, sampling.top_k, sampling.seed
    if not _real(temperature) or not 0 <= temperature <= MAX_TEMPERATURE:
        raise Refused(f"temperature is {temperature!r}; give a number from 0 (greedy) to {MAX_TEMPERATURE:g}.")
    if not _real(top_p) or not 0 < top_p <= 1:
        raise Refused(f"top_p is {top_p!r}; give a number above 0 and up to 1 (off).")
    if not _whole(top_k) or top_k < 0:
        raise Refused(f"top_k is {top_k!r}; give a whole number from 0 (off) upwards.")
    if seed is not None and not (_whole(seed) and -(2 ** (SEED_BITS - 1)) <= seed < 2**SEED_BITS):
        raise Refused(f"seed is {seed!r}; give a whole number of at most {SEED_BITS} bits.")
    return sampling


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _real(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
