"""What must be set before vLLM is imported, and what must be there in it afterwards."""

import importlib
import importlib.metadata
import importlib.util
import logging
import os
from collections.abc import Mapping

from engine.errors import Refused

TESTED = "0.32"
NOT_INSTALLED = "vLLM is not installed here; README says how to install it, or choose the torch backend."
_ENVIRONMENT = {
    # The host process has loggers, signal handlers and threads of its own; nothing is reported home.
    "VLLM_CONFIGURE_LOGGING": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
}
_NEEDED = {
    "vllm.engine.arg_utils": ("EngineArgs.create_engine_config",),
    "vllm.sampling_params": ("SamplingParams",),
    "vllm.v1.engine.core": ("EngineCore.step", "EngineCore.collective_rpc", "EngineCore.shutdown"),
    "vllm.v1.executor.abstract": ("Executor.get_class",),
    "vllm.v1.request": ("Request.append_output_token_ids", "RequestStatus.PREEMPTED"),
    "vllm.v1.core.block_pool": (
        "BlockPool.get_new_blocks",
        "BlockPool.free_blocks",
        "BlockPool.get_num_free_blocks",
    ),
    "vllm.v1.core.kv_cache_manager": ("KVCacheManager.free", "KVCacheManager.get_block_ids"),
    "vllm.v1.core.sched.scheduler": (
        "Scheduler.schedule",
        "Scheduler.finish_requests",
        "Scheduler.has_finished_requests",
        "Scheduler._enqueue_waiting_request",
        "Scheduler._free_request_blocks",
        "Scheduler._preempt_request",
    ),
}


def installed() -> bool:
    """Whether vLLM can be imported here, without importing it."""
    return importlib.util.find_spec("vllm") is not None


def prepare() -> None:
    """Set what vLLM reads at its import, where the user has not, and check that the hooks are there.

    Raises Refused with a sentence that names what is missing.
    """
    if not installed():
        raise Refused(NOT_INSTALLED)
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    logging.getLogger("vllm").setLevel(logging.ERROR)
    _mend_scan()
    missing = [f"{module}.{name}" for module, names in _NEEDED.items() for name in _absent(module, names)]
    if missing:
        raise Refused(
            f"vLLM {version()} lacks {', '.join(missing)}, which this backend hooks into; install vLLM {TESTED} or "
            "choose the torch backend."
        )


def _mend_scan() -> None:
    """vLLM looks through every module for kernels, with `vars`; llvmlite's handle answers that with no dictionary,
    which ends the start wherever numba was imported before. There the scan gets an empty one."""
    try:
        dispatcher = importlib.import_module("vllm.triton_utils.dispatcher")
    except ImportError:
        return

    def tolerant(value: object) -> object:
        names = vars(value)
        return names if isinstance(names, Mapping) else {}

    dispatcher.vars = tolerant  # type: ignore[attr-defined]


def version() -> str:
    """The installed version, whatever the distribution is called."""
    for distribution in ("vllm", "vllm-cpu"):
        try:
            return importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            continue
    return "of unknown version"


def _absent(module: str, names: tuple[str, ...]) -> list[str]:
    try:
        found: object = importlib.import_module(module)
    except ImportError as error:
        return [f"({error})"]
    return [name for name in names if not _has(found, name)]


def _has(found: object, name: str) -> bool:
    for part in name.split("."):
        found = getattr(found, part, None)
        if found is None:
            return False
    return True
