"""A turn's text: decoded as tokens come, held back while it could still become a stop string."""

from collections.abc import Sequence
from typing import Protocol


class Decoder(Protocol):
    def feed(self, token: int) -> str: ...
    def flush(self) -> str: ...


class TurnOutput:
    """Text of one turn between two stops. No part of a stop string is ever handed out."""

    def __init__(self, decoder: Decoder | None, stop: Sequence[str]) -> None:
        self._decoder = decoder
        self._stop = tuple(s for s in stop if s)
        self._longest = max((len(s) for s in self._stop), default=0)
        self._held = ""
        self.stopped = False

    def feed(self, token: int) -> str:
        """Text that is certain after this token; sets `stopped` when a stop string is complete."""
        return self._release(self._decoder.feed(token)) if self._decoder else ""

    def flush(self) -> str:
        """What is still held back, once no more tokens come."""
        if self._decoder is None or self.stopped:
            return ""
        text = self._release(self._decoder.flush())
        text, self._held = (text if self.stopped else text + self._held), ""
        return text

    def _release(self, delta: str) -> str:
        self._held += delta
        cut = min((at for s in self._stop if (at := self._held.find(s)) >= 0), default=-1)
        if cut >= 0:
            text, self._held, self.stopped = self._held[:cut], "", True
            return text
        keep = self._possible_start()
        text, self._held = self._held[: len(self._held) - keep], self._held[len(self._held) - keep :]
        return text

    def _possible_start(self) -> int:
        """Length of the longest tail that some stop string begins with."""
        for n in range(min(self._longest - 1, len(self._held)), 0, -1):
            tail = self._held[-n:]
            if any(s.startswith(tail) for s in self._stop):
                return n
        return 0
