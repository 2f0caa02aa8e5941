"""One step of the torch backend: which tokens go through which kernel, and what comes out per turn.

A turn with one pending token is a row of the decode batch; a turn with more is prefilled, one chunk of
min(budget, pending) tokens. A chunk's boundaries follow from its own turn alone, never from its batch mates, and rows
are batch-invariant: that makes a turn's tokens independent of what runs beside it.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from engine.backends.base import StepPlan, StepResult, TurnStep
from engine.backends.torch.arena import Arena
from engine.backends.torch.executor import Executor, Rows
from engine.backends.torch.sampling import UnusableLogits, sample
from engine.backends.torch.traffic import Traffic
from engine.backends.torch.turns import OpenTurn
from engine.errors import IntegrityError
from engine.turn import TurnId

MAX_ROWS = 16

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Chunk:
    turn: OpenTurn
    count: int

    @property
    def is_row(self) -> bool:
        return self.turn.pending == 1

    @property
    def end(self) -> int:
        """KV tokens of the turn after the chunk."""
        return self.turn.kv_tokens + self.count


@dataclass(frozen=True, slots=True)
class _Outcome:
    """Logits (vocab,) when the chunk reached the turn's last token; `error` when it was not computed."""

    logits: np.ndarray | None = None
    error: str | None = None


def run_step(
    plan: StepPlan, turns: Mapping[TurnId, OpenTurn], arena: Arena, traffic: Traffic, executor: Executor
) -> StepResult:
    """Compute the plan's pending tokens and sample. Whose KV is still coming is left out, and so is a chunk whose
    blocks have not been left yet, unless nobody else could run. Raises IntegrityError, with nothing changed, for a plan
    that names a turn twice or one that cannot run, or that did not leave room in the arena."""
    started = time.perf_counter()
    limit = executor.config.max_context
    chunks = _here(_chunks(plan, turns), arena, traffic)
    outcomes = {chunk.turn.id: _over_context(limit) for chunk in chunks if chunk.end > limit}
    able = [chunk for chunk in chunks if chunk.end <= limit]
    _take_blocks(able, arena)
    rows = [chunk for chunk in able if chunk.is_row]
    for first in range(0, len(rows), MAX_ROWS):
        outcomes |= _run_rows(rows[first : first + MAX_ROWS], arena, executor)
    for chunk in able:
        if not chunk.is_row:
            outcomes[chunk.turn.id] = _run_prefill(chunk, arena, executor)
    prefilled = sum(c.count for c in able if not c.is_row and not outcomes[c.turn.id].error)
    decoded = sum(1 for c in rows if not outcomes[c.turn.id].error)
    steps = tuple(_settle(chunk, outcomes[chunk.turn.id], arena) for chunk in chunks)
    return StepResult(steps, time.perf_counter() - started, prefill_tokens=prefilled, decode_tokens=decoded)


def _over_context(limit: int) -> _Outcome:
    return _Outcome(error=f"The turn has filled the model's context of {limit} tokens; start a shorter one.")


def _chunks(plan: StepPlan, turns: Mapping[TurnId, OpenTurn]) -> list[_Chunk]:
    chunks = []
    for work in plan.work:
        turn = turns[work.turn]
        if work.budget < 1 or turn.pending < 1 or (turn.parked and not turn.coming):
            raise IntegrityError(
                f"turn {turn.id} cannot run: budget {work.budget}, {turn.pending} tokens pending, "
                f"KV {'in the host pool' if turn.parked else 'resident'}"
            )
        chunks.append(_Chunk(turn, min(work.budget, turn.pending)))
    if len({chunk.turn.id for chunk in chunks}) != len(chunks):
        raise IntegrityError("a plan names a turn twice")
    return chunks


