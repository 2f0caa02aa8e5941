"""The torch body: turns, their blocks in the arena and their host copies, over an executor that runs the model.

Blocks and bytes are all this file decides about; which kernels run is the executor's, who runs is the governor's.
"""

import logging
import secrets
import time
from collections.abc import Callable, Sequence

import torch

from engine.backends.base import Converted, Copied, DeviceMemory, Holding, Landed, Moved, StepPlan, StepResult
from engine.backends.hostmem import available_host_bytes, host_pool_limit
from engine.backends.limits import check_keep, check_new, check_probe, check_tokens, validated
from engine.backends.torch.arena import Arena, aligned_bytes
from engine.backends.torch.convert import convert_arena, load_kernels, scratch_bytes
from engine.backends.torch.executor import Executor
from engine.backends.torch.hostpool import HostPool, unit_bytes
from engine.backends.torch.probe import copy_sizes, probe_copy
from engine.backends.torch.sampling import warm_up as warm_up_sampling
from engine.backends.torch.stepper import run_step
from engine.backends.torch.traffic import Traffic
from engine.backends.torch.turns import OpenTurn
from engine.errors import CorruptCopy, IntegrityError, Refused, UnknownTurn
from engine.geometry import BLOCK_SIZE, BlockLayout, KVDtype
from engine.turn import Sampling, TurnId

log = logging.getLogger(__name__)


