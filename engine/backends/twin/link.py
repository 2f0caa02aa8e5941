"""The one link between a modelled card and host memory: copies go over it one after the other."""

from engine.virtual_clock import VirtualClock


class Link:
    """`overlap`: a copy goes on beside the steps; else the engine stands still for it. `free_at`: when the last copy
    asked for is over. Blocks whose copy is under way are free in the books and cannot be written yet."""

    def __init__(self, clock: VirtualClock, overlap: bool) -> None:
        self.clock = clock
        self.overlap = overlap
        self.free_at = clock.now()
        self._busy: list[tuple[float, int]] = []

    def carry(self, seconds: float) -> float:
        """One more copy; when it is over."""
        self.free_at = max(self.clock.now(), self.free_at) + seconds
        if not self.overlap:
            self.clock.advance_to(self.free_at)
        return self.free_at

    def keep(self, blocks: int, until: float) -> None:
        """These blocks were given up, and a copy reads or writes them `until` then."""
        if blocks and until > self.clock.now():
            self._busy.append((until, blocks))

    def wait_for(self, blocks: int, free: int) -> None:
        """Let time pass until so many of the `free` blocks of the books are really there."""
        if not self._busy:
            return
        now = self.clock.now()
        self._busy = sorted(one for one in self._busy if one[0] > now)
        while self._busy and blocks > free - sum(count for _, count in self._busy):
            until, _ = self._busy.pop(0)
            self.clock.advance_to(until)

    def set_overlap(self, on: bool) -> None:
        """Copies under way end first."""
        self.drain()
        self.overlap = on

    def drain(self) -> None:
        """Let time pass until no copy is under way."""
        self.clock.advance_to(self.free_at)
        self._busy.clear()
