"""The live switch of KV precision, at a token boundary: who must leave, then the conversion in place."""

from engine.backends.base import Converted
from engine.core import Core
from engine.errors import Refused
from engine.geometry import KVDtype, blocks_for
from engine.leaving import leaving
from engine.view import Preempt, Reason, SwapOut


def check_switch(core: Core, dtype: KVDtype) -> None:
    """Raises Refused for a precision that the backend lacks, or at which a live turn could never fit any more."""
    backend = core.backend
    if dtype not in backend.kv_dtypes:
        raise Refused(f"this backend has no {dtype} KV; choose {', '.join(sorted(backend.kv_dtypes))}")
    total = backend.blocks_at(dtype)
    for turn in core.ledger:
        if blocks_for(len(turn.tokens) + 1, backend.block_size) > total:
            raise Refused(
                f"{turn.agent} has {len(turn.tokens):,} tokens and the arena holds {total * backend.block_size:,} at "
                f"{dtype}; cancel it or stay at {backend.kv_dtype}"
            )


def switch(core: Core, dtype: KVDtype) -> Converted:
    """Convert the arena, once what no longer fits has left. A copy that the host pool cannot take after all is a
    drop."""
    now = core.clock.now()
    total = core.backend.blocks_at(dtype)
    steps, _ = leaving(core.view(evicting=False), total, core.knobs, core.costs, now)
    for step in steps:
        turn = core.ledger.find(step.turn)
        if isinstance(step, Preempt):
            core.preempt(turn, now, f"for the switch to {dtype}")
        elif not (isinstance(step, SwapOut) and core.swap_out(turn, now, Reason.PRECISION)):
            core.drop(turn, now, Reason.PRECISION)
    core.converted = core.backend.set_kv_dtype(dtype)
    return core.converted
