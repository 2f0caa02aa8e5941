"""From a model directory and sizes to a vLLM backend that is ready to step."""

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import torch

from engine.backends.hostmem import HOST_ARENAS, available_host_bytes, host_pool_limit
from engine.backends.vllm import hooks
from engine.errors import ModelError, ParkdeckError, Refused
from engine.geometry import KVDtype, KVGeometry, blocks_for
from engine.models.safetensors_file import elements, read_header

DEVICE_SHARE = 0.9
FLOAT_BYTES = 4
MAX_TURNS = 64
"""Rows of vLLM's batch: the most that the knob max_running allows."""
MAX_STEP_TOKENS = 2048
CPU_BLOCK, DEVICE_BLOCK = 32, 16
_ATTENTION = {"cpu": "CPU_ATTN", "cuda": "FLASH_ATTN", "rocm": "TRITON_ATTN"}
_PRECISION = {torch.float32: KVDtype.FP32, torch.float16: KVDtype.FP16, torch.bfloat16: KVDtype.BF16}

Report = Callable[[float | None, str], None]


def build_vllm_backend(
    directory: Path,
    *,
    arena_tokens: int | None = None,
    ceiling_bytes: int | None = None,
    host_bytes: int | None = None,
    kv_dtype: KVDtype | None = None,
    progress: Report,
) -> Any:
    """A `VllmBackend` over the model in `directory`, which is laid out as Hugging Face does.

    The arena: `arena_tokens` tokens, else what `ceiling_bytes` (or nine tenths of the device) leaves beside weights and
    runtime. The host pool: `host_bytes`, else six times the arena, cut to half of what the machine has left. `kv_dtype`
    Q8 asks for vLLM's int8 per token and head; anything else leaves the KV in the model's own precision. Raises Refused
    or ModelError, one sentence each, for what vLLM does not take.
    """
    progress(None, "importing vLLM")
    hooks.prepare()
    from vllm.v1.engine.core import EngineCore
    from vllm.v1.executor.abstract import Executor

    from engine.backends.vllm.backend import VllmBackend

    before = _resident_bytes()
    try:
        config = _config(directory, arena_tokens, ceiling_bytes, kv_dtype)
        progress(None, f"vLLM {hooks.version()} loads the model")
        core = EngineCore(config, Executor.get_class(config), log_stats=False)
    except ParkdeckError:
        raise
    except Exception as error:
        _clean_up()
        raise ModelError(f"vLLM {hooks.version()} cannot serve {directory}: {_first_line(error)}") from error
    try:
        geometry, dtype = _geometry(core, directory)
        arena = sum(tensor.size for tensor in core.scheduler.kv_cache_config.kv_cache_tensors)
        asked = HOST_ARENAS * arena if host_bytes is None else host_bytes
        if asked < 0:
            raise Refused(f"A host pool of {asked} bytes was asked for; give 0 or more.")
        weights = _weights_bytes(core, directory)
        return VllmBackend(
            core,
            geometry,
            dtype,
            config.model_config.get_vocab_size(),
            host_bytes=min(asked, host_pool_limit(available_host_bytes())),
            host_asked=asked,
            weights_bytes=weights,
            runtime_bytes=max(0, _resident_bytes() - before - weights - arena),
            room=lambda: host_pool_limit(available_host_bytes()),
        )
    except BaseException:
        core.shutdown()
        raise


