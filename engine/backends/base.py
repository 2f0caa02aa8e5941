"""What a body offers to the host: it carries actions out and runs the model. torch, vllm and twin implement this.

Every verb is called by the host's thread, between two steps (a token boundary). Pausing needs no verb: a turn that is
not in the plan keeps its blocks. Backends know nothing of priority, phase or policy.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from engine.geometry import KVDtype, KVGeometry
from engine.turn import Sampling, TurnId


class WeightDtype(StrEnum):
    """Precision of a model's weights in memory: FP16 as a device computes, INT8 with one scale per output row, INT4
    with a scale and an offset per 32 weights. Exact mode has fp32 instead."""

    FP16 = "fp16"
    INT8 = "int8"
    INT4 = "int4"


@dataclass(frozen=True, slots=True)
class Work:
    """The right of one turn to run in the next step. `budget`: at most this many of its pending tokens are computed
    (1 is a decode step); when no token is left pending one token is sampled."""

    turn: TurnId
    budget: int


@dataclass(frozen=True, slots=True)
class StepPlan:
    """Who may run. An UPPER bound: a backend may do less (vLLM chunks by itself), and its result says what ran."""

    work: tuple[Work, ...]


@dataclass(frozen=True, slots=True)
class TurnStep:
    """What a step did for one turn. `computed`: pending tokens whose KV was computed. `sampled`: the next token, if
    none is left pending. `error`: the reason if this turn alone failed; it must then be closed."""

    turn: TurnId
    computed: int
    sampled: int | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class StepResult:
    """`seconds`: wall time of the step (virtual on the twin). `preempted`: turns that the backend itself put off and
    whose KV it threw away (vLLM may); empty for torch."""

    turns: tuple[TurnStep, ...]
    seconds: float
    prefill_tokens: int = 0
    decode_tokens: int = 0
    preempted: tuple[TurnId, ...] = ()


@dataclass(frozen=True, slots=True)
class Moved:
    """A copy between arena and host pool: bytes and seconds, staging included. `seconds` None: it goes on beside the
    steps and `landed` will tell. No bytes: nothing had to be copied, a copy the other way was given up."""

    nbytes: int
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Landed:
    """A copy that went on beside the steps is over. `out`: to the host pool, else back. `seconds`: from its first byte
    to its last, without its wait for the copies before it; `waited_s`: those of them for which the engine stood still.
    `error`: why there is no usable copy; the turn, and it alone, was dropped."""

    turn: TurnId
    out: bool
    nbytes: int
    seconds: float
    waited_s: float
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Copied:
    """A copy of `nbytes` out to the host and back again, seconds each way."""

    nbytes: int
    out_s: float
    back_s: float


@dataclass(frozen=True, slots=True)
class Converted:
    """A switch of KV precision: bytes read plus bytes written in the arena, seconds, and the arena's blocks after."""

    nbytes: int
    seconds: float
    blocks: int


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """Bytes as they are on the device. `device_used` is the device's own reading for all processes (None: no sensor);
    `arena_bytes` is the whole arena, `blocks_*` count at the present precision, and blocks whose copy to the host is
    still under way count as free: who is promised them gets them when it has ended. Host figures are of the pinned
    pool: copies occupy whole units of `host_unit_bytes`, `host_asked_bytes` was asked for, `host_total_bytes` is
    usable, `host_held_bytes` the system has really given (on CPU pages are committed at first touch), None where a
    backend cannot tell."""

    weights_bytes: int
    runtime_bytes: int
    arena_bytes: int
    block_bytes: int
    blocks_total: int
    blocks_free: int
    host_total_bytes: int
    host_used_bytes: int
    host_unit_bytes: int
    device_total: int | None = None
    device_used: int | None = None
    host_asked_bytes: int | None = None
    host_held_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Holding:
    """What one turn holds: `kv_tokens` computed and kept (in the arena or in its host copy), blocks in the arena,
    bytes in the host pool, the precision of the host copy. `leaving`: blocks that it still has in the arena while its
    copy to the host is under way. While its copy back is, the host copy belongs to the pool alone."""

    kv_tokens: int
    blocks: int
    host_bytes: int = 0
    host_dtype: KVDtype | None = None
    leaving: int = 0


