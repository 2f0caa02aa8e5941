"""The live switch of KV precision, at a token boundary: who must leave, then the conversion in place."""

from engine.backends.base import Converted
from engine.core import Core
from engine.errors import Refused
from engine.geometry import KVDtype, blocks_for
from engine.policies import policy_named
from engine.policies.base import Move, Need, Situation, longest_first, out_or_drop
from engine.turn import Phase
from engine.view import Reason, SwapOut


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
    """Convert the arena. What no longer fits leaves first: parked turns as the tier policy chooses, then running ones,
    preempted in the order background longest first; where the policy moves nobody, the longest leave all the same."""
    now = core.clock.now()
    total = core.backend.blocks_at(dtype)
    while (short := _held(core) - total) > 0:
        moves = _moves(core, short, now)
        if not moves:
            _preempt_one(core, dtype, now)
        for move in moves:
            turn = core.ledger.find(move.turn)
            if not (isinstance(move, SwapOut) and core.swap_out(turn, now, Reason.PRECISION)):
                core.drop(turn, now, Reason.PRECISION)
    return core.backend.set_kv_dtype(dtype)


def _held(core: Core) -> int:
    memory = core.backend.memory()
    return memory.blocks_total - memory.blocks_free


def _moves(core: Core, short: int, now: float) -> tuple[Move, ...]:
    """The policy's choice among parked turns; empty while there are running turns to preempt instead."""
    view = core.ledger.view(evicting=False)
    parked = tuple(t for t in view.turns if t.blocks and not t.phase.running)
    running = tuple(t for t in view.turns if t.phase.running)
    need = Need(hard=short, reason=Reason.PRECISION)
    situation = Situation(parked, running, need, view.memory, core.knobs, core.costs, now)
    moves = policy_named(core.knobs.policy).relieve(situation).moves
    if moves or running:
        return moves
    longest = min(parked, key=longest_first)
    return (out_or_drop(longest, Reason.PRECISION, view.memory.block_bytes, view.memory.host_free_bytes),)


def _preempt_one(core: Core, dtype: KVDtype, now: float) -> None:
    running = [t for t in core.ledger if t.phase in (Phase.PREFILL, Phase.DECODE)]
    victim = min(running, key=lambda t: (-t.priority, -len(t.tokens), t.id))
    core.preempt(victim, now, f"for the switch to {dtype}")
