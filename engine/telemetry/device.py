"""The device that an engine runs on, by name."""

import platform
from pathlib import Path

import psutil

GIB = 1 << 30


def device_words(on_gpu: bool, cpuinfo: Path = Path("/proc/cpuinfo")) -> tuple[str, str]:
    """Its name and its memory in words: the GPU that torch sees, or the processor. 'n/a' for what is not told."""
    if on_gpu:
        import torch

        found = torch.cuda.get_device_properties(torch.cuda.current_device())
        return found.name, f"{found.total_memory / GIB:.1f} GiB of device memory"
    return f"{_processor(cpuinfo)}, {_cores()}", f"{psutil.virtual_memory().total / GIB:.1f} GiB of memory"


def _processor(cpuinfo: Path) -> str:
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine() or "n/a"


def _cores() -> str:
    count = psutil.cpu_count()
    return f"{count} cores" if count else "cores n/a"
