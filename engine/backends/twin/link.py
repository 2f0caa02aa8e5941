"""The one link between a modelled card and host memory: copies go over it one after the other."""

from dataclasses import dataclass

from engine.backends.base import Landed
from engine.backends.twin.books import ArenaBook, PoolBook
from engine.backends.twin.turns import TwinTurn
from engine.errors import IntegrityError
from engine.virtual_clock import VirtualClock


@dataclass(slots=True)
class _Copy:
    """Under way from `begins` on, for `seconds`."""

    turn: TwinTurn
    nbytes: int
    seconds: float
    begins: float

    @property
    def ends(self) -> float:
        return self.begins + self.seconds


class Link:
    """`overlap`: a copy goes on beside the steps; else the engine stands still for it. Blocks and units of a copy under
    way change hands when it is found to be over."""

    def __init__(self, clock: VirtualClock, arena: ArenaBook, pool: PoolBook, overlap: bool) -> None:
        self.clock = clock
        self.overlap = overlap
        self._arena = arena
        self._pool = pool
        self._copies: list[_Copy] = []
        self._read: list[tuple[float, int]] = []
        self._waits: list[tuple[float, float]] = []
        self._landed: list[Landed] = []

    @property
    def busy(self) -> bool:
        """Copies are under way."""
        return bool(self._copies)

    @property
    def quiet(self) -> bool:
        """None is under way, and whoever is told of them knows."""
        return not (self._copies or self._landed)

    def carry(self, turn: TwinTurn, nbytes: int, seconds: float) -> float | None:
        """One more copy, of a turn that leaves or comes; its seconds if it is over on return, else None."""
        begins = max(self.clock.now(), self._copies[-1].ends) if self._copies else self.clock.now()
        self._copies.append(_Copy(turn, nbytes, seconds, begins))
        if self.overlap:
            return None
        self.settle()
        self._landed.clear()
        return seconds

    # -- blocks that cannot be written yet --------------------------------------------------------------------------

    @property
    def unwritable(self) -> int:
        """Free blocks of the books that copies still read."""
        return sum(copy.turn.left_here for copy in self._copies) + sum(blocks for _, blocks in self._read)

    def promise(self, turn: TwinTurn, blocks: int) -> None:
        """To a turn that comes, whose copy is to be the last: blocks that copies still read, the first to end first."""
        turn.promised = blocks
        for copy in self._copies:
            taken = min(blocks, copy.turn.left_here)
            copy.turn.left_here -= taken
            blocks -= taken
        for place, (until, count) in enumerate(self._read):
            taken = min(blocks, count)
            self._read[place] = (until, count - taken)
            blocks -= taken
        if blocks:
            raise IntegrityError(f"{blocks} blocks were promised that no copy reads")

    # -- waiting and ends -------------------------------------------------------------------------------------------

    def wait_for(self, blocks: int) -> None:
        """Let time pass until so many free blocks of the books can be written, or no copy is under way."""
        while self._copies and blocks > self._arena.free - self.unwritable:
            self.wait_for_the_first()

    def wait_for_the_first(self) -> None:
        """Of the copies under way."""
        self._wait_until(self._copies[0].ends)

    def wait(self, turn: TwinTurn) -> None:
        """Until its copy is over, if one is under way."""
        for copy in [copy for copy in self._copies if copy.turn is turn]:
            self._wait_until(copy.ends)

    def settle(self) -> None:
        """Until no copy is under way."""
        if self._copies:
            self._wait_until(self._copies[-1].ends)

    def set_overlap(self, on: bool) -> None:
        """Copies under way end first."""
        self.settle()
        self.overlap = on

    def _wait_until(self, at: float) -> None:
        now = self.clock.now()
        if at > now:
            self._waits.append((now, at))
            self.clock.advance_to(at)
        self.look()

    def look(self) -> None:
        """Take note of the copies that are over."""
        now = self.clock.now()
        while self._copies and self._copies[0].ends <= now:
            self._land(self._copies.pop(0))
        if self._read:
            self._read = [one for one in self._read if one[0] > now]

    def _land(self, copy: _Copy) -> None:
        turn, out = copy.turn, copy.turn.leaving
        turn.leaving, turn.coming, turn.left_here, turn.promised = False, False, 0, 0
        if not out and turn.parked is not None:
            self._pool.release(turn.parked)
            turn.parked = None
        waited = sum(max(0.0, min(end, copy.ends) - max(start, copy.begins)) for start, end in self._waits)
        self._waits = [span for span in self._waits if span[1] > copy.ends]
        self._landed.append(Landed(turn.id, out, copy.nbytes, copy.seconds, waited))

    def give_up(self, turn: TwinTurn) -> None:
        """Its copy ends here, if one is under way, and those behind it move up."""
        now = self.clock.now()
        place = next((place for place, copy in enumerate(self._copies) if copy.turn is turn), None)
        if place is None:
            return
        begins = max(now, self._copies.pop(place).begins)
        if turn.coming and begins > now:
            self._read.append((begins, turn.promised))
        turn.leaving, turn.coming, turn.left_here, turn.promised = False, False, 0, 0
        for copy in self._copies[place:]:
            copy.begins, begins = begins, begins + copy.seconds

    def landed(self) -> tuple[Landed, ...]:
        self.look()
        found = tuple(self._landed)
        self._landed.clear()
        return found
