"""Identity: pausing, swapping and blocking a turn at any token boundary changes none of its tokens.

Six greedy turns; the undisturbed run is compared with runs in which turns are paused, swapped out or blocked at seeded
random boundaries or dropped and recomputed, at fp16 and q8 in fast mode and at fp16 in exact mode. On vLLM, whose
kernels are not batch-invariant by promise, a run with drops is reported beside the target.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from app.bench.report import Bench, Depth
from app.bench.rig import AUTHOR, Rig, loaded, quiet_body
from engine.backends.torch.backend import TorchBackend
from engine.backends.torch.executor import ArenaView, Executor, Rows
from engine.body import Body, chosen_backend
from engine.errors import Refused
from engine.geometry import BlockLayout, KVDtype
from engine.turn import TurnId
from engine.workload.text import PromptSource

PROMPT_LENGTHS = (37, 64, 129, 255, 300, 410)


@dataclass(frozen=True, slots=True)
class Mode:
    """One configuration under test; `verbs` are what a boundary may do to a turn. `promised`: the tokens must be the
    same to the last."""

    name: str
    exact: bool
    dtype: KVDtype
    verbs: tuple[str, ...]
    tokens: int
    runs: int
    promised: bool = True


def modes(depth: Depth, backend: str) -> tuple[Mode, ...]:
    tokens = {"quick": 32, "default": 200, "full": 200}[depth]
    runs = {"quick": 1, "default": 2, "full": 6}[depth]
    exact_tokens = {"quick": 12, "default": 200, "full": 200}[depth]
    verbs = ("pause", "swap", "block", "drop")
    if backend == "vllm":
        return (
            Mode("vllm", False, KVDtype.FP16, verbs[:3], tokens, runs),
            Mode("vllm with drops", False, KVDtype.FP16, verbs, tokens, runs, promised=False),
        )
    return (
        Mode("fast fp16", False, KVDtype.FP16, verbs, tokens, runs),
        Mode("fast q8", False, KVDtype.Q8, verbs, tokens, runs),
        Mode("exact fp16", True, KVDtype.FP16, verbs, exact_tokens, runs),
    )


class Disturber:
    """Does a random verb to a random turn at about one boundary in six, and undoes it some boundaries later."""

    def __init__(self, rig: Rig, turns: Sequence[TurnId], verbs: Sequence[str], seed: int) -> None:
        self._rig = rig
        self._turns = turns
        self._verbs = verbs
        self._rng = random.Random(seed)
        self._boundary = 0
        self._due: dict[TurnId, tuple[int, str, int]] = {}
        self.counts = dict.fromkeys(verbs, 0)

    def act(self) -> None:
        self._boundary += 1
        for turn, (due, verb, left) in list(self._due.items()):
            if self._boundary >= due:
                del self._due[turn]
                if verb == "block":
                    self._rig.unblock(turn, (), left)
                else:
                    self._rig.commands.resume(turn, AUTHOR)
        if self._rng.random() < 1 / 6:
            self._disturb()

    def _disturb(self) -> None:
        live = self._rig.core.ledger.turns
        free = [t for t in self._turns if t in live and t not in self._due and live[t].phase.running]
        if not free:
            return
        turn, verb = self._rng.choice(free), self._rng.choice(list(self._verbs))
        commands = self._rig.commands
        if verb in ("swap", "drop") and not self._rig.core.backend.holding(turn).kv_tokens:
            verb = "pause"
        left = live[turn].max_tokens - live[turn].generated
        match verb:
            case "pause":
                commands.pause(turn, AUTHOR)
            case "swap":
                commands.swap_out(turn, AUTHOR)
            case "drop":
                commands.drop(turn, AUTHOR)
            case "block":
                commands.block(turn, "tool", AUTHOR)
        self.counts[verb] += 1
        self._due[turn] = (self._boundary + self._rng.randint(1, 12), verb, left)


@dataclass(frozen=True, slots=True)
class Run:
    """Tokens of each turn, what was done to them, what was left behind."""

    tokens: list[list[int]]
    disturbances: dict[str, int]
    leaked_blocks: int
    leaked_host_bytes: int


def run_turns(body: Body, prompts: Sequence[Sequence[int]], tokens: int, verbs: Sequence[str], seed: int) -> Run:
    """Greedy tokens of each prompt, disturbed by `verbs` (none: undisturbed)."""
    rig = Rig(body)
    turns = [rig.submit(p, tokens, agent=f"turn {i}") for i, p in enumerate(prompts)]
    disturber = Disturber(rig, turns, verbs, seed)
    rig.run_until(lambda: all(rig.phase(t).ended for t in turns), disturber.act if verbs else None)
    if rig.errors:
        raise Refused(f"a turn failed: {next(iter(rig.errors.values()))}")
    return Run([rig.generated[t] for t in turns], disturber.counts, *rig.leaked())


def differing(reference: Run, other: Run) -> int:
    """Tokens that are not the same at the same place."""
    pairs = zip(reference.tokens, other.tokens, strict=True)
    return sum(sum(a != b for a, b in zip(x, y, strict=True)) for x, y in pairs)


def rows_that_differ(executor: Executor, dtype: KVDtype, prompts: Sequence[Sequence[int]]) -> tuple[int, int]:
    """(comparisons, differing): bitwise logits of each turn's next row alone, in batches of 2..16, and after a prefill
    chunk of another turn has run beside it."""
    layout = BlockLayout(executor.config.geometry, dtype)
    each = layout.blocks_for(max(len(p) for p in prompts) + 1)
    memory = torch.zeros(layout.nbytes * each * (len(prompts) + 1), dtype=torch.uint8, device=executor.device)
    arena = ArenaView(memory, layout, each * (len(prompts) + 1))
    tables = np.arange(arena.blocks, dtype=np.int32).reshape(-1, each)
    for prompt, table in zip(prompts, tables, strict=False):
        executor.prefill(np.asarray(prompt[:-1], np.int32), 0, table, arena, False)

    def logits(members: Sequence[int]) -> np.ndarray:
        tokens = np.asarray([prompts[i][-1] for i in members], np.int32)
        positions = np.asarray([len(prompts[i]) - 1 for i in members], np.int32)
        at = np.arange(len(members), dtype=np.int32)
        return executor.rows(Rows(tokens, positions, tables[list(members)], at), arena)

    alone = [logits([i])[0].copy() for i in range(len(prompts))]
    compared = different = 0
    for batch in range(1, len(prompts) + 1):
        members = list(range(len(prompts)))[-batch:][::-1]
        for i, row in zip(members, logits(members), strict=True):
            compared += 1
            different += not np.array_equal(alone[i].view(np.uint32), row.view(np.uint32))
    for i in range(len(prompts)):
        executor.prefill(np.asarray(prompts[-1][:-1], np.int32), 0, tables[-1], arena, True)
        compared += 1
        different += not np.array_equal(alone[i].view(np.uint32), logits([i])[0].view(np.uint32))
    return compared, different


def run(bench: Bench) -> None:
    """Rows per mode and per precision; targets: no differing token, no differing row, nothing leaked."""
    backend = chosen_backend(bench.backend)
    total = {"fast": 0, "exact": 0, "leaked": 0, "rows": 0}
    for mode in modes(bench.depth, backend):
        body = quiet_body(exact=mode.exact, kv_dtype=mode.dtype, backend=backend)
        source = PromptSource(loaded(body).tokenizer, seed=7)
        differ, leaked = _compare_runs(bench, body, mode, source)
        total["leaked"] += leaked
        if mode.promised:
            total["exact" if mode.exact else "fast"] += differ
        if isinstance(body.backend, TorchBackend):
            total["rows"] += _compare_rows(bench, body.backend, mode, source)
        body.backend.shutdown()
    if backend == "vllm":
        bench.target("differing tokens", total["fast"], "==", 0)
    else:
        bench.target("differing tokens, fast mode", total["fast"], "==", 0)
        bench.target("differing tokens, exact mode", total["exact"], "==", 0)
        bench.target("rows not bitwise equal at batch 1..16 and beside prefill", total["rows"], "==", 0)
    bench.target("leaked blocks and host bytes", total["leaked"], "==", 0)


def _compare_runs(bench: Bench, body: Body, mode: Mode, source: PromptSource) -> tuple[int, int]:
    """Differing tokens and what was left behind, over the mode's disturbed runs; a row for each."""
    prompts = [source.cut(f"identity {n}", n) for n in PROMPT_LENGTHS]
    reference = run_turns(body, prompts, mode.tokens, (), 0)
    differ = leaked = 0
    for seed in range(1, mode.runs + 1):
        other = run_turns(body, prompts, mode.tokens, mode.verbs, seed)
        here, left = differing(reference, other), other.leaked_blocks + other.leaked_host_bytes
        bench.row(
            mode=mode.name,
            seed=seed,
            tokens=sum(map(len, other.tokens)),
            done_to_turns=", ".join(f"{verb} {n}" for verb, n in other.disturbances.items()),
            differing=here,
            leaked=left,
        )
        differ, leaked = differ + here, leaked + left
    return differ, leaked


def _compare_rows(bench: Bench, backend: TorchBackend, mode: Mode, source: PromptSource) -> int:
    """Rows whose logits are not bitwise those of the same row alone."""
    longer = 2 if bench.quick else 7
    prompts = [source.cut(f"row {i}", 24 + longer * i) for i in range(16)]
    compared, different = rows_that_differ(backend.executor, mode.dtype, prompts)
    bench.row(mode=mode.name, rows=compared, done_to_turns="batch 1 to 16, beside prefill", differing=different)
    return different
