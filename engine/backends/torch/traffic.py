"""Turns on their way between arena and host pool: ordered copies, what they keep from being used, and when they end.

Without overlap a copy is over when its verb returns. With it the copier's thread moves the bytes, and everything here
is done by the engine's thread: blocks and units change hands only when a copy is found to be over.
"""

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from engine.backends.base import Landed, Moved
from engine.backends.torch.arena import Arena
from engine.backends.torch.copier import Copier, Transfer
from engine.backends.torch.hostpool import HostPool
from engine.backends.torch.turns import OpenTurn
from engine.errors import CorruptCopy, Refused
from engine.turn import TurnId

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Journey:
    """A turn whose copy is under way, `out` of the arena or back into it."""

    state: OpenTurn
    out: bool
    transfer: Transfer


class Traffic:
    """Over one arena and one pool. `scratch`: for copies that change precision, which are made while the engine stands
    still, since what they need is not theirs alone. Overlap needs arena and pool in one memory."""

    def __init__(self, arena: Arena, pool: HostPool, scratch: torch.Tensor) -> None:
        self._arena = arena
        self._pool = pool
        self._scratch = scratch
        self._copier = Copier()
        self._journeys: dict[TurnId, _Journey] = {}
        self._landed: list[Landed] = []
        self.overlap = False

    def set_overlap(self, on: bool) -> None:
        """Copies under way end first. Raises Refused beside a device."""
        if on and self._pool.pinned:
            raise Refused("Copies to and from a device are made while the engine stands still; leave overlap off.")
        self.settle()
        self.overlap = on

    # -- orders -----------------------------------------------------------------------------------------------------

    def out(self, state: OpenTurn) -> Moved | None:
        """Of a turn that holds blocks of the arena; see Backend."""
        arena, pool = self._arena, self._pool
        if state.coming:
            self.give_up(state)
            arena.give(state.id)
            return Moved(0, 0.0)
        if self.overlap:
            parked = pool.reserve(arena.layout, len(arena.table(state.id)))
            if parked is None:
                return None
            state.parked, state.leaving = parked, True
            return self._order(state, pool.store_beside(parked, arena.memory, arena.leave(state.id)))
        started = time.perf_counter()
        try:
            parked = pool.store(arena.memory, arena.layout, arena.table(state.id))
        except CorruptCopy:
            log.exception("turn %d could not be copied to the host pool; it stays in the arena", state.id)
            return None
        if parked is None:
            return None
        state.parked = parked
        arena.give(state.id)
        return Moved(parked.nbytes, time.perf_counter() - started)

    def back(self, state: OpenTurn) -> Moved | None:
        """Of a turn that has a host copy, or is on its way there; see Backend. After a CorruptCopy it is to be
        dropped."""
        arena, pool, parked = self._arena, self._pool, state.parked
        if parked is None or parked.blocks > arena.room:
            return None
        if state.leaving:
            if arena.stay(state.id):
                self._stop(state)
                pool.release(parked)
                state.parked = None
                return Moved(0, 0.0)
            self.wait(state)
            if state.parked is None:
                self._landed = [one for one in self._landed if one.turn != state.id]
                raise CorruptCopy("The copy to host memory failed; the turn must be recomputed.")
        if self.overlap and parked.layout == arena.layout:
            arena.take(state.id, parked.blocks, leaving=True)
            state.coming = True
            return self._order(state, pool.load_beside(parked, arena.memory, arena.table(state.id)))
        self.make_room(parked.blocks)
        started = time.perf_counter()
        arena.take(state.id, parked.blocks)
        pool.load(parked, arena.memory, arena.layout, arena.table(state.id), self._scratch)
        pool.release(parked)
        state.parked = None
        return Moved(parked.nbytes, time.perf_counter() - started)

    def _order(self, state: OpenTurn, pieces: Iterator[None]) -> Moved:
        parked = state.parked
        assert parked is not None
        self._journeys[state.id] = _Journey(state, state.leaving, self._copier.carry(pieces, parked.nbytes))
        return Moved(parked.nbytes, None)

    # -- ends -------------------------------------------------------------------------------------------------------

    def give_up(self, state: OpenTurn) -> None:
        """The copy reads and writes nothing any more; what the turn has where it was going is of no use."""
        leaving = state.leaving
        self._stop(state)
        if leaving:
            self._arena.left(state.id)

    def _stop(self, state: OpenTurn) -> None:
        journey = self._journeys.pop(state.id, None)
        if journey is not None:
            self._copier.give_up(journey.transfer)
            state.leaving = state.coming = False

    def wait(self, state: OpenTurn) -> None:
        """Until its copy is over, if one is under way."""
        while state.id in self._journeys:
            self.wait_for_the_first()

    def settle(self) -> None:
        while self._journeys:
            self.wait_for_the_first()

    def make_room(self, blocks: int) -> None:
        """Until so many blocks are free, or no copy is under way any more."""
        while self._arena.free < blocks and self._journeys:
            self.wait_for_the_first()

    @property
    def busy(self) -> bool:
        """Copies are under way."""
        return bool(self._journeys)

    def wait_for_the_first(self) -> None:
        """Of those under way."""
        self._copier.wait(next(iter(self._journeys.values())).transfer)
        self.look()

    def look(self) -> None:
        """Take note of the copies that are over."""
        while self._journeys and (first := next(iter(self._journeys.values()))).transfer.over:
            self._land(first)

    def _land(self, journey: _Journey) -> None:
        state, transfer = journey.state, journey.transfer
        del self._journeys[state.id]
        state.leaving = state.coming = False
        if journey.out:
            self._arena.left(state.id)
        if state.parked is not None and (transfer.error or not journey.out):
            self._pool.release(state.parked)
            state.parked = None
        if transfer.error:
            self._arena.give(state.id)
            state.kv_tokens = 0
        self._landed.append(
            Landed(
                turn=state.id,
                out=journey.out,
                nbytes=transfer.nbytes,
                seconds=transfer.ended - transfer.began,
                waited_s=self._copier.waited_s(transfer),
                error=transfer.error,
            )
        )

    def landed(self) -> tuple[Landed, ...]:
        """See Backend."""
        self.look()
        found = tuple(self._landed)
        self._landed.clear()
        return found

    def lost(self, turn: TurnId) -> bool:
        """Its copy failed, and nobody has been told yet."""
        return any(one.turn == turn and one.error for one in self._landed)

    def close(self) -> None:
        self._copier.close()
