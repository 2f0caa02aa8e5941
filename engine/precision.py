"""The live switch of KV precision, at a token boundary: who must leave, then the conversion in place."""

from dataclasses import replace

from engine.backends.base import Converted
from engine.core import Core
from engine.costs import Costs
from engine.errors import Refused
from engine.geometry import KVDtype, blocks_for
from engine.knobs import Knobs
from engine.policies import policy_named
from engine.policies.base import Move, Need, Situation, longest_first, out_or_drop
from engine.turn import Phase
from engine.view import Preempt, Reason, SwapOut, TurnView, View


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
    for step in leaving(core.ledger.view(evicting=False), core.backend.blocks_at(dtype), core.knobs, core.costs, now):
        turn = core.ledger.find(step.turn)
        if isinstance(step, Preempt):
            core.preempt(turn, now, f"for the switch to {dtype}")
        elif not (isinstance(step, SwapOut) and core.swap_out(turn, now, Reason.PRECISION)):
            core.drop(turn, now, Reason.PRECISION)
    return core.backend.set_kv_dtype(dtype)


def leaving(view: View, total: int, knobs: Knobs, costs: Costs, now: float) -> tuple[Preempt | Move, ...]:
    """Who leaves, in order, until the turns of `view` hold at most `total` blocks: parked turns as the tier policy
    chooses, then running ones, preempted in the order background longest first; where the policy moves nobody, the
    longest leave all the same. Pure."""
    steps: list[Preempt | Move] = []
    while (short := _held(view) - total) > 0:
        moves = _moves(view, short, knobs, costs, now)
        if not moves:
            victim = min((t for t in view.turns if t.phase.running), key=longest_first)
            steps.append(Preempt(victim.id, None, Reason.PRECISION))
            view = _with(view, replace(victim, phase=Phase.PAUSED))
        for move in moves:
            turn = next(t for t in view.turns if t.id == move.turn)
            steps.append(move)
            view = without(view, turn, to_host=isinstance(move, SwapOut))
    return tuple(steps)


def without(view: View, turn: TurnView, *, to_host: bool) -> View:
    """The view once `turn` has left the arena."""
    taken = turn.blocks * view.memory.block_bytes if to_host else 0
    memory = replace(
        view.memory,
        blocks_free=view.memory.blocks_free + turn.blocks,
        host_free_bytes=view.memory.host_free_bytes - taken,
    )
    return replace(_with(view, replace(turn, blocks=0)), memory=memory)


def _held(view: View) -> int:
    return view.memory.blocks_total - view.memory.blocks_free


def _moves(view: View, short: int, knobs: Knobs, costs: Costs, now: float) -> tuple[Move, ...]:
    """The policy's choice among parked turns; empty while there are running turns to preempt instead."""
    parked = tuple(t for t in view.turns if t.blocks and not t.phase.running)
    running = tuple(t for t in view.turns if t.phase.running)
    need = Need(hard=short, reason=Reason.PRECISION)
    moves = policy_named(knobs.policy).relieve(Situation(parked, running, need, view.memory, knobs, costs, now)).moves
    if moves or running:
        return moves
    longest = min(parked, key=longest_first)
    return (out_or_drop(longest, Reason.PRECISION, view.memory.block_bytes, view.memory.host_free_bytes),)


def _with(view: View, changed: TurnView) -> View:
    return replace(view, turns=tuple(changed if t.id == changed.id else t for t in view.turns))
