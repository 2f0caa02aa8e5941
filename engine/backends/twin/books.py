"""Blocks of a modelled arena and units of a modelled host pool: counts alone, by the rules of the torch backend."""

from dataclasses import dataclass

from engine.errors import IntegrityError
from engine.geometry import BlockLayout, KVDtype, KVGeometry, unit_of

KV_DTYPES = (KVDtype.FP16, KVDtype.Q8)


@dataclass(frozen=True, slots=True)
class Parked:
    """A host copy: `blocks` blocks of `layout` in `units` whole units of the pool."""

    layout: BlockLayout
    blocks: int
    units: int

    @property
    def nbytes(self) -> int:
        return self.blocks * self.layout.nbytes


class ArenaBook:
    """A fixed number of bytes and how many blocks of `layout` are free in it. `peak_bytes`: the most that was ever
    held."""

    def __init__(self, nbytes: int, layout: BlockLayout) -> None:
        self.nbytes = nbytes
        self.peak_bytes = 0
        self.free = 0
        self.lay_out(layout, held=0)

    def lay_out(self, layout: BlockLayout, held: int) -> None:
        self.layout = layout
        self.block_bytes = layout.nbytes
        self.token_bytes = layout.geometry.bytes_per_token(layout.dtype)
        self.blocks = layout.blocks_in(self.nbytes)
        self.free = self.blocks - held

    def resize(self, nbytes: int) -> None:
        """What is held stays; it fits in `nbytes`."""
        held, self.nbytes = self.held, nbytes
        self.lay_out(self.layout, held)

    @property
    def held(self) -> int:
        return self.blocks - self.free

    def take(self, blocks: int) -> bool:
        """False, with nothing changed, if so many are not free."""
        if blocks > self.free:
            return False
        self.free -= blocks
        self.peak_bytes = max(self.peak_bytes, self.held * self.block_bytes)
        return True

    def give(self, blocks: int) -> None:
        self.free += blocks
        if self.free > self.blocks:
            raise IntegrityError(f"arena: {self.free} blocks free of {self.blocks}")


class PoolBook:
    """Whole units (`unit_of` a block at the smallest precision). `asked_bytes`: what the pool was asked to be."""

    def __init__(self, nbytes: int, geometry: KVGeometry, block_size: int) -> None:
        self.unit = unit_of(min(BlockLayout(geometry, dtype, block_size).nbytes for dtype in KV_DTYPES))
        self.used = 0
        self.resize(nbytes)

    def resize(self, nbytes: int) -> None:
        self.asked_bytes = nbytes
        self.units = nbytes // self.unit

    @property
    def total_bytes(self) -> int:
        return self.units * self.unit

    @property
    def used_bytes(self) -> int:
        return self.used * self.unit

    def store(self, layout: BlockLayout, blocks: int) -> Parked | None:
        """None, with nothing changed, if too few units are free."""
        units = -(-blocks * layout.nbytes // self.unit)
        if units > self.units - self.used:
            return None
        self.used += units
        return Parked(layout, blocks, units)

    def trim(self, parked: Parked, blocks: int) -> Parked:
        """Keep the copy's first `blocks` blocks; units wholly behind them are free again."""
        units = -(-blocks * parked.layout.nbytes // self.unit)
        self.used -= parked.units - units
        return Parked(parked.layout, blocks, units)

    def release(self, parked: Parked) -> None:
        self.used -= parked.units
