"""The live precision switch: what it costs, and what it does to the logits.

Eight running turns and four parked ones (two of them in the host pool) are toggled between fp16 and q8. After each
toggle the running turns are teacher-forced along real text and their logits held against the same turns on a second
arena that stays at fp16. Time is held against a plain copy of the same bytes, in alternation.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from app.bench.agreement import divergence, log_probabilities
from app.bench.report import Bench
from app.bench.rig import default_model
from engine.backends.base import StepPlan, Work
from engine.backends.torch.backend import TorchBackend
from engine.backends.torch.cpu import CpuExecutor
from engine.backends.torch.executor import ArenaView, Executor, Rows
from engine.errors import Refused
from engine.geometry import BlockLayout, KVDtype
from engine.stats import quantile
from engine.turn import Sampling, TurnId
from engine.workload.text import PromptSource

RUNNING, PARKED, IN_HOST = 8, 4, 2
PROMPT_TOKENS = 640
CHUNK = 256


class Listening:
    """An executor that keeps the logits of its last decode batch."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self.config = executor.config
        self.exact = executor.exact
        self.kv_dtypes = executor.kv_dtypes
        self.logits = np.empty((0, 0), np.float32)

    @property
    def device(self) -> torch.device:
        return self._executor.device

    @property
    def weights_bytes(self) -> int:
        return self._executor.weights_bytes

    @property
    def runtime_bytes(self) -> int:
        return self._executor.runtime_bytes

    def rows(self, rows: Rows, arena: ArenaView) -> np.ndarray:
        self.logits = self._executor.rows(rows, arena)
        return self.logits

    def prefill(
        self, tokens: np.ndarray, start: int, table: np.ndarray, arena: ArenaView, last: bool
    ) -> np.ndarray | None:
        return self._executor.prefill(tokens, start, table, arena, last)

    def warm_up(self, arena: ArenaView) -> None:
        self._executor.warm_up(arena)

    def outlier_warning(self) -> str | None:
        return self._executor.outlier_warning()


class Forced:
    """Turns that follow a given text token by token, whatever the model would say."""

    def __init__(self, executor: Executor, arena_bytes: int, host_bytes: int, texts: Sequence[Sequence[int]]) -> None:
        self.ear = Listening(executor)
        self.backend = TorchBackend(self.ear, arena_bytes, host_bytes, KVDtype.FP16)
        self.backend.warm_up()
        self._texts = texts
        self._at = [PROMPT_TOKENS] * len(texts)
        for turn, text in enumerate(texts):
            self.backend.open(TurnId(turn), text[:PROMPT_TOKENS], Sampling())
            for first in range(0, PROMPT_TOKENS, CHUNK):
                self.backend.step(StepPlan((Work(TurnId(turn), min(CHUNK, PROMPT_TOKENS - first)),)))
            self._force(turn)

    def step(self, turns: Sequence[int]) -> np.ndarray:
        """Logits (turns, vocab) of one decode step, each turn then put back on its text."""
        self.backend.step(StepPlan(tuple(Work(TurnId(t), 1) for t in turns)))
        for turn in turns:
            self._force(turn)
        return self.ear.logits

    def _force(self, turn: int) -> None:
        self.backend.extend(TurnId(turn), self._at[turn], (self._texts[turn][self._at[turn]],))
        self._at[turn] += 1


@dataclass(frozen=True, slots=True)
class Agreement:
    """Over all teacher-forced positions: share of equal top tokens, mean KL(reference || toggled) in nats."""

    positions: int
    top1: float
    kl: float


def agreement(toggled: Forced, reference: Forced, steps: int) -> Agreement:
    """Run both along the text and compare their logits."""
    running = range(RUNNING)
    same = positions = 0
    total = 0.0
    for _ in range(steps):
        a, b = toggled.step(running), reference.step(running)
        same += int((a.argmax(1) == b.argmax(1)).sum())
        positions += len(a)
        total += float(divergence(log_probabilities(b), log_probabilities(a)).sum())
    return Agreement(positions, same / positions, total / positions)


