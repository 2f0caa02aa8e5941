"""Checks the GPU path's kernels on the device that is here, and times them against what torch offers.

python tests/bench/gpu.py > FILE

The table is Markdown, with card, date and versions. A kernel that fails is a row that says so, and the command exits
with 1; without a GPU it exits with 2. It takes a few minutes and needs torch, Triton and numba alone.
"""

import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

ROOT = str(Path(__file__).resolve().parents[2])
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)

import numpy as np  # noqa: E402
import torch  # noqa: E402
from torch.nn.functional import linear, scaled_dot_product_attention  # noqa: E402

from engine.backends.base import WeightDtype  # noqa: E402
from engine.backends.torch import kernel_checks as checks  # noqa: E402
from engine.backends.torch.device import DeviceExecutor  # noqa: E402
from engine.backends.torch.executor import ArenaView, Rows  # noqa: E402
from engine.backends.torch.ops import ROWS, Ops, TorchOps, TritonOps  # noqa: E402
from engine.backends.torch.quantised import to_int4, to_int8  # noqa: E402
from engine.geometry import BlockLayout, KVDtype, KVGeometry  # noqa: E402
from engine.models.config import ModelConfig, RopeConfig  # noqa: E402
from engine.models.shapes import expected_shapes  # noqa: E402

STEP_LIMIT = 0.05
"""Error of logits: fp16 rounding of every layer, one behind the other."""

Work = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Sizes:
    """What is measured: heads and contexts of attention, weights (outputs, inputs), blocks (geometry, how many), and
    a model for whole steps, its context in tokens."""

    heads: checks.Heads
    contexts: tuple[int, ...]
    weights: tuple[tuple[int, int], ...]
    blocks: tuple[tuple[KVGeometry, int], ...]
    model: ModelConfig
    context: int
    turns: int = 8


def llama(layers: int, hidden: int, inner: int, heads: checks.Heads, vocab: int) -> ModelConfig:
    return ModelConfig(
        name="random", architecture="llama", hidden_size=hidden, intermediate_size=inner, layers=layers,
        heads=heads.heads, kv_heads=heads.kv_heads, head_dim=heads.head_dim, vocab_size=vocab, max_context=8192,
        rms_norm_eps=1e-5, rope=RopeConfig(), tied_head=True, qkv_bias=False, qk_norm=False, eos_ids=frozenset(),
    )  # fmt: skip


SIZES = Sizes(
    heads=checks.Heads(32, 8, 128, 16),
    contexts=(128, 1024, 4096),
    weights=((4096, 4096), (28672, 4096), (4096, 14336)),
    blocks=((KVGeometry(30, 3, 64), 80), (KVGeometry(36, 8, 128), 12)),
    model=llama(16, 2048, 8192, checks.Heads(32, 8, 64, 16), 32000),
    context=1024,
)


@dataclass(frozen=True, slots=True)
class Row:
    """`error` is relative to the reference, right up to `limit`; `ours`, `theirs` in seconds; `nbytes`: what ours reads
    or moves."""

    error: float
    ours: float
    theirs: float
    nbytes: int = 0
    limit: float = checks.LIMIT

    @property
    def right(self) -> bool:
        return self.error <= self.limit


Case = tuple[str, str, Callable[[], Row]]
"""What is measured, against what, and how."""

HEAD = ("what", "against", "error", "us", "the other's us", "times as fast", "GB/s")


def timed(work: Work, device: torch.device) -> float:
    """Seconds on the device, the median, with nothing in its caches. Interpreted: once."""
    if device.type == "cpu":
        return clocked(work, device, times=1)
    from triton.testing import do_bench

    return float(do_bench(work, warmup=50, rep=200, return_mode="median")) / 1e3


