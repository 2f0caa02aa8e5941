"""The twin body: blocks and bytes as the torch backend counts them, time from a card's figures, no model, no memory.

Blocks are counted, not numbered: nothing here depends on which one a turn holds. Each verb advances the virtual clock
by what it would take on the card. A copy goes over one link, after those asked for before it; where copies overlap the
steps, a turn that comes back runs once its copy is there, and a block that leaves is written again once it has left.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.backends.base import Converted, Copied, DeviceMemory, Holding, Landed, Moved, StepPlan, StepResult
from engine.backends.limits import check_keep, check_new, check_probe, check_tokens, validated
from engine.backends.twin.books import KV_DTYPES, ArenaBook, PoolBook
from engine.backends.twin.link import Link
from engine.backends.twin.stepper import run_step
from engine.backends.twin.times import CardTimes
from engine.backends.twin.tokens import VOCABULARY
from engine.backends.twin.turns import TwinTurn
from engine.errors import IntegrityError, Refused, UnknownTurn
from engine.geometry import BLOCK_SIZE, BlockLayout, KVDtype, KVGeometry
from engine.turn import Sampling, TurnId
from engine.virtual_clock import VirtualClock


@dataclass(frozen=True, slots=True)
class Modelled:
    """The card and the model on it, in bytes, tokens and seconds."""

    geometry: KVGeometry
    max_context: int
    weights_bytes: int
    runtime_bytes: int
    arena_bytes: int
    times: CardTimes


class TwinBackend:
    """`Backend` over a modelled card. `overlap`: copies go on beside the steps. Raises Refused when the arena holds no
    block or the precision is not one of the twin's."""

    name = "twin"
    vocab_size = VOCABULARY

    def __init__(
        self,
        card: Modelled,
        clock: VirtualClock,
        host_bytes: int,
        kv_dtype: KVDtype = KVDtype.FP16,
        overlap: bool = False,
        block_size: int = BLOCK_SIZE,
    ) -> None:
        self.geometry = card.geometry
        self.block_size = block_size
        self.max_context = card.max_context
        self.times = card.times
        self._card = card
        self._clock = clock
        self._turns: dict[TurnId, TwinTurn] = {}
        layout = self._layout(kv_dtype)
        if layout.blocks_in(card.arena_bytes) < 1:
            raise Refused(f"An arena of {card.arena_bytes} bytes holds no block of {layout.nbytes} bytes; enlarge it.")
        self._arena = ArenaBook(card.arena_bytes, layout)
        self._pool = PoolBook(host_bytes, card.geometry, block_size)
        self._link = Link(clock, self._arena, self._pool, overlap)

    @property
    def clock(self) -> VirtualClock:
        return self._clock

    @property
    def kv_dtype(self) -> KVDtype:
        return self._arena.layout.dtype

    @property
    def kv_dtypes(self) -> frozenset[KVDtype]:
        return frozenset(KV_DTYPES)

    @property
    def copying(self) -> bool:
        """Copies are under way, or nobody has been told yet that they are over."""
        return not self._link.quiet

    @property
    def peak_kv_bytes(self) -> int:
        """The most that turns ever held in the arena."""
        return self._arena.peak_bytes

    def _layout(self, dtype: KVDtype) -> BlockLayout:
        if dtype not in KV_DTYPES:
            raise Refused(f"KV precision {dtype} is not offered here; choose one of {', '.join(KV_DTYPES)}.")
        return BlockLayout(self.geometry, dtype, self.block_size)

    def _turn(self, turn: TurnId) -> TwinTurn:
        if turn not in self._turns:
            raise UnknownTurn(f"Turn {turn} is not open; it never was, or it has ended.")
        return self._turns[turn]

    def open(self, turn: TurnId, tokens: Sequence[int], sampling: Sampling) -> None:
        """Raises Refused as the torch backend does."""
        check_new(turn, self._turns, tokens)
        check_tokens(tokens, len(tokens), self.max_context, self.vocab_size)
        self._turns[turn] = TwinTurn(turn, len(tokens), validated(sampling).seed or 0)

    def step(self, plan: StepPlan) -> StepResult:
        for work in plan.work:
            self._turn(work.turn)
        return run_step(plan, self._turns, self._arena, self._link, self.times, self.max_context)

    # -- contexts ---------------------------------------------------------------------------------------------------

    def extend(self, turn: TurnId, keep: int, tokens: Sequence[int]) -> None:
        """Raises Refused, with nothing changed, for a `keep` outside the turn, bad tokens, or nothing left at all."""
        state = self._turn(turn)
        total = keep + len(tokens)
        check_keep(turn, state.tokens, keep, len(tokens))
        check_tokens(tokens, total, self.max_context, self.vocab_size)
        state.tokens = total
        kept = min(state.kv_tokens, keep, total - 1)
        if kept == state.kv_tokens:
            return
        self._link.wait(state)
        state.kv_tokens = kept
        blocks = -(-kept // self.block_size)
        if state.parked is None:
            self._free(state, state.blocks - blocks)
        elif blocks:
            state.parked = self._pool.trim(state.parked, blocks)
        else:
            self._pool.release(state.parked)
            state.parked = None

    def pretend(self, turn: TurnId, kv_tokens: int) -> None:
        state = self._turn(turn)
        blocks = -(-kv_tokens // self.block_size)
        if not self._arena.take(blocks):
            raise IntegrityError(f"the arena has no room for a context of {kv_tokens} tokens")
        state.blocks += blocks
        state.kv_tokens = kv_tokens

    def drop(self, turn: TurnId) -> None:
        state = self._turn(turn)
        self._link.give_up(state)
        self._free(state, state.blocks)
        if state.parked is not None:
            self._pool.release(state.parked)
        state.parked = None
        state.kv_tokens = 0

    def close(self, turn: TurnId) -> None:
        self.drop(turn)
        del self._turns[turn]

    def _free(self, state: TwinTurn, blocks: int) -> None:
        state.blocks -= blocks
        self._arena.give(blocks)

    def holding(self, turn: TurnId) -> Holding:
        state = self._turn(turn)
        parked = state.parked
        if parked is None or state.coming:
            return Holding(state.kv_tokens, state.blocks)
        return Holding(state.kv_tokens, 0, parked.units * self._pool.unit, parked.layout.dtype, state.left_here)

    # -- copies -----------------------------------------------------------------------------------------------------

    def swap_out(self, turn: TurnId) -> Moved | None:
        """Raises Refused if the turn holds no block of the arena."""
        state = self._turn(turn)
        if not state.blocks:
            raise Refused(f"Turn {turn} holds nothing in the arena; only a resident turn can be swapped out.")
        if state.coming:
            self._link.give_up(state)
            self._free(state, state.blocks)
            return Moved(0, 0.0)
        parked = self._pool.store(self._arena.layout, state.blocks)
        if parked is None:
            return None
        state.parked, state.leaving, state.left_here = parked, True, state.blocks
        self._free(state, state.blocks)
        return Moved(parked.nbytes, self._link.carry(state, parked.nbytes, self.times.out_s(parked.nbytes)))

    def swap_in(self, turn: TurnId) -> Moved | None:
        """Raises Refused if the turn has no host copy."""
        state, arena = self._turn(turn), self._arena
        parked = state.parked
        if parked is None or state.coming:
            raise Refused(f"Turn {turn} has no copy in the host pool; only a swapped turn can be brought back.")
        if parked.blocks > arena.free:
            return None
        if state.leaving and state.left_here == parked.blocks:
            self._link.give_up(state)
            self._pool.release(parked)
            state.parked, state.blocks = None, parked.blocks
            arena.take(parked.blocks)
            return Moved(0, 0.0)
        self._link.wait(state)
        self._link.promise(state, max(0, parked.blocks - (arena.free - self._link.unwritable)))
        arena.take(parked.blocks)
        state.blocks, state.coming = parked.blocks, True
        return Moved(parked.nbytes, self._link.carry(state, parked.nbytes, self.times.back_s(parked.nbytes)))

    @property
    def can_overlap(self) -> bool:
        return True

    @property
    def overlap(self) -> bool:
        return self._link.overlap

    def set_overlap(self, on: bool) -> None:
        self._link.set_overlap(on)

    def landed(self) -> tuple[Landed, ...]:
        return self._link.landed()

    def settle(self) -> None:
        self._link.settle()

    @property
    def copy_sizes(self) -> tuple[int, ...]:
        return (self._arena.block_bytes,)

    def probe_copy(self, block_bytes: int, nbytes: int) -> Copied:
        check_probe(block_bytes, self.copy_sizes, len(self._turns))
        total = max(1, min(nbytes, self._arena.nbytes) // block_bytes) * block_bytes
        out, back = self.times.out_s(total), self.times.back_s(total)
        self._clock.advance(out + back)
        return Copied(total, out, back)

    # -- sizes ------------------------------------------------------------------------------------------------------

    def set_kv_dtype(self, dtype: KVDtype) -> Converted:
        """Copies under way end first."""
        arena, new = self._arena, self._layout(dtype)
        if new == arena.layout:
            return Converted(0, 0.0, arena.blocks)
        held, fits = arena.held, new.blocks_in(arena.nbytes)
        if held > fits:
            raise Refused(
                f"At {dtype} the arena holds {fits} blocks ({fits * new.nbytes / 2**20:.1f} MiB) but {held} "
                f"({held * new.nbytes / 2**20:.1f} MiB) are held; move turns out of it first."
            )
        self._link.settle()
        nbytes = held * (arena.layout.nbytes + new.nbytes)
        seconds = self.times.convert_s(nbytes)
        self._clock.advance(seconds)
        arena.lay_out(new, held)
        return Converted(nbytes, seconds, arena.blocks)

    def blocks_at(self, dtype: KVDtype) -> int:
        return self._layout(dtype).blocks_in(self._arena.nbytes)

    def block_bytes_at(self, dtype: KVDtype) -> int:
        return self._arena.block_bytes if dtype is self.kv_dtype else self._layout(dtype).nbytes

    def check_arena(self, nbytes: int) -> None:
        """Raises Refused where what is held does not fit, or no block."""
        arena = self._arena
        if arena.layout.blocks_in(nbytes) < max(1, arena.held):
            raise Refused(
                f"An arena of {nbytes} bytes holds no {max(1, arena.held)} blocks; move turns out of it first."
            )

    def set_arena(self, nbytes: int) -> None:
        """Copies under way end first."""
        self.check_arena(nbytes)
        self._link.settle()
        self._arena.resize(nbytes)

    def check_host_pool(self, nbytes: int) -> None:
        """Any size from 0 on: what the host has is the model's to say."""
        if nbytes < 0:
            raise Refused(f"A host pool of {nbytes} bytes was asked for; give 0 or more.")

    def set_host_pool(self, nbytes: int) -> None:
        self.check_host_pool(nbytes)
        self._link.settle()
        pool = self._pool
        if nbytes // pool.unit < pool.used:
            raise Refused(
                f"The host pool cannot be set to {nbytes / 2**20:.1f} MiB because parked turns use "
                f"{pool.used_bytes / 2**20:.1f} MiB of it; ask for at least that or drop parked turns first."
            )
        pool.resize(nbytes)

    def memory(self) -> DeviceMemory:
        """Modelled too: there is no device whose own reading could be held against it."""
        arena, pool = self._arena, self._pool
        return DeviceMemory(
            weights_bytes=self._card.weights_bytes,
            runtime_bytes=self._card.runtime_bytes,
            arena_bytes=arena.nbytes,
            block_bytes=arena.block_bytes,
            blocks_total=arena.blocks,
            blocks_free=arena.free,
            host_total_bytes=pool.total_bytes,
            host_used_bytes=pool.used_bytes,
            host_unit_bytes=pool.unit,
            host_asked_bytes=pool.asked_bytes,
        )

    def warning(self) -> str | None:
        """While the clock cannot keep the pace that it was given."""
        return self._clock.shortfall()

    def check_integrity(self) -> None:
        resident = [turn for turn in self._turns.values() if turn.parked is None or turn.coming]
        held = sum(turn.blocks for turn in self._turns.values())
        if held + self._arena.free != self._arena.blocks:
            raise IntegrityError(f"arena: {held} blocks held + {self._arena.free} free != {self._arena.blocks}")
        for turn in resident:
            if turn.blocks != -(-turn.kv_tokens // self.block_size):
                raise IntegrityError(f"arena: turn {turn.id} holds {turn.blocks} blocks for {turn.kv_tokens} tokens")
        if self._link.unwritable > self._arena.free:
            raise IntegrityError(f"arena: copies read {self._link.unwritable} blocks, {self._arena.free} are not held")
        parked = [turn.parked for turn in self._turns.values() if turn.parked is not None]
        used = sum(-(-copy.nbytes // self._pool.unit) for copy in parked)
        if used != self._pool.used or used > self._pool.units:
            raise IntegrityError(
                f"host pool: copies need {used} units, {self._pool.used} of {self._pool.units} are used"
            )

    def shutdown(self) -> None:
        for turn in list(self._turns):
            self.close(turn)