def _here(chunks: list[_Chunk], arena: Arena, traffic: Traffic) -> list[_Chunk]:
    """Those that can run now. If nobody can, the engine waits for a copy."""
    traffic.look()
    while traffic.busy:
        here = [chunk for chunk in chunks if not chunk.turn.coming and not traffic.lost(chunk.turn.id)]
        need = sum(_need(chunk, arena) for chunk in here if chunk.is_row)
        traffic.make_room(need)
        room = arena.free - need
        able: list[_Chunk] = []
        for chunk in here:
            more = 0 if chunk.is_row else _need(chunk, arena)
            if more <= room:
                room -= more
                able.append(chunk)
        if able or not chunks:
            return able
        if traffic.busy:
            traffic.wait_for_the_first()
    return [chunk for chunk in chunks if not traffic.lost(chunk.turn.id)]


def _need(chunk: _Chunk, arena: Arena) -> int:
    """Blocks that it will take."""
    return arena.layout.blocks_for(chunk.end) - len(arena.table(chunk.turn.id))


def _take_blocks(chunks: Sequence[_Chunk], arena: Arena) -> None:
    need = [_need(chunk, arena) for chunk in chunks]
    if sum(need) > arena.free:
        raise IntegrityError(f"the plan needs {sum(need)} more blocks, {arena.free} of {arena.blocks} are free")
    for chunk, count in zip(chunks, need, strict=True):
        arena.take(chunk.turn.id, count)


def _run_rows(chunks: Sequence[_Chunk], arena: Arena, executor: Executor) -> dict[TurnId, _Outcome]:
    """The decode batch. If it fails as a whole its rows run one by one, so that only the guilty turn fails."""
    try:
        logits = executor.rows(_rows(chunks, arena), arena.view)
    except Exception as error:
        log.exception("decode of %d turns failed", len(chunks))
        if len(chunks) == 1:
            return {chunks[0].turn.id: _Outcome(error=f"Decoding the turn failed: {error}")}
        alone = [_run_rows([chunk], arena, executor) for chunk in chunks]
        return {turn: outcome for one in alone for turn, outcome in one.items()}
    return {chunk.turn.id: _Outcome(logits[row]) for row, chunk in enumerate(chunks)}


def _rows(chunks: Sequence[_Chunk], arena: Arena) -> Rows:
    tables = [arena.table(chunk.turn.id) for chunk in chunks]
    table = np.zeros((len(chunks), max(len(blocks) for blocks in tables)), dtype=np.int32)
    for row, blocks in enumerate(tables):
        table[row, : len(blocks)] = blocks
    return Rows(
        tokens=np.array([chunk.turn.tokens[chunk.turn.kv_tokens] for chunk in chunks], dtype=np.int32),
        positions=np.array([chunk.turn.kv_tokens for chunk in chunks], dtype=np.int32),
        table=table,
        table_row=np.arange(len(chunks), dtype=np.int32),
    )


def _run_prefill(chunk: _Chunk, arena: Arena, executor: Executor) -> _Outcome:
    turn, start = chunk.turn, chunk.turn.kv_tokens
    tokens = np.array(turn.tokens[start : start + chunk.count], dtype=np.int32)
    table = np.array(arena.table(turn.id), dtype=np.int32)
    try:
        return _Outcome(executor.prefill(tokens, start, table, arena.view, last=chunk.count == turn.pending))
    except Exception as error:
        log.exception("prefill of turn %d failed", turn.id)
        return _Outcome(error=f"Computing the turn's prompt failed at token {start}: {error}")


def _settle(chunk: _Chunk, outcome: _Outcome, arena: Arena) -> TurnStep:
    turn = chunk.turn
    if outcome.error is not None:
        arena.cut(turn.id, arena.layout.blocks_for(turn.kv_tokens))
        return TurnStep(turn.id, 0, error=outcome.error)
    turn.kv_tokens += chunk.count
    if turn.pending:
        return TurnStep(turn.id, chunk.count)
    if outcome.logits is None:
        raise IntegrityError(f"the executor gave no logits for the last token of turn {turn.id}")
    try:
        token = sample(outcome.logits, turn.sampling, turn.seed, len(turn.tokens))
    except UnusableLogits as error:
        return TurnStep(turn.id, chunk.count, error=str(error))
    turn.tokens.append(token)
    return TurnStep(turn.id, chunk.count, sampled=token)
