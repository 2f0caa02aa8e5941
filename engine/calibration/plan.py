"""What a calibration measures: which blocks, chunks, numbers of turns and contexts this engine has room for."""

from collections.abc import Iterator
from dataclasses import dataclass

from engine.calibration.probes import GROWTH, EngineFacts

CONTEXTS = (64, 256, 768, 2048, 8192)
MIDDLE = 512
"""Every chunk is measured with its middle behind so many tokens, so that sizes compare: attention grows on the way."""


@dataclass(frozen=True, slots=True)
class Depth:
    """How long to measure. Each point is measured once, then all of them again, `passes` times in all or until
    `seconds` are over; the fastest counts, as whatever else the machine does only ever slows it."""

    passes: int
    seconds: float
    chunks: tuple[int, ...]
    contexts: tuple[int, ...]
    copy_bytes: int


QUICK = Depth(2, 12.0, (16, 64, 256, 512), (64, 768, 2048), 32 << 20)
DEFAULT = Depth(8, 45.0, (16, 32, 64, 128, 256, 512, 1024), CONTEXTS, 128 << 20)


def chunks(facts: EngineFacts, depth: Depth) -> Iterator[tuple[int, int]]:
    """(tokens of the chunk, tokens before it), ascending; the largest that fits if none of the depth's does."""
    room = facts.room_each(1)
    for chunk in [size for size in depth.chunks if size <= room] or [max(1, room)]:
        yield chunk, max(0, min(MIDDLE - chunk // 2, room - chunk))


def batches(facts: EngineFacts, depth: Depth, slots: int) -> list[tuple[int, int]]:
    """(turns, context of each) of the decode steps: 1, 2, 4 ... `slots` turns, each from short contexts up to the
    longest that fits. Never empty."""
    numbers = sorted({min(1 << doubled, slots) for doubled in range(slots.bit_length() + 1)})
    found = []
    for turns in numbers:
        longest = facts.room_each(turns) - GROWTH
        if longest >= 1:
            found += [(turns, context) for context in sorted({min(wanted, longest) for wanted in depth.contexts})]
    return found or [(1, 1)]
