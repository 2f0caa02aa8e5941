"""What the torch backend remembers of an open turn."""

from dataclasses import dataclass, field

from engine.backends.torch.hostpool import Parked
from engine.turn import Sampling, TurnId


@dataclass(slots=True)
class OpenTurn:
    """`tokens`: prompt and generated. The KV of the first `kv_tokens` is in the arena, or in `parked` when that is set;
    the rest is pending. `leaving`: the copy in `parked` is still being made; `coming`: the blocks in the arena are
    still being filled from it. `seed` is the request's, or one drawn when the turn was opened."""

    id: TurnId
    tokens: list[int]
    sampling: Sampling
    seed: int
    kv_tokens: int = 0
    parked: Parked | None = field(default=None)
    leaving: bool = False
    coming: bool = False

    @property
    def pending(self) -> int:
        return len(self.tokens) - self.kv_tokens

    @property
    def resident_tokens(self) -> int:
        return 0 if self.parked and not self.coming else self.kv_tokens