def _config(directory: Path, arena_tokens: int | None, ceiling: int | None, kv_dtype: KVDtype | None) -> Any:
    from vllm.engine.arg_utils import EngineArgs
    from vllm.platforms import current_platform
    from vllm.v1.attention.backends.registry import AttentionBackendEnum

    on_cpu = current_platform.is_cpu()
    kind = "cpu" if on_cpu else "rocm" if current_platform.is_rocm() else "cuda"
    block = CPU_BLOCK if on_cpu else DEVICE_BLOCK
    sizes: dict[str, Any] = {}
    if arena_tokens is not None:
        sizes["num_gpu_blocks_override"] = blocks_for(arena_tokens, block) + 1
    elif on_cpu:
        raise Refused("The arena has no size; give its tokens.")
    if on_cpu:
        # Only a bound that vLLM checks itself against; the arena is counted in blocks.
        sizes["kv_cache_memory_bytes"] = host_pool_limit(available_host_bytes()) // 2
    else:
        total = torch.cuda.mem_get_info()[1]
        sizes["gpu_memory_utilization"] = DEVICE_SHARE if ceiling is None else min(ceiling / total, 1.0)
    return EngineArgs(
        model=str(directory),
        skip_tokenizer_init=True,
        dtype="float32" if on_cpu else "auto",
        kv_cache_dtype="int8_per_token_head" if kv_dtype is KVDtype.Q8 else "auto",
        max_model_len=-1,
        block_size=block,
        max_num_seqs=MAX_TURNS,
        max_num_batched_tokens=MAX_STEP_TOKENS,
        scheduler_reserve_full_isl=False,
        disable_hybrid_kv_cache_manager=True,
        enable_prefix_caching=False,
        async_scheduling=False,
        attention_backend=AttentionBackendEnum[_ATTENTION[kind]],
        # Compiling takes minutes and saves nothing that a stand-in on CPU is there to show.
        enforce_eager=on_cpu,
        disable_log_stats=True,
        use_tqdm_on_load=False,
        seed=0,
        scheduler_cls="engine.backends.vllm.scheduler.ParkingScheduler",
        worker_extension_cls="engine.backends.vllm.worker.ParkedCopies",
        **sizes,
    ).create_engine_config()


def _geometry(core: Any, directory: Path) -> tuple[KVGeometry, KVDtype]:
    """Raises ModelError for a model whose turns hold anything but one kind of KV blocks."""
    from vllm.v1.kv_cache_interface import AttentionSpec

    groups = core.scheduler.kv_cache_config.kv_cache_groups
    specs = [group.kv_cache_spec for group in groups]
    kinds = sorted({type(spec).__name__ for spec in specs})
    if len(groups) != 1 or not isinstance(specs[0], AttentionSpec):
        architecture = ", ".join(core.vllm_config.model_config.hf_config.architectures or [directory.name])
        raise ModelError(
            f"{directory}: {architecture} keeps {len(groups)} kinds of state per turn ({', '.join(kinds)}); only "
            "models whose layers all hold KV can be parked so far, so choose one of those."
        )
    spec = specs[0]
    dtype = KVDtype.Q8 if spec.dtype is torch.int8 else _PRECISION.get(spec.dtype)
    if dtype is None:
        raise ModelError(f"{directory}: KV of {spec.dtype} is not known here; choose a model with fp16, bf16 or fp32.")
    return KVGeometry(len(groups[0].layer_names), spec.num_kv_heads, spec.head_size), dtype


def _weights_bytes(core: Any, directory: Path) -> int:
    """What the workers hold as parameters. On CPU vLLM packs most of them away where they cannot be counted: there the
    elements of the checkpoint at 4 bytes each, unless it is quantized."""
    held = sum(answer["weights"] for answer in core.collective_rpc("parkdeck_sizes"))
    if core.vllm_config.device_config.device_type != "cpu":
        return held
    try:
        stored = [t for file in directory.glob("*.safetensors") for t in read_header(file).values()]
    except ModelError:
        return held
    return max(held, sum(FLOAT_BYTES * elements(tensor.shape) for tensor in stored))


def _clean_up() -> None:
    """After a start that failed half-way: the process group and what the model took."""
    from vllm.distributed import cleanup_dist_env_and_memory

    gc.unfreeze()
    cleanup_dist_env_and_memory()


def _resident_bytes() -> int:
    return int(psutil.Process().memory_info().rss)


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:300]
