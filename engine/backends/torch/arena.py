"""The arena: a fixed run of device bytes cut into blocks, and who holds which of them."""

import heapq
from collections.abc import Mapping, Sequence

import numpy as np
import torch

from engine.backends.torch.executor import ArenaView
from engine.errors import IntegrityError
from engine.geometry import ALIGNMENT, BlockLayout
from engine.turn import TurnId


def aligned_bytes(nbytes: int, device: torch.device) -> torch.Tensor:
    """`nbytes` of zeroed uint8 memory on `device` that begins at a multiple of 64 bytes. On a CPU numpy makes it, as it
    asks the system for huge pages: blocks that lie apart are read and written faster in them. Every page is touched, so
    that memory which is not there fails here and not in a step."""
    if device.type == "cpu":
        raw = torch.from_numpy(np.empty(nbytes + ALIGNMENT, np.uint8)).fill_(0)
    else:
        raw = torch.zeros(nbytes + ALIGNMENT, dtype=torch.uint8, device=device)
    start = -raw.data_ptr() % ALIGNMENT
    return raw[start : start + nbytes]


class Arena:
    """Block b is bytes b x layout.nbytes onwards, for whatever layout is in force; the bytes never grow or shrink.

    The lowest free block is always taken first, so the same verbs give the same blocks. The table of a turn lists its
    blocks in the order of its tokens; `tables` is the truth, the owner of each block is kept apart so that a block
    held twice is seen.

    The blocks of a turn that leaves (`leave`) are neither held nor free while its copy reads them. Only a turn whose
    own copy comes after that one may be promised them (`take` with `leaving`); if it gives them back before, they are
    among the leaving ones again.
    """

    def __init__(self, nbytes: int, layout: BlockLayout, device: torch.device) -> None:
        self.memory = aligned_bytes(nbytes, device)
        self.nbytes = nbytes
        self._tables: dict[TurnId, list[int]] = {}
        self._left: dict[TurnId, list[int]] = {}
        self._leaving: dict[TurnId, list[int]] = {}
        self._read: dict[int, TurnId] = {}
        self._lay_out(layout)

    def _lay_out(self, layout: BlockLayout) -> None:
        self.layout = layout
        self.blocks = layout.blocks_in(self.nbytes)
        self._owner: list[TurnId | None] = [None] * self.blocks
        for turn, table in self._tables.items():
            for block in table:
                self._owner[block] = turn
        self._free = [block for block, owner in enumerate(self._owner) if owner is None]

    @property
    def view(self) -> ArenaView:
        return ArenaView(self.memory, self.layout, self.blocks)

    @property
    def free(self) -> int:
        return len(self._free)

    @property
    def room(self) -> int:
        """Blocks that are free, or will be once the turns that leave have left."""
        return len(self._free) + sum(map(len, self._leaving.values()))

    @property
    def held(self) -> int:
        return self.blocks - self.room

    def table(self, turn: TurnId) -> Sequence[int]:
        return self._tables.get(turn, ())

    def leaving(self, turn: TurnId) -> int:
        """Blocks of a turn that leaves which are promised to nobody."""
        return len(self._leaving.get(turn, ()))

    def take(self, turn: TurnId, count: int, leaving: bool = False) -> bool:
        """Put `count` more blocks behind the turn's table, with `leaving` also such as have not left yet. False, with
        nothing changed, if so many are not there."""
        if count > (self.room if leaving else len(self._free)):
            return False
        blocks = [heapq.heappop(self._free) for _ in range(min(count, len(self._free)))]
        for others in self._leaving.values():
            while others and len(blocks) < count:
                blocks.append(others.pop())
        for block in blocks:
            self._owner[block] = turn
        if blocks:
            self._tables.setdefault(turn, []).extend(blocks)
        return True

    def cut(self, turn: TurnId, keep: int) -> None:
        """Free what lies behind the turn's first `keep` blocks.

        Raises IntegrityError if a block is not the turn's.
        """
        table = self._tables.get(turn, [])
        for block in table[keep:]:
            if self._owner[block] != turn:
                raise IntegrityError(f"block {block} is in the table of turn {turn} but held by {self._owner[block]}")
            self._owner[block] = None
            self._let_go(block)
        del table[keep:]
        if not table:
            self._tables.pop(turn, None)

    def give(self, turn: TurnId) -> None:
        """Free all the turn's blocks."""
        self.cut(turn, 0)

    def leave(self, turn: TurnId) -> Sequence[int]:
        """A copy begins to read the turn's blocks, which it does not hold any more; returns them."""
        table = self._tables.pop(turn)
        for block in table:
            self._owner[block] = None
            self._read[block] = turn
        self._left[turn], self._leaving[turn] = table, table.copy()
        return table

    def left(self, turn: TurnId) -> None:
        """Nothing reads the blocks of a turn that was leaving any more; what is promised to nobody is free."""
        for block in [block for block, reader in self._read.items() if reader == turn]:
            del self._read[block]
        del self._left[turn]
        for block in self._leaving.pop(turn):
            self._let_go(block)

    def stay(self, turn: TurnId) -> bool:
        """A turn that was leaving holds its blocks again, if none is promised to another; False: nothing changed. The
        copy must read them no more, or be thrown away."""
        table = self._left[turn]
        if len(self._leaving[turn]) < len(table):
            return False
        self._leaving[turn] = []
        self.left(turn)
        self._tables[turn] = table
        for block in table:
            self._owner[block] = turn
        return True

    def _let_go(self, block: int) -> None:
        reader = self._read.get(block)
        if reader is None:
            heapq.heappush(self._free, block)
        else:
            self._leaving[reader].append(block)

    def live(self) -> np.ndarray:
        """Held blocks, ascending, int64."""
        return np.array(sorted(block for table in self._tables.values() for block in table), dtype=np.int64)

    def renumber(self, layout: BlockLayout, order: np.ndarray) -> None:
        """After a conversion: what was block `order[k]` is now block k of `layout`."""
        now = {int(block): k for k, block in enumerate(order)}
        self._tables = {turn: [now[block] for block in table] for turn, table in self._tables.items()}
        self._lay_out(layout)

    def check(self, tokens: Mapping[TurnId, int]) -> None:
        """`tokens`: KV tokens that each turn has in the arena. Raises IntegrityError where the books do not add up."""
        held = [block for table in self._tables.values() for block in table]
        leaving = [block for table in self._leaving.values() for block in table]
        if len(held) + len(leaving) + len(self._free) != self.blocks:
            raise IntegrityError(
                f"arena: {len(held)} blocks held + {len(leaving)} leaving + {len(self._free)} free != {self.blocks}"
            )
        if len(set(held)) != len(held):
            raise IntegrityError("arena: a block is held twice")
        if len({*held, *leaving, *self._free}) != self.blocks:
            raise IntegrityError("arena: a block is two of held, leaving and free, or one of them twice")
        if any(self._read.get(block) != turn for turn, table in self._leaving.items() for block in table):
            raise IntegrityError("arena: a block leaves and no copy reads it")
        for turn, table in self._tables.items():
            if any(self._owner[block] != turn for block in table):
                raise IntegrityError(f"arena: a block in the table of turn {turn} belongs to another turn")
        for turn in tokens.keys() | self._tables.keys():
            need, has = self.layout.blocks_for(tokens.get(turn, 0)), len(self.table(turn))
            if need != has:
                raise IntegrityError(f"arena: turn {turn} holds {has} blocks, its KV tokens need {need}")
