"""The real preview over the rows of a scripted snapshot."""

from engine.geometry import KVDtype, KVGeometry, blocks_for
from engine.knobs import Knobs
from engine.preview import Preview, Sizes, previewed
from engine.snapshot import Snapshot, TurnRow
from engine.turn import Tier
from engine.view import MemoryView, TurnView, View

BLOCK = 16
CONVERTS_PER_S = 8e9


def preview_of(snapshot: Snapshot, new: Knobs, geometry: KVGeometry) -> Preview:
    memory, costs = snapshot.memory, snapshot.costs
    assert memory is not None
    assert costs is not None
    turns = tuple(_turn(row, snapshot.at) for row in snapshot.turns)
    blocks = {}
    for dtype in KVDtype:
        nbytes = BLOCK * geometry.bytes_per_token(dtype)
        blocks[dtype] = (memory.arena_bytes // nbytes, nbytes)
    total, nbytes = blocks[snapshot.knobs.kv_dtype]
    held = sum(turn.blocks for turn in turns)
    copies = {row.id: row.host_bytes for row in snapshot.turns if row.tier is Tier.HOST}
    pool = snapshot.knobs.host_pool_bytes
    free = pool - sum(copies.values())
    view = View(turns, MemoryView(BLOCK, nbytes, total, total - held, pool, free, memory.host_unit_bytes))
    return previewed(view, snapshot.knobs, new, Sizes(blocks, copies, CONVERTS_PER_S), costs, snapshot.at)


def _turn(row: TurnRow, at: float) -> TurnView:
    since = at - row.in_phase_s
    return TurnView(
        id=row.id, priority=row.priority, phase=row.phase, tier=row.tier, tokens=row.context_tokens + 1,
        kv_tokens=row.kv_tokens, blocks=blocks_for(row.kv_tokens, BLOCK) if row.tier is Tier.RESIDENT else 0,
        arrived_at=since, phase_since=since, queued_since=since, tier_since=since, held=row.held, tool=row.tool,
    )  # fmt: skip
