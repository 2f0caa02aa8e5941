"""Processes that do nothing but burn a core each, to be let loose and held again."""

import os
import signal
import subprocess
import sys
from types import TracebackType

import psutil

BURN = "while True: pass"


class Burners:
    """Use as a context manager: `count` processes, held until `run` lets some of them go. They may run on any core."""

    def __init__(self, count: int) -> None:
        self._processes = [subprocess.Popen([sys.executable, "-c", BURN]) for _ in range(count)]
        self.run(0)

    def __enter__(self) -> "Burners":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for process in self._processes:
            process.kill()
            process.wait()

    def run(self, count: int) -> None:
        """The first `count` burn, the others stand still."""
        for number, process in enumerate(self._processes):
            os.kill(process.pid, signal.SIGCONT if number < count else signal.SIGSTOP)

    def cpu_seconds(self) -> float:
        """That all of them have burnt so far."""
        times = [psutil.Process(process.pid).cpu_times() for process in self._processes]
        return float(sum(one.user + one.system for one in times))
