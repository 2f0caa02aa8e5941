"""From a loaded model and sizes to a torch backend that is ready to step: which device, how large an arena and pool."""

from collections.abc import Callable

import torch

from engine.backends.base import WeightDtype
from engine.backends.hostmem import HOST_ARENAS, available_host_bytes, host_pool_limit
from engine.backends.torch.backend import TorchBackend
from engine.backends.torch.convert import scratch_bytes
from engine.backends.torch.cpu import CpuExecutor
from engine.backends.torch.device_copies import STAGING_BYTES
from engine.backends.torch.executor import Executor
from engine.backends.torch.kernel_checks import Heads, ops_for
from engine.backends.torch.ops import Ops
from engine.backends.torch.weights import Model
from engine.errors import Refused
from engine.geometry import BLOCK_SIZE, BlockLayout, KVDtype
from engine.models.progress import Progress

DEVICE_SHARE = 0.9
DEVICES = ("auto", "cpu", "cuda")

Report = Callable[[float | None, str], None]


def silent(fraction: float | None, note: str) -> None:
    """A report that nobody reads."""


def build_torch_backend(
    model: Model,
    *,
    arena_tokens: int | None = None,
    ceiling_bytes: int | None = None,
    host_bytes: int | None = None,
    kv_dtype: KVDtype = KVDtype.FP16,
    exact: bool = False,
    device: str = "auto",
    block_size: int = BLOCK_SIZE,
    weights: WeightDtype | None = None,
    progress: Report = silent,
) -> TorchBackend:
    """The arena: with `ceiling_bytes`, what it leaves beside weights and runtime; else `arena_tokens` tokens at fp16;
    else, on a device, nine tenths of what is free there. The host pool: `host_bytes`, else six times the arena, cut to
    half of the memory that the machine and its container have left.

    `device`: auto (CUDA or ROCm where there is one), cpu or cuda. `weights`: None: int8, or fp16 on a device where
    Triton's kernels do not run. `progress` hears a fraction (None: unknown) and a note. Raises Refused with the sizes
    for what does not fit, and for weights that are not to be had there.
    """
    executor = _executor(model, _device(device), exact, block_size, progress, weights)
    arena = _arena_bytes(executor, arena_tokens, ceiling_bytes, block_size)
    asked = HOST_ARENAS * arena if host_bytes is None else host_bytes
    if asked < 0:
        raise Refused(f"A host pool of {asked} bytes was asked for; give 0 or more.")
    available = available_host_bytes() - (arena if executor.device.type == "cpu" else 0)
    pool = min(asked, host_pool_limit(available))
    backend = TorchBackend(executor, arena, pool, kv_dtype, block_size, host_asked=asked)
    progress(None, "loading kernels")
    backend.warm_up()
    return backend


def _device(choice: str) -> torch.device:
    if choice not in DEVICES:
        raise Refused(f"{choice!r} is no device; choose {', '.join(DEVICES)}.")
    found = torch.cuda.is_available()
    if choice == "cuda" and not found:
        raise Refused("There is no CUDA or ROCm device that torch can use here; choose cpu or auto.")
    return torch.device("cuda", torch.cuda.current_device()) if found and choice != "cpu" else torch.device("cpu")


def _executor(
    model: Model, device: torch.device, exact: bool, block_size: int, progress: Report, weights: WeightDtype | None
) -> Executor:
    def report(step: Progress) -> None:
        progress(step.fraction, step.note)

    if exact and weights is not None:
        raise Refused(f"Exact mode keeps weights as fp32, not {weights}; leave one of the two out.")
    if device.type == "cpu":
        if weights not in (None, WeightDtype.INT8):
            raise Refused(f"On a CPU weights are kept as int8, not {weights}; leave the choice out.")
        return CpuExecutor(model, exact, block_size, report)
    from engine.backends.torch.device import DeviceExecutor

    c = model.config
    ops = ops_for(device, Heads(c.heads, c.kv_heads, c.head_dim, block_size))
    return DeviceExecutor(model, device, exact, block_size, report, kept_as(weights, ops), ops)


def kept_as(weights: WeightDtype | None, ops: Ops) -> WeightDtype:
    """The precision of the weights on a device. Raises Refused where only Triton could compute with it."""
    if ops.name == "triton":
        return weights or WeightDtype.INT8
    if weights not in (None, WeightDtype.FP16):
        raise Refused(f"Weights as {weights} need Triton's kernels, which do not run on this device; choose fp16.")
    return WeightDtype.FP16


def _arena_bytes(executor: Executor, tokens: int | None, ceiling: int | None, block_size: int) -> int:
    layouts = [BlockLayout(executor.config.geometry, dtype, block_size) for dtype in executor.kv_dtypes]
    half = BlockLayout(executor.config.geometry, KVDtype.FP16, block_size)
    room = _room(executor)
    if ceiling is not None:
        beside = executor.weights_bytes + executor.runtime_bytes + scratch_bytes(layouts)
        beside += STAGING_BYTES if executor.device.type != "cpu" else 0
        asked = ceiling - beside
        if asked < max(layout.nbytes for layout in layouts):
            raise Refused(
                f"A ceiling of {ceiling / 2**30:.2f} GiB leaves no block of KV beside {beside / 2**30:.2f} GiB of "
                "weights and runtime; raise it or take a smaller model."
            )
    elif tokens is not None:
        asked = half.blocks_for(tokens) * half.nbytes
    elif executor.device.type != "cpu":
        asked = int(room * DEVICE_SHARE)
    else:
        raise Refused("The arena has no size; give its tokens or a ceiling.")
    if asked > room:
        raise Refused(
            f"The arena needs {asked / 2**30:.2f} GiB but {room / 2**30:.2f} GiB are free; make it smaller or free "
            "some memory."
        )
    return asked


def _room(executor: Executor) -> int:
    """Bytes that an arena may take where the executor runs."""
    if executor.device.type == "cpu":
        return available_host_bytes()
    free, _ = torch.cuda.mem_get_info(executor.device)
    return free