class Backend(Protocol):
    """The verbs. All raise UnknownTurn for a turn that is not open.

    Copies beside the steps (`overlap`): `swap_out` and `swap_in` only order a copy, and the turn is in its new tier at
    once. Blocks that leave are given to nobody, and written by nobody, until their copy is over; a turn that comes back
    is left out of steps until its copy is there and found sound. A step leaves out whom it has no blocks for yet, and
    waits only where a decode row needs one or nobody else could run. A copy that a later verb makes useless is given
    up. `set_kv_dtype`, a host pool's resize and `shutdown` let copies under way end, or give them up, first.
    """

    name: str
    geometry: KVGeometry
    block_size: int
    max_context: int
    vocab_size: int

    @property
    def kv_dtype(self) -> KVDtype: ...

    @property
    def kv_dtypes(self) -> frozenset[KVDtype]:
        """Precisions that `set_kv_dtype` accepts."""
        ...

    def open(self, turn: TurnId, tokens: Sequence[int], sampling: Sampling) -> None:
        """Make a turn known with its first tokens, all pending; it holds nothing yet."""
        ...

    def step(self, plan: StepPlan) -> StepResult:
        """Compute up to `budget` pending tokens of each turn and sample where none is left. The sampled token becomes
        the turn's one pending token. Blocks are taken as needed; raises IntegrityError if the plan did not leave
        room for them (the governor reserves)."""
        ...

    def extend(self, turn: TurnId, keep: int, tokens: Sequence[int]) -> None:
        """A blocked or finished turn goes on: keep its first `keep` tokens (and their KV, in whatever tier), cut what
        is behind, append `tokens` as pending."""
        ...

    def swap_out(self, turn: TurnId) -> Moved | None:
        """Copy the turn's blocks to the host pool, then free them. None: no room in the pool, or the copy failed
        (logged); nothing changed. A turn whose copy back is under way keeps its host copy: nothing is copied."""
        ...

    def swap_in(self, turn: TurnId) -> Moved | None:
        """Bring the host copy back, converting it to the present precision, and free it. None: no room in the arena,
        nothing changed. Raises CorruptCopy when the copy is unusable: the turn is then dropped, nothing else. A turn
        that has not left yet, and whose blocks are promised to nobody, stays: nothing is copied."""
        ...

    @property
    def can_overlap(self) -> bool:
        """Copies can go on beside the steps."""
        ...

    @property
    def overlap(self) -> bool:
        """They do."""
        ...

    def set_overlap(self, on: bool) -> None:
        """Copies under way end first. Raises Refused where they cannot go on beside steps."""
        ...

    def landed(self) -> tuple[Landed, ...]:
        """The copies that are over since this was asked last, in order; one that was given up is not among them."""
        ...

    def settle(self) -> None:
        """Wait until no copy is under way; `landed` tells of them."""
        ...

    def drop(self, turn: TurnId) -> None:
        """Free the turn's KV in every tier; all its tokens become pending."""
        ...

    def close(self, turn: TurnId) -> None:
        """Forget the turn and free all that it holds."""
        ...

    def holding(self, turn: TurnId) -> Holding: ...

    def set_kv_dtype(self, dtype: KVDtype) -> Converted:
        """Convert the arena in place; host copies keep the precision they were made in. Raises Refused, with nothing
        changed, if the held blocks do not fit at `dtype` (move turns out first; `blocks_at` tells)."""
        ...

    def blocks_at(self, dtype: KVDtype) -> int:
        """Blocks that the arena holds at `dtype`."""
        ...

    def block_bytes_at(self, dtype: KVDtype) -> int: ...

    def check_host_pool(self, nbytes: int) -> None:
        """Raises Refused for a size that `set_host_pool` would not take even of an empty pool."""
        ...

    def set_host_pool(self, nbytes: int) -> None:
        """Resize the host pool. Raises Refused, with nothing changed, if more than `nbytes` is in use."""
        ...

    def memory(self) -> DeviceMemory: ...

    def warning(self) -> str | None:
        """A sentence that an operator should see as things are now (keys too uneven for q8, say), or None."""
        ...

    def pretend(self, turn: TurnId, kv_tokens: int) -> None:
        """For measuring: a turn that holds nothing gets the blocks of its first `kv_tokens` tokens, with values that a
        step can take, instead of a prefill; a step reads as many bytes. Raises IntegrityError without room."""
        ...

    @property
    def copy_sizes(self) -> tuple[int, ...]:
        """Sizes of blocks in bytes that `probe_copy` can copy, ascending; that of its own blocks is one of them."""
        ...

    def probe_copy(self, block_bytes: int, nbytes: int) -> Copied:
        """Copy about `nbytes`, at least one block, out and back once, the way a swap would, in blocks of one of
        `copy_sizes`. Leaves nothing behind. Raises Refused while a turn is open, and for another size."""
        ...

    def check_integrity(self) -> None:
        """free + held == total in arena and host pool, no block held twice; raises IntegrityError."""
        ...

    def shutdown(self) -> None: ...
