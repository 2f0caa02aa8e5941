"""Who must leave when a knob makes room smaller: the arena at another precision, the host pool at another size. Pure:
the commands carry out what is planned here, and a preview shows it."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from engine.costs import Costs
from engine.governor.host_tier import least_needed
from engine.knobs import Knobs
from engine.policies import policy_named
from engine.policies.base import Move, Need, Situation, longest_first, out_or_drop
from engine.turn import Phase, Tier, TurnId
from engine.view import Preempt, Reason, SwapOut, TurnView, View


def leaving(view: View, total: int, knobs: Knobs, costs: Costs, now: float) -> tuple[tuple[Preempt | Move, ...], View]:
    """Who leaves, in order, until the turns of `view` hold at most `total` blocks, and the view then: parked turns as
    the tier policy chooses, then running ones, preempted in the order background longest first; where the policy moves
    nobody, the longest leave all the same."""
    steps: list[Preempt | Move] = []
    while (short := _held(view) - total) > 0:
        moves = _moves(view, short, knobs, costs, now)
        if not moves:
            victim = min((t for t in view.turns if t.phase.running), key=longest_first)
            steps.append(Preempt(victim.id, None, Reason.PRECISION))
            view = _with(view, replace(victim, phase=Phase.PAUSED, phase_since=now, queued_since=now))
        for move in moves:
            turn = next(t for t in view.turns if t.id == move.turn)
            steps.append(move)
            view = _without(view, turn, isinstance(move, SwapOut), now)
    return tuple(steps), view


def squeezed_out(turns: Iterable[TurnView], copies: Mapping[TurnId, int], nbytes: int) -> tuple[TurnView, ...]:
    """Whose `copies` must go, the least needed first, until the others fit `nbytes`."""
    used = sum(copies.values())
    gone: list[TurnView] = []
    for turn in sorted((t for t in turns if t.id in copies), key=least_needed):
        if used <= nbytes:
            break
        gone.append(turn)
        used -= copies[turn.id]
    return tuple(gone)


def dropped(turn: TurnView, now: float) -> TurnView:
    """The turn once its KV is thrown away."""
    tier = Tier.DROPPED if turn.kv_tokens else Tier.NONE
    since = turn.tier_since if tier is turn.tier else now
    return replace(turn, blocks=0, kv_tokens=0, tier=tier, tier_since=since)


def _without(view: View, turn: TurnView, to_host: bool, now: float) -> View:
    """The view once `turn` has left the arena."""
    taken = view.memory.host_bytes(turn.blocks) if to_host else 0
    memory = replace(
        view.memory,
        blocks_free=view.memory.blocks_free + turn.blocks,
        host_free_bytes=view.memory.host_free_bytes - taken,
    )
    gone = replace(turn, blocks=0, tier=Tier.HOST, tier_since=now) if to_host else dropped(turn, now)
    return replace(_with(view, gone), memory=memory)


def _held(view: View) -> int:
    return view.memory.blocks_total - view.memory.blocks_free


def _moves(view: View, short: int, knobs: Knobs, costs: Costs, now: float) -> tuple[Move, ...]:
    """The policy's choice among parked turns; empty while there are running turns to preempt instead."""
    parked = tuple(t for t in view.turns if t.blocks and not t.phase.running)
    running = tuple(t for t in view.turns if t.phase.running)
    need = Need(hard=short, reason=Reason.PRECISION)
    situation = Situation(parked, running, need, view.memory, knobs, costs, now, view.waits)
    moves = policy_named(knobs.policy).relieve(situation).moves
    if moves or running:
        return moves
    longest = min(parked, key=longest_first)
    return (out_or_drop(longest, Reason.PRECISION, view.memory, view.memory.host_free_bytes),)


def _with(view: View, changed: TurnView) -> View:
    return replace(view, turns=tuple(changed if t.id == changed.id else t for t in view.turns))
