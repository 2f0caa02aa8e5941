"""What the twin remembers of an open turn."""

from dataclasses import dataclass

from engine.backends.twin.books import Parked
from engine.turn import TurnId


@dataclass(slots=True)
class TwinTurn:
    """`tokens`: prompt and generated, counted. `blocks`: held in the arena. `leaving`: the copy in `parked` is still
    being made, `left_here` of its blocks promised to nobody; `coming`: `blocks` are still being filled from it, so many
    `promised` by turns that were leaving then."""

    id: TurnId
    tokens: int
    seed: int
    kv_tokens: int = 0
    blocks: int = 0
    parked: Parked | None = None
    leaving: bool = False
    coming: bool = False
    left_here: int = 0
    promised: int = 0

    @property
    def pending(self) -> int:
        return self.tokens - self.kv_tokens
