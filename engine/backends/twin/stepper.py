"""One step of the twin: which turns run, the blocks that they take, and how long it all takes on the card."""

from collections.abc import Mapping

from engine.backends.base import StepPlan, StepResult, TurnStep
from engine.backends.twin.books import ArenaBook
from engine.backends.twin.link import Link
from engine.backends.twin.times import CardTimes
from engine.backends.twin.tokens import token_at
from engine.backends.twin.turns import TwinTurn
from engine.errors import IntegrityError
from engine.turn import TurnId

Chunk = tuple[TwinTurn, int]
"""So many pending tokens of a turn."""


def run_step(
    plan: StepPlan,
    turns: Mapping[TurnId, TwinTurn],
    arena: ArenaBook,
    link: Link,
    times: CardTimes,
    max_context: int,
) -> StepResult:
    """Decode rows together, then each chunk by itself; the link's clock advances. Who is left out for now is as in the
    torch backend. Raises IntegrityError, with nothing
    changed, for a plan that names a turn twice or one that cannot run, or that did not leave room in the arena."""
    clock = link.clock
    started = clock.now()
    chunks = _here(_chunks(plan, turns), arena, link)
    _take_blocks([chunk for chunk in chunks if _end(chunk) <= max_context], arena)
    rows = kv_tokens = prefilled = 0
    seconds = 0.0
    steps: list[TurnStep] = []
    for chunk in chunks:
        turn, count = chunk
        if _end(chunk) > max_context:
            steps.append(TurnStep(turn.id, 0, error=_full(max_context)))
            continue
        if turn.pending == 1:
            rows += 1
            kv_tokens += turn.kv_tokens + 1
        else:
            prefilled += count
            seconds += times.prefill_s(count)
        steps.append(_advance(turn, count))
    seconds += times.decode_s(rows, kv_tokens * arena.token_bytes)
    clock.advance(seconds)
    return StepResult(tuple(steps), clock.now() - started, prefilled, rows)


def _chunks(plan: StepPlan, turns: Mapping[TurnId, TwinTurn]) -> list[Chunk]:
    chunks = []
    for work in plan.work:
        turn = turns[work.turn]
        pending = turn.pending
        if work.budget < 1 or pending < 1 or (turn.parked and not turn.coming):
            raise IntegrityError(
                f"turn {turn.id} cannot run: budget {work.budget}, {pending} tokens pending, "
                f"KV {'in the host pool' if turn.parked else 'resident'}"
            )
        chunks.append((turn, min(work.budget, pending)))
    if len({turn.id for turn, _ in chunks}) != len(chunks):
        raise IntegrityError("a plan names a turn twice")
    return chunks


def _here(chunks: list[Chunk], arena: ArenaBook, link: Link) -> list[Chunk]:
    """Those that can run now. If nobody can, the engine waits for a copy."""
    link.look()
    while link.busy:
        here = [chunk for chunk in chunks if not chunk[0].coming]
        need = sum(_need(chunk, arena) for chunk in here if chunk[0].pending == 1)
        link.wait_for(need)
        room = arena.free - link.unwritable - need
        able: list[Chunk] = []
        for chunk in here:
            more = 0 if chunk[0].pending == 1 else _need(chunk, arena)
            if more <= room:
                room -= more
                able.append(chunk)
        if able or not chunks:
            return able
        if link.busy:
            link.wait_for_the_first()
    return chunks


def _need(chunk: Chunk, arena: ArenaBook) -> int:
    """Blocks that it will take."""
    return arena.layout.blocks_for(_end(chunk)) - chunk[0].blocks


def _take_blocks(chunks: list[Chunk], arena: ArenaBook) -> None:
    needs = [(chunk[0], _need(chunk, arena)) for chunk in chunks]
    total = sum(need for _, need in needs)
    if not total:
        return
    if not arena.take(total):
        raise IntegrityError(f"the plan needs {total} more blocks, {arena.free} of {arena.blocks} are free")
    for turn, need in needs:
        turn.blocks += need


def _end(chunk: Chunk) -> int:
    """KV tokens of the turn after the chunk."""
    return chunk[0].kv_tokens + chunk[1]


def _advance(turn: TwinTurn, count: int) -> TurnStep:
    turn.kv_tokens += count
    if turn.tokens > turn.kv_tokens:
        return TurnStep(turn.id, count)
    token = token_at(turn.seed, turn.tokens)
    turn.tokens += 1
    return TurnStep(turn.id, count, token)


def _full(limit: int) -> str:
    return f"The turn has filled the model's context of {limit} tokens; start a shorter one."