class TorchBackend:
    """`Backend` over an `Executor`.

    `arena_bytes` is fixed; `host_bytes` may change later, `host_asked` is what was asked for if that was more;
    `kv_dtype` is the first precision. Raises Refused when the arena holds no block, the executor does not know the
    precision, or the system will not pin so much host memory.
    """

    name = "torch"

    def __init__(
        self,
        executor: Executor,
        arena_bytes: int,
        host_bytes: int,
        kv_dtype: KVDtype,
        block_size: int = BLOCK_SIZE,
        host_asked: int | None = None,
        host_available: Callable[[], int] = available_host_bytes,
    ) -> None:
        config = executor.config
        self.geometry = config.geometry
        self.block_size = block_size
        self.max_context = config.max_context
        self.vocab_size = config.vocab_size
        self._executor = executor
        self._host_available = host_available
        self._turns: dict[TurnId, OpenTurn] = {}
        layout = self._layout(kv_dtype)
        if layout.blocks_in(arena_bytes) < 1:
            raise Refused(f"An arena of {arena_bytes} bytes holds no block of {layout.nbytes} bytes; make it larger.")
        self._scratch = aligned_bytes(scratch_bytes([self._layout(d) for d in executor.kv_dtypes]), executor.device)
        self._arena = Arena(arena_bytes, layout, executor.device)
        self._pool = HostPool(host_bytes, unit_bytes(self.geometry, block_size), executor.device, host_asked)
        self._traffic = Traffic(self._arena, self._pool, self._scratch)

    @property
    def executor(self) -> Executor:
        """What runs the model; benches ask it for logits directly."""
        return self._executor

    @property
    def kv_dtype(self) -> KVDtype:
        return self._arena.layout.dtype

    @property
    def kv_dtypes(self) -> frozenset[KVDtype]:
        return self._executor.kv_dtypes

    @property
    def exact(self) -> bool:
        """Recompute gives the same bits as the first time."""
        return self._executor.exact

    def _layout(self, dtype: KVDtype) -> BlockLayout:
        if dtype not in self._executor.kv_dtypes:
            allowed = ", ".join(sorted(self._executor.kv_dtypes))
            raise Refused(f"KV precision {dtype} is not offered here; choose one of {allowed}.")
        return BlockLayout(self.geometry, dtype, self.block_size)

    def _turn(self, turn: TurnId) -> OpenTurn:
        if turn not in self._turns:
            raise UnknownTurn(f"Turn {turn} is not open; it never was, or it has ended.")
        return self._turns[turn]

    def open(self, turn: TurnId, tokens: Sequence[int], sampling: Sampling) -> None:
        """Raises Refused for an id that is open, no tokens, a token outside the vocabulary, too many tokens for the
        model's context, or sampling values out of range."""
        check_new(turn, self._turns, tokens)
        check_tokens(tokens, len(tokens), self.max_context, self.vocab_size)
        seed = validated(sampling).seed
        drawn = secrets.randbits(64) if seed is None else seed
        self._turns[turn] = OpenTurn(turn, list(tokens), sampling, drawn)

    def step(self, plan: StepPlan) -> StepResult:
        for work in plan.work:
            self._turn(work.turn)
        return run_step(plan, self._turns, self._arena, self._traffic, self._executor)

    def extend(self, turn: TurnId, keep: int, tokens: Sequence[int]) -> None:
        """Raises Refused, with nothing changed, for a `keep` outside the turn, bad tokens, or nothing left at all."""
        state = self._turn(turn)
        total = keep + len(tokens)
        check_keep(turn, len(state.tokens), keep, len(tokens))
        check_tokens(tokens, total, self.max_context, self.vocab_size)
        state.tokens = [*state.tokens[:keep], *tokens]
        self._cut_kv(state, min(state.kv_tokens, keep, total - 1))

    def _cut_kv(self, state: OpenTurn, keep: int) -> None:
        """Keep the KV of the first `keep` tokens, in whatever tier it is, once a copy of what is cut is over."""
        if keep == state.kv_tokens:
            return
        self._traffic.wait(state)
        keep = state.kv_tokens = min(keep, state.kv_tokens)
        blocks = self._arena.layout.blocks_for(keep)
        if not state.parked:
            self._arena.cut(state.id, blocks)
        elif blocks:
            state.parked = self._pool.trim(state.parked, blocks)
        else:
            self._pool.release(state.parked)
            state.parked = None

    def swap_out(self, turn: TurnId) -> Moved | None:
        """None also when the copy itself failed, which is logged: the turn stays where it is, unchanged. Raises Refused
        if the turn holds no block of the arena."""
        state = self._turn(turn)
        if not self._arena.table(turn):
            raise Refused(f"Turn {turn} holds nothing in the arena; only a resident turn can be swapped out.")
        return self._traffic.out(state)

    def swap_in(self, turn: TurnId) -> Moved | None:
        """Raises Refused if the turn has no host copy."""
        state = self._turn(turn)
        if state.parked is None or state.coming:
            raise Refused(f"Turn {turn} has no copy in the host pool; only a swapped turn can be brought back.")
        try:
            return self._traffic.back(state)
        except CorruptCopy:
            self.drop(turn)
            raise

    @property
    def can_overlap(self) -> bool:
        return not self._pool.pinned

    @property
    def overlap(self) -> bool:
        return self._traffic.overlap

    def set_overlap(self, on: bool) -> None:
        self._traffic.set_overlap(on)

    def landed(self) -> tuple[Landed, ...]:
        return self._traffic.landed()

    def settle(self) -> None:
        self._traffic.settle()

    def drop(self, turn: TurnId) -> None:
        state = self._turn(turn)
        self._traffic.give_up(state)
        self._arena.give(turn)
        if state.parked:
            self._pool.release(state.parked)
        state.parked = None
        state.kv_tokens = 0

    def close(self, turn: TurnId) -> None:
        self.drop(turn)
        del self._turns[turn]

    def tokens(self, turn: TurnId) -> tuple[int, ...]:
        """All tokens of the turn, prompt and generated."""
        return tuple(self._turn(turn).tokens)

    def holding(self, turn: TurnId) -> Holding:
        state = self._turn(turn)
        blocks = len(self._arena.table(turn))
        if state.parked is None or state.coming:
            return Holding(state.kv_tokens, blocks)
        return Holding(
            kv_tokens=state.kv_tokens,
            blocks=blocks,
            host_bytes=self._pool.occupied(state.parked),
            host_dtype=state.parked.layout.dtype,
            leaving=self._arena.leaving(turn),
        )

    def set_kv_dtype(self, dtype: KVDtype) -> Converted:
        arena, new = self._arena, self._layout(dtype)
        started = time.perf_counter()
        if new == arena.layout:
            return Converted(0, 0.0, arena.blocks)
        self._traffic.settle()
        fits = new.blocks_in(arena.nbytes)
        if arena.held > fits:
            raise Refused(
                f"At {dtype} the arena holds {fits} blocks ({fits * new.nbytes / 2**20:.1f} MiB) but {arena.held} "
                f"({arena.held * new.nbytes / 2**20:.1f} MiB) are held; move turns out of it first."
            )
        live = arena.live()
        moved = live.size * (arena.layout.nbytes + new.nbytes)
        order = convert_arena(arena.memory, arena.layout, new, live, self._scratch, self._pool.workers)
        arena.renumber(new, order)
        self._settle_device()
        return Converted(moved, time.perf_counter() - started, arena.blocks)

    def _settle_device(self) -> None:
        if self._executor.device.type == "cuda":
            torch.cuda.synchronize(self._executor.device)

    def blocks_at(self, dtype: KVDtype) -> int:
        return self._layout(dtype).blocks_in(self._arena.nbytes)

    def block_bytes_at(self, dtype: KVDtype) -> int:
        return self._layout(dtype).nbytes

    def check_host_pool(self, nbytes: int) -> None:
        """A size below 0 and growth beyond half of what the host has available are refused."""
        limit = max(self._pool.total_bytes, host_pool_limit(self._pool.held_bytes + self._host_available()))
        if nbytes < 0 or nbytes > limit:
            raise Refused(
                f"A host pool of {nbytes / 2**20:.1f} MiB was asked for; give 0 to {limit / 2**20:.1f} MiB, half of "
                "the memory that this machine and its container have available."
            )

    def set_host_pool(self, nbytes: int) -> None:
        self.check_host_pool(nbytes)
        self._traffic.settle()
        self._pool.resize(nbytes)

    def memory(self) -> DeviceMemory:
        total, used = self._device_reading()
        return DeviceMemory(
            weights_bytes=self._executor.weights_bytes,
            runtime_bytes=self._executor.runtime_bytes + self._scratch.nbytes + self._pool.copies.staging_bytes,
            arena_bytes=self._arena.memory.nbytes,
            block_bytes=self._arena.layout.nbytes,
            blocks_total=self._arena.blocks,
            blocks_free=self._arena.room,
            host_total_bytes=self._pool.total_bytes,
            host_used_bytes=self._pool.used_bytes,
            host_unit_bytes=self._pool.unit,
            device_total=total,
            device_used=used,
            host_asked_bytes=self._pool.asked_bytes,
            host_held_bytes=self._pool.held_bytes,
        )

    def warning(self) -> str | None:
        """While any KV is kept at q8, in the arena or in a host copy."""
        parked = (state.parked.layout.dtype for state in self._turns.values() if state.parked)
        return self._executor.outlier_warning() if KVDtype.Q8 in (self.kv_dtype, *parked) else None

    def _device_reading(self) -> tuple[int | None, int | None]:
        """The device's own figures for all its processes; a CPU has no such sensor."""
        if self._executor.device.type != "cuda":
            return None, None
        free, total = torch.cuda.mem_get_info(self._executor.device)
        return total, total - free

    def warm_up(self) -> None:
        """Compile or load every kernel that an operator's switch may need: fp16, q8 and the present precision. Raises
        Refused while a turn is open."""
        if self._turns:
            raise Refused(f"The engine can only be warmed up while no turn is open; {len(self._turns)} are.")
        first = self._arena.layout
        wanted = self.kv_dtypes - ({KVDtype.FP32} - {first.dtype})
        load_kernels([self._layout(dtype) for dtype in sorted(wanted)])
        self._pool.copies.warm_up()
        warm_up_sampling()
        for dtype in sorted(wanted - {first.dtype}):
            self._arena.renumber(self._layout(dtype), self._arena.live())
            self._executor.warm_up(self._arena.view)
        self._arena.renumber(first, self._arena.live())
        self._executor.warm_up(self._arena.view)

    def pretend(self, turn: TurnId, kv_tokens: int) -> None:
        """Blocks of zeros."""
        state, arena = self._turn(turn), self._arena
        if not arena.take(turn, arena.layout.blocks_for(kv_tokens)):
            raise IntegrityError(f"the arena has no room for a context of {kv_tokens} tokens")
        for block in arena.table(turn):
            arena.memory[block * arena.layout.nbytes : (block + 1) * arena.layout.nbytes].zero_()
        state.kv_tokens = kv_tokens

    @property
    def copy_sizes(self) -> tuple[int, ...]:
        return copy_sizes(self._arena)

    def probe_copy(self, block_bytes: int, nbytes: int) -> Copied:
        check_probe(block_bytes, self.copy_sizes, len(self._turns))
        return probe_copy(self._arena, self._pool, block_bytes, nbytes)

    def check_integrity(self) -> None:
        self._arena.check({turn: state.resident_tokens for turn, state in self._turns.items()})
        self._pool.check(state.parked for state in self._turns.values() if state.parked)

    def shutdown(self) -> None:
        for turn in list(self._turns):
            self.close(turn)
        self._traffic.close()
        self._pool.close()
