"""The first step: the engine to itself, the knobs that the tour needs, turns of the right length in every slot."""

from functools import partial

from engine.errors import Refused
from engine.geometry import KVDtype
from engine.snapshot import Snapshot
from engine.workload.text import PromptSource
from engine.workload.tour.cast import SEED
from engine.workload.tour.sizes import SLOTS, Sizes, sizes_for
from engine.workload.tour.stage import NotSeen, Stage, Waiting

HOST_TURNS = 4
TOOL_TOKENS = 32


def fill(stage: Stage) -> Waiting[str]:
    model = stage.control.model
    if model is None:
        raise NotSeen("the engine has no model yet; wait until it runs")
    said = ["The swarm was stopped."] if stage.end_swarm() else []
    if stage.cast is None:
        yield from stage.until(partial(_alone, stage), "an engine without other turns")
        changes, sizes = yield from _prepare(stage, model.max_context)
        stage.engage(PromptSource(model.tokenizer, SEED), sizes)
        if changes:
            said.append(f"For the tour: {'; '.join(changes)}.")
    yield from stage.until(stage.full, "full slots")
    rows = [row for _, row in stage.playing.rows(stage.snapshot) if row.phase.running]
    nbytes = sum(row.kv_bytes for row in rows)
    said.insert(
        0,
        f"{len(rows)} of {stage.snapshot.knobs.max_running} slots run and hold "
        f"{sum(row.kv_tokens for row in rows):,} tokens, {stage.mib(nbytes)}; room for "
        f"{stage.snapshot.paused_fit or 0} more average turns is left.",
    )
    return " ".join(said)


def _alone(stage: Stage) -> bool:
    """The swarm's turns are cancelled soon; those of others are not the tour's to end."""
    return not stage.snapshot.turns


def _prepare(stage: Stage, max_context: int) -> Waiting[tuple[list[str], Sizes]]:
    knobs = stage.snapshot.knobs
    wanted: dict[str, object] = {
        "policy": "walk-down",
        "high_watermark": 1.0,
        "low_watermark": min(knobs.low_watermark, 0.9),
        "max_running": SLOTS,
        "prefill_chunk": max(knobs.prefill_chunk, 256),
        "abandon_after_s": max(knobs.abandon_after_s, 900.0),
    }
    if KVDtype.FP16 in dict(stage.snapshot.paused_fit_by_dtype):
        wanted["kv_dtype"] = KVDtype.FP16
    try:
        changes = yield from stage.set_knobs(wanted)
        yield from stage.until(lambda: stage.snapshot.memory is not None, "the arena's size")
        memory = stage.snapshot.memory
        assert memory is not None
        block_size = block_size_of(stage.snapshot)
        sizes = sizes_for(memory.blocks_total, block_size, max_context)
        need = HOST_TURNS * (sizes.longest // block_size + 1) * memory.block_bytes
        longest = 2 * (sizes.longest + TOOL_TOKENS)
        more: dict[str, object] = {
            "max_running": sizes.slots,
            "long_turn_tokens": max(stage.snapshot.knobs.long_turn_tokens, longest),
        }
        changes += yield from stage.set_knobs(more)
    except Refused as refusal:
        raise NotSeen(f"the tour cannot begin: {refusal}") from None
    if stage.snapshot.knobs.host_pool_bytes < need:
        try:
            changes += yield from stage.set_knobs({"host_pool_bytes": need})
        except Refused as refusal:
            changes.append(f"the host pool stays small ({refusal}), so what leaves is dropped")
    return changes, sizes


def block_size_of(snapshot: Snapshot) -> int:
    """Tokens of a block."""
    assert snapshot.memory is not None
    return round(snapshot.memory.block_bytes / snapshot.bytes_per_token)
