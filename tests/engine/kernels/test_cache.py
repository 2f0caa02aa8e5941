"""Kernels are compiled once per machine: a second process finds all of them on disk."""

import os
import subprocess
import sys

from engine.backends.torch.cpu import CpuExecutor
from engine.geometry import KVDtype
from tests.engine.backends.tiny_model import tiny_model
from tests.engine.kernels.lab import arena

SECOND = """
from numba.core import event

class Compiled(event.Listener):
    names = []
    def on_start(self, happened): self.names.append(happened.data["dispatcher"].py_func.__name__)
    def on_end(self, happened): pass

event.register("numba:compile", Compiled())
from engine.backends.torch.cpu import CpuExecutor
from engine.geometry import KVDtype
from tests.engine.backends.tiny_model import tiny_model
from tests.engine.kernels.lab import arena

executor = CpuExecutor(tiny_model(), exact=False)
executor.warm_up(arena(executor, KVDtype.Q8, 1))
from engine.kernels.forward import forward
assert forward.signatures, "the kernels did not run"
print("compiled:", *Compiled.names)
"""


def test_a_second_process_compiles_nothing() -> None:
    executor = CpuExecutor(tiny_model(), exact=False)
    executor.warm_up(arena(executor, KVDtype.Q8, 1))
    made = subprocess.run([sys.executable, "-c", SECOND], env=dict(os.environ), capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    assert made.stdout.strip() == "compiled:"
