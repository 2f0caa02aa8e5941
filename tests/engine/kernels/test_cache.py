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

WARM = """
import importlib
import pkgutil

from numba.core.dispatcher import Dispatcher

import engine.kernels
from engine.backends.base import StepPlan, Work
from engine.backends.torch.backend import TorchBackend
from engine.backends.torch.cpu import CpuExecutor
from engine.geometry import KVDtype
from engine.turn import Sampling
from tests.engine.backends.tiny_model import tiny_model

backend = TorchBackend(CpuExecutor(tiny_model(), exact=False), 2**22, 2**22, KVDtype.FP16)
backend.warm_up()
modules = [importlib.import_module(f"engine.kernels.{m.name}") for m in pkgutil.iter_modules(engine.kernels.__path__)
           if not m.ispkg]
kernels = {k.py_func.__qualname__: k for m in modules for k in vars(m).values() if isinstance(k, Dispatcher)}
before = {name: len(kernel.signatures) for name, kernel in kernels.items()}
assert before["forward"]
backend.open(1, range(40), Sampling())
backend.open(2, range(7), Sampling(temperature=1.0, top_k=5, top_p=0.9))
for dtype in (KVDtype.FP16, KVDtype.Q8, KVDtype.FP16):
    backend.set_kv_dtype(dtype)
    for _ in range(3):
        backend.step(StepPlan((Work(1, 32), Work(2, 32))))
    backend.swap_out(1)
    backend.swap_in(1)
print("late:", *(name for name, kernel in kernels.items() if len(kernel.signatures) > before[name]))
"""


def child(script: str) -> str:
    made = subprocess.run([sys.executable, "-c", script], env=dict(os.environ), capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    return made.stdout.strip()


def test_a_second_process_compiles_nothing() -> None:
    executor = CpuExecutor(tiny_model(), exact=False)
    executor.warm_up(arena(executor, KVDtype.Q8, 1))
    assert child(SECOND) == "compiled:"


def test_a_warm_engine_has_every_kernel_that_a_user_may_touch() -> None:
    assert child(WARM) == "late:"