def copy_seconds(nbytes: int) -> float:
    """Median of five plain copies that read and write `nbytes` in total."""
    source = torch.ones(nbytes // 2, dtype=torch.uint8)
    target = torch.zeros_like(source)
    seen = []
    for _ in range(5):
        started = time.perf_counter()
        target.copy_(source)
        seen.append(time.perf_counter() - started)
    return quantile(seen, 0.5) or 0.0


def run(bench: Bench) -> None:
    """One row per toggle; targets on time, top-1 agreement, KL and lost turns."""
    if bench.backend not in ("auto", "torch"):
        raise Refused(f"{bench.backend} does not switch KV precision live; run this bench on torch")
    toggles, steps = {"quick": (4, 24), "default": (10, 96), "full": (20, 256)}[bench.depth]
    model = default_model()
    source = PromptSource(model.tokenizer, seed=11)
    length = PROMPT_TOKENS + (toggles + 1) * steps + 64
    texts = [source.cut(f"precision {i}", length) for i in range(RUNNING + PARKED)]
    executor = CpuExecutor(model, exact=False)
    layout = BlockLayout(model.config.geometry, KVDtype.FP16)
    held = (RUNNING + PARKED) * layout.blocks_for(length) * layout.nbytes
    toggled = Forced(executor, 2 * held, held, texts)
    reference = Forced(executor, held, 0, texts[:RUNNING])
    for turn in range(RUNNING, RUNNING + IN_HOST):
        toggled.backend.swap_out(TurnId(turn))
    worst_time, worst_top1, worst_kl = 0.0, 1.0, 0.0
    dtype = KVDtype.FP16
    for number in range(1, toggles + 1):
        dtype = KVDtype.Q8 if dtype is KVDtype.FP16 else KVDtype.FP16
        before = copy_seconds(_converted_bytes(toggled.backend, dtype))
        done = toggled.backend.set_kv_dtype(dtype)
        plain = (before + copy_seconds(done.nbytes)) / 2
        toggled.backend.check_integrity()
        quality = agreement(toggled, reference, steps)
        worst_time = max(worst_time, done.seconds / plain)
        worst_top1, worst_kl = min(worst_top1, quality.top1), max(worst_kl, quality.kl)
        bench.row(
            toggle=number,
            to=str(dtype),
            mib=round(done.nbytes / 2**20, 1),
            ms=round(done.seconds * 1e3, 2),
            gb_per_s=round(done.nbytes / done.seconds / 1e9, 2),
            plain_copy_ms=round(plain * 1e3, 2),
            times_plain_copy=round(done.seconds / plain, 2),
            positions=quality.positions,
            top1_percent=round(quality.top1 * 100, 2),
            kl=round(quality.kl, 5),
        )
    lost = _lost_turns(toggled)
    bench.target("slowest switch / plain copy of the same bytes", round(worst_time, 2), "<=", 4.0)
    bench.target("lowest top-1 agreement with fp16 (%)", round(worst_top1 * 100, 2), ">=", 97.5)
    bench.target("highest KL to fp16 (nats)", round(worst_kl, 5), "<=", 0.002)
    bench.target("turns lost", lost, "==", 0)


def _converted_bytes(backend: TorchBackend, dtype: KVDtype) -> int:
    """Bytes that the switch to `dtype` reads plus those it writes."""
    memory = backend.memory()
    blocks = memory.blocks_total - memory.blocks_free
    return blocks * (memory.block_bytes + backend.block_bytes_at(dtype))


def _lost_turns(toggled: Forced) -> int:
    """Bring all back, let each take a step on its text, close: those that cannot are lost; leaks count too."""
    backend, lost = toggled.backend, 0
    for turn in range(RUNNING, RUNNING + IN_HOST):
        lost += backend.swap_in(TurnId(turn)) is None
    lost += sum(not np.isfinite(row).all() for row in toggled.step(range(RUNNING + PARKED)))
    for turn in range(RUNNING + PARKED):
        backend.close(TurnId(turn))
    backend.check_integrity()
    memory = backend.memory()
    return lost + (memory.blocks_total - memory.blocks_free) + memory.host_used_bytes