def clocked(work: Work, device: torch.device, times: int) -> float:
    """Seconds by the clock, Python included, the median. Interpreted: once."""
    took = []
    times = 1 if device.type == "cpu" else times
    for _ in range(times + 1):
        settle(device)
        started = time.perf_counter()
        work()
        settle(device)
        took.append(time.perf_counter() - started)
    return sorted(took[1:])[times // 2]


def settle(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def half(device: torch.device) -> torch.dtype:
    return torch.float32 if device.type == "cpu" else torch.float16


def attention(dtype: KVDtype, tokens: int, sizes: Sizes, device: torch.device) -> Row:
    h = sizes.heads
    planes, contexts = checks.random_contexts(dtype, h, device, (tokens,) * sizes.turns)
    q = torch.randn(sizes.turns, h.heads, h.head_dim, device=device).to(half(device))
    wanted = TorchOps().attend(q.float(), 1, contexts, planes)
    error = checks.relative(TritonOps().attend(q, 1, contexts, planes), wanted)
    k, v = (torch.randn(sizes.turns, h.kv_heads, tokens, h.head_dim, device=device).to(q.dtype) for _ in range(2))
    query = q.unsqueeze(2)
    return Row(
        error,
        timed(lambda: TritonOps().attend(q, 1, contexts, planes), device),
        timed(lambda: scaled_dot_product_attention(query, k, v, enable_gqa=True), device),
        sizes.turns * tokens * KVGeometry(1, h.kv_heads, h.head_dim).bytes_per_token(dtype),
    )


def product(quantise: checks.Quantise, outputs: int, inputs: int, device: torch.device) -> Row:
    error = checks.linear_error(TritonOps(), quantise, device, outputs, inputs)
    rows = torch.randn(outputs, inputs, device=device)
    x, whole, weight = torch.randn(ROWS, inputs, device=device).to(half(device)), rows.to(half(device)), quantise(rows)
    ours = timed(lambda: TritonOps().linear(x, weight), device)
    return Row(error, ours, timed(lambda: linear(x, whole), device), weight.nbytes)


def swap(geometry: KVGeometry, count: int, gathered: bool, device: torch.device) -> Row:
    """Scattered blocks to pinned memory, gathered on the device or one by one, against one copy of as many bytes."""
    size = BlockLayout(geometry, KVDtype.FP16).nbytes
    mover, nbytes = checks.triton_mover(), count * size
    memory = torch.randint(0, 256, (2 * nbytes,), dtype=torch.uint8, device=device)
    staging = torch.empty(nbytes, dtype=torch.uint8, device=device)
    host = torch.empty(nbytes, dtype=torch.uint8, pin_memory=device.type == "cuda")
    starts = [2 * block * size for block in reversed(range(count))]

    def together() -> None:
        mover.gather(memory, starts, size, staging, 0, nbytes)
        host.copy_(staging, non_blocking=True)

    def apart() -> None:
        for at, start in enumerate(starts):
            host[at * size : (at + 1) * size].copy_(memory[start : start + size], non_blocking=True)

    work = together if gathered else apart
    work()
    settle(device)
    wanted = torch.cat([memory[start : start + size] for start in starts]).cpu()
    error = checks.move_error(mover, device, count, size) + float((host != wanted).sum())
    theirs = timed(lambda: host.copy_(memory[:nbytes], non_blocking=True), device)
    return Row(error, timed(work, device), theirs, nbytes)


class Steps:
    """Whole decode steps of one random model, its weights made once."""

    def __init__(self, sizes: Sizes, device: torch.device) -> None:
        self._sizes, self._device = sizes, device
        self.config = sizes.model
        self._made: dict[str, torch.Tensor] = {}
        self._theirs: dict[KVDtype, float] = {}

    @property
    def weights(self) -> dict[str, torch.Tensor]:
        if not self._made:
            for name, shape in expected_shapes(self.config).items():
                small = torch.randn(shape, device=self._device) * 0.02
                self._made[name] = small.to(half(self._device)) + (1.0 if "norm" in name else 0.0)
        return self._made

    def row(self, weights: WeightDtype, dtype: KVDtype) -> Row:
        """Seconds by the clock; right if the logits are those of torch operations over the same weights."""
        ours, logits = self._run(weights, dtype, TritonOps())
        _, wanted = self._run(weights, dtype, TorchOps(), times=1)
        if dtype not in self._theirs:
            self._theirs[dtype], _ = self._run(WeightDtype.FP16, dtype, TorchOps(), times=10)
        error = checks.relative(torch.from_numpy(logits), torch.from_numpy(wanted))
        return Row(error, ours, self._theirs[dtype], limit=STEP_LIMIT)

    def _run(self, weights: WeightDtype, dtype: KVDtype, ops: Ops, times: int = 30) -> tuple[float, np.ndarray]:
        turns, tokens, device = self._sizes.turns, self._sizes.context, self._device
        executor = DeviceExecutor(self, device, weights=weights, ops=ops)
        layout = BlockLayout(self.config.geometry, dtype)
        own = layout.blocks_for(tokens + 1)
        memory = torch.zeros(turns * own * layout.nbytes, dtype=torch.uint8, device=device)
        view = ArenaView(memory, layout, turns * own)
        table = np.random.default_rng(0).permutation(turns * own).astype(np.int32).reshape(turns, own)
        for turn in range(turns):
            prompt = np.random.default_rng(turn).integers(0, self.config.vocab_size, tokens).astype(np.int32)
            executor.prefill(prompt, 0, table[turn], view, last=False)
        each = np.arange(turns, dtype=np.int32)
        rows = Rows(each + 1, np.full(turns, tokens, np.int32), table, each)
        logits = executor.rows(rows, view)
        return clocked(lambda: executor.rows(rows, view), device, times), logits


def cases(sizes: Sizes, device: torch.device) -> Iterator[Case]:
    h = sizes.heads
    for dtype in (KVDtype.FP16, KVDtype.Q8):
        for tokens in sizes.contexts:
            what = f"attention, {dtype} KV, {sizes.turns} x {tokens}, {h.heads}/{h.kv_heads} heads of {h.head_dim}"
            yield what, "SDPA, KV gathered before", lambda d=dtype, t=tokens: attention(d, t, sizes, device)
    for kind, quantise in (("int8", to_int8), ("int4", to_int4)):
        for outputs, inputs in sizes.weights:
            what = f"linear, {kind} weights {outputs} x {inputs}, {ROWS} rows"
            yield what, "torch, fp16 weights", lambda q=quantise, o=outputs, i=inputs: product(q, o, i, device)
    for geometry, count in sizes.blocks:
        size = BlockLayout(geometry, KVDtype.FP16).nbytes
        for gathered in (True, False):
            what = f"{count} blocks of {size / 1024:.0f} KiB to the host, {'gathered' if gathered else 'each alone'}"
            yield what, "one copy of these bytes", lambda g=geometry, c=count, a=gathered: swap(g, c, a, device)
    steps = Steps(sizes, device)
    for weights in WeightDtype:
        for dtype in (KVDtype.FP16, KVDtype.Q8):
            what = f"decode step, {sizes.turns} x {sizes.context}, {weights} weights, {dtype} KV"
            yield what, "torch operations, fp16 weights", lambda w=weights, d=dtype: steps.row(w, d)


def table(sizes: Sizes, device: torch.device) -> Iterator[tuple[str, bool]]:
    """Lines of Markdown as they come, and whether what each says is right."""
    for line in (HEAD, ["---"] * len(HEAD)):
        yield f"| {' | '.join(line)} |", True
    for what, against, run in cases(sizes, device):
        try:
            row = run()
        except Exception as error:  # noqa: BLE001
            reason = f"{type(error).__name__}: {error}".splitlines()[0][:200]
            yield f"| {what} | {against} | failed: {reason} | | | | |", False
            continue
        yield f"| {' | '.join((what, against, *figures(row)))} |", row.right


def figures(row: Row) -> Sequence[str]:
    error = f"{row.error:.1e}" if row.right else f"WRONG by {row.error:.1e}"
    rate = f"{row.nbytes / row.ours / 1e9:.0f}" if row.nbytes else ""
    return error, f"{row.ours * 1e6:.0f}", f"{row.theirs * 1e6:.0f}", f"{row.theirs / row.ours:.2f}", rate


def machine(device: torch.device) -> str:
    import triton

    runtime = f"ROCm {torch.version.hip}" if torch.version.hip else f"CUDA {torch.version.cuda}"
    found = torch.cuda.get_device_properties(device)
    return (
        f"{found.name}, {found.total_memory / 2**30:.1f} GiB; {datetime.now(UTC):%Y-%m-%d %H:%M} UTC; "
        f"torch {torch.__version__}, Triton {triton.__version__}, {runtime}, Python {platform.python_version()}"
    )


def main() -> int:
    if not torch.cuda.is_available() or not checks.has_triton():
        print("There is no CUDA or ROCm device with Triton here; run this where the engine's GPU path runs.")
        return 2
    device = torch.device("cuda", torch.cuda.current_device())
    print(f"`python tests/bench/gpu.py` on {machine(device)}\n", flush=True)
    right = True
    for line, fine in table(SIZES, device):
        print(line, flush=True)
        right &= fine
    print("\nTimes are the device's, medians with cold caches; of a decode step by the clock, Python included.")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
