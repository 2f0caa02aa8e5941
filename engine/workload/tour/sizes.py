"""How long the tour's turns must be so that two paused ones stay beside full slots and the third must leave."""

from collections.abc import Iterable
from dataclasses import dataclass

from engine.errors import Refused
from engine.turn import AVERAGE_TURN_TOKENS

SLOTS = 8
MOST_SLOTS = 64
LEAST_SLOTS = 2
LEAST_OUTPUT = 24
LONGEST_TURN = 8192
TOOL_ROOM = 64


@dataclass(frozen=True, slots=True)
class Sizes:
    """A turn has `prompt` tokens and generates `output`; `slots` of them run at once. `tight`: with three paused the
    arena is too small."""

    slots: int
    prompt: int
    output: int
    tight: bool

    @property
    def longest(self) -> int:
        """Tokens of a turn at its end."""
        return self.prompt + self.output


def sizes_for(blocks: int, block_size: int, max_context: int) -> Sizes:
    """For an arena of `blocks`. Fewer slots where turns would be too short to tell apart, more where a turn would be
    longer than the model's context; not tight where even the most slots do not fill it. Raises Refused for an arena
    that is too small for any."""
    most = min(max_context - TOOL_ROOM, LONGEST_TURN)
    fitting = _first(blocks, block_size, range(SLOTS, LEAST_SLOTS - 1, -1))
    if fitting is None:
        raise Refused(
            f"the arena holds {blocks * block_size:,} tokens, too few for the tour's turns; enlarge it or choose a "
            "smaller model"
        )
    if fitting.longest <= most:
        return fitting
    more = _first(blocks, block_size, range(SLOTS, MOST_SLOTS + 1), most)
    if more is not None:
        return more
    longest = min(AVERAGE_TURN_TOKENS, most)
    return Sizes(SLOTS, longest - max(LEAST_OUTPUT, longest // 10), max(LEAST_OUTPUT, longest // 10), tight=False)


def _first(blocks: int, block_size: int, counts: Iterable[int], most: int | None = None) -> Sizes | None:
    for slots in counts:
        # A running turn keeps one block more than its context: the governor promises it for growth.
        end = (blocks - slots) // (slots + 2)
        begin = (blocks - slots) // (slots + 3) + 1
        prompt = (begin - 1) * block_size + 1
        output = end * block_size - 1 - prompt
        if output >= LEAST_OUTPUT and (most is None or prompt + output <= most):
            return Sizes(slots, prompt, output, tight=True)
    return None
