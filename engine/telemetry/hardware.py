"""One reading of the machine: processor, memory, GPUs. A sensor that is missing is None, never 0."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from engine.telemetry.gpu import GpuReader, GpuSample
from engine.telemetry.memory import host_memory


@dataclass(frozen=True, slots=True)
class HardwareSample:
    """`at`: monotonic seconds. Percent of all cores for `cpu_percent`, of one core for `process_percent`; None until
    two readings lie behind. Bytes for memory: of the control group where it limits (`host_limited`). `load_1m`: tasks
    that run or want to, over the last minute. `gpu_reason`: why no GPU is read, one sentence."""

    at: float
    cpu_percent: float | None
    process_percent: float | None
    process_rss_bytes: int | None
    host_total_bytes: int
    host_available_bytes: int
    host_limited: bool
    load_1m: float | None
    cores: int | None
    gpus: tuple[GpuSample, ...] = ()
    gpu_reason: str | None = None


class HardwareReader:
    """`sample` is called each second by one job; `latest` may be read from any thread."""

    def __init__(
        self,
        gpus: GpuReader | None = None,
        root: Path = Path("/"),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._gpus = gpus or GpuReader()
        self._root = root
        self._clock = clock
        self._process = psutil.Process()
        self._readings = 0
        self._latest: HardwareSample | None = None

    @property
    def latest(self) -> HardwareSample | None:
        """The last sample, an immutable object; None before the first."""
        return self._latest

    def sample(self) -> HardwareSample:
        memory = host_memory(self._root)
        gpus, reason = self._gpus.sample(memory.total)
        cpu, process = psutil.cpu_percent(None), self._process.cpu_percent(None)
        first = self._readings == 0
        self._readings += 1
        self._latest = HardwareSample(
            at=self._clock(),
            cpu_percent=None if first else cpu,
            process_percent=None if first else process,
            process_rss_bytes=self._process.memory_info().rss,
            host_total_bytes=memory.total,
            host_available_bytes=memory.available,
            host_limited=memory.limited,
            load_1m=_load(),
            cores=psutil.cpu_count(),
            gpus=gpus,
            gpu_reason=reason,
        )
        return self._latest

    def close(self) -> None:
        self._gpus.close()


def _load() -> float | None:
    try:
        return os.getloadavg()[0]
    except OSError:
        return None
