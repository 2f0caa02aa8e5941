"""Where a step's time goes: functions of the running engine are timed from outside, while a Watch is open.

Each part's time is its own, without what it calls that is a part too; an iteration is from one look for commands to the
next, all of the engine's thread. What is timed pays some 0.5 us a call, which the parts that call it bear.
"""

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import wraps
from types import ModuleType, TracebackType
from typing import Any

from numba.core.dispatcher import Dispatcher

import engine.loop
from engine.backends.base import StepResult
from engine.backends.torch import stepper
from engine.backends.torch.backend import TorchBackend
from engine.backends.torch.executor import Executor
from engine.core import Core
from engine.ledger import Ledger
from engine.loop import Loop
from engine.output import TurnOutput
from engine.run import Run
from engine.serving import Serving

KERNELS, EXECUTOR = "kernels", "around the kernels"
COMMANDS, VIEW, DECIDE, BOOK, TABLES = "commands", "view", "decide", "ledger", "block tables"
SAMPLING, TEXT, LISTENER, SNAPSHOT, RECORDER = "sampling", "text", "listener", "snapshot", "recorder"
OUTSIDE = (COMMANDS, VIEW, DECIDE, BOOK, TABLES, EXECUTOR, SAMPLING, TEXT, LISTENER, SNAPSHOT, RECORDER)

_TIMED: tuple[tuple[object, str, str], ...] = (
    (Serving, "_publish", SNAPSHOT),
    (Serving, "_on_event", RECORDER),
    (Serving, "_on_interval", RECORDER),
    (Serving, "_on_sample", RECORDER),
    (Loop, "tick", BOOK),
    (engine.loop, "decide", DECIDE),
    (Ledger, "view", VIEW),
    (Core, "tell", LISTENER),
    (TurnOutput, "feed", TEXT),
    (stepper, "sample", SAMPLING),
)


@dataclass(frozen=True, slots=True)
class Iteration:
    """Seconds. `decoded`, `prefilled`: tokens of its step, 0 where there was none."""

    wall: float
    parts: dict[str, float]
    decoded: int
    prefilled: int

    @property
    def outside(self) -> float:
        """Outside the kernels."""
        return self.wall - self.parts.get(KERNELS, 0.0)


class Watch:
    """Use as a context manager, one at a time. `iterations` grows while the engine runs; `executor`: of the backend
    that is watched."""

    def __init__(self, executor: Executor) -> None:
        self.iterations: list[Iteration] = []
        self._kind = type(executor)
        self._put_back = ExitStack()
        self._stack: list[str] = []
        self._spent: dict[str, float] = {}
        self._began: float | None = None
        self._since = 0.0
        self._step: StepResult | None = None

    def __enter__(self) -> "Watch":
        for owner, name, part in _TIMED:
            self._time(owner, name, part)
        self._time(Run, "_drain", COMMANDS, before=self._next)
        self._time(TorchBackend, "step", TABLES, after=self._stepped)
        module = sys.modules[self._kind.__module__]
        compiled = [name for name, value in vars(module).items() if isinstance(value, Dispatcher)]
        for name in compiled:
            self._time(module, name, KERNELS)
        for name in ("rows", "prefill"):
            self._time(self._kind, name, EXECUTOR if compiled else KERNELS)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._put_back.close()

    def _time(
        self,
        owner: object,
        name: str,
        part: str,
        before: Callable[[], None] = lambda: None,
        after: Callable[[Any], None] = lambda result: None,
    ) -> None:
        real = vars(owner)[name]

        def timed(*args: Any, **kwargs: Any) -> Any:
            before()
            self._enter(part)
            try:
                result = real(*args, **kwargs)
            finally:
                self._leave()
            after(result)
            return result

        setattr(owner, name, timed if isinstance(owner, ModuleType) else wraps(real)(timed))
        self._put_back.callback(setattr, owner, name, real)

    def _enter(self, part: str) -> None:
        now = time.perf_counter()
        if self._stack:
            self._pay(now)
        self._stack.append(part)
        self._since = now

    def _leave(self) -> None:
        now = time.perf_counter()
        self._pay(now)
        self._stack.pop()
        self._since = now

    def _pay(self, now: float) -> None:
        part = self._stack[-1]
        self._spent[part] = self._spent.get(part, 0.0) + now - self._since

    def _stepped(self, result: StepResult) -> None:
        self._step = result

    def _next(self) -> None:
        """One iteration ends, another begins."""
        now = time.perf_counter()
        if self._began is not None:
            step = self._step
            decoded, prefilled = (step.decode_tokens, step.prefill_tokens) if step else (0, 0)
            self.iterations.append(Iteration(now - self._began, self._spent, decoded, prefilled))
        self._began, self._spent, self._step = now, {}, None
