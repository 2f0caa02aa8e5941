"""Processes that do nothing but burn a core each, to be let loose and held again."""

import os
import signal
import subprocess
import sys
from types import TracebackType

import psutil

from app.bench.bound import bound_to_us

BURN = """
import os
parent = os.getppid()
print(flush=True)
while os.getppid() == parent:
    for _ in range(10**5):
        pass
"""
"""Ends when the bench has ended, also where nothing binds it to the bench."""


class Burners:
    """Use as a context manager: `count` processes, held until `run` lets some of them go. They may run on any core."""

    def __init__(self, count: int) -> None:
        command = [sys.executable, "-c", BURN]
        bind = bound_to_us()
        self._processes = [subprocess.Popen(command, stdout=subprocess.PIPE, preexec_fn=bind) for _ in range(count)]
        for process in self._processes:
            assert process.stdout is not None
            process.stdout.readline()
        self.run(0)

    def __enter__(self) -> "Burners":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for process in self._processes:
            process.kill()
            process.communicate()

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._processes]

    def run(self, count: int) -> None:
        """The first `count` burn, the others stand still."""
        for number, process in enumerate(self._processes):
            os.kill(process.pid, signal.SIGCONT if number < count else signal.SIGSTOP)

    def cpu_seconds(self) -> float:
        """That all of them have burnt so far."""
        times = [psutil.Process(process.pid).cpu_times() for process in self._processes]
        return float(sum(one.user + one.system for one in times))
