"""min-waste: of the three ways to treat a turn that waits on a tool the one that wastes least memory over time.

Source: InferCept (ICML 2024), its equations for the waste of an interception. With C the turn's tokens in the arena, M
bytes of one token, T_int the expected rest of its wait, T_fwd(C) the time to prefill it again, T_swap(C) of one copy,
C_other the tokens of the running turns and C_batch = C_other + C:

    preserve = T_int x C x M
    discard  = T_fwd(C) x C x M + T_fwd(C) x C_other x M   =  T_fwd(C) x C_batch x M
    swap     = 2 x T_swap(C) x C_batch x M x (1 - overlap)

The times are this engine's measured rates (Costs), both copies at their own; T_int is the mean of engine/waits.py.
`overlap`: the share of a copy that goes on beside steps, which holds nobody up; 0 until somebody has measured it.
For need those leave first that waste least for each block that comes free: what leaving wastes, less what staying
would; background before foreground. A turn that waits for a slot and not for a tool would waste nothing by staying.
"""

import math
from collections.abc import Iterable

from engine.policies.base import Exits, Move, Parameter, Relief, Situation, blocked, relief
from engine.turn import Phase, Priority
from engine.view import Drop, Reason, TurnView

OVERLAP = Parameter("overlap", "Overlap of copies", "%", 0.0, 100.0, 0.0)
_BLOCKED = Phase.BLOCKED
_BACKGROUND = Priority.BACKGROUND


class MinWaste:
    name = "min-waste"
    title = "Keep, swap or drop, whichever wastes least memory (InferCept)"
    fits = "Copies are slow or tools quick, so that keeping, swapping and dropping must be weighed turn by turn"
    source = "InferCept (ICML 2024)"
    parameters = (OVERLAP,)

    def relieve(self, situation: Situation) -> Relief:
        leaving = _Leaving(situation, 1 - OVERLAP.of(self.name, situation.knobs) / 100)
        exits, now, waits, worth_s = Exits(situation.memory), situation.now, situation.waits, leaving.worth_s
        due: list[TurnView] = []
        wake_at = math.inf
        tool, outlasts = None, waits.of(None).outlasts_mean
        for turn in blocked(situation):
            if turn.tool != tool:
                tool, outlasts = turn.tool, waits.of(turn.tool).outlasts_mean
            at = outlasts(turn.phase_since, worth_s(turn), now)
            if at <= now:
                due.append(turn)
            elif at < wake_at:
                wake_at = at
        ahead: list[Move] = []
        for turn in leaving.in_order(due):
            if leaving.drops(turn):
                ahead.append(Drop(turn.id, Reason.POLICY))
            elif exits.fits(turn):
                ahead.append(exits.leave(turn, Reason.POLICY))
            # Else the pool has been filled just now: what is best then, the next boundary finds out.
        return relief(ahead, wake_at, situation, leaving.in_order, exits.leave)


class _Leaving:
    """What leaving costs each turn now."""

    def __init__(self, situation: Situation, alone: float) -> None:
        memory, costs = situation.memory, situation.costs
        self._situation = situation
        self._block_s = alone * costs.round_trip_s(memory.block_bytes)
        self._token_s = costs.recompute_s(1)
        self._others = sum([turn.kv_tokens for turn in situation.running])
        self._most_blocks = memory.host_pool(memory.host_free_bytes) // memory.block_bytes

    def drops(self, turn: TurnView) -> bool:
        """Prefilling it again is sooner done than copying it, or the host pool has no room."""
        return turn.blocks > self._most_blocks or turn.kv_tokens * self._token_s < turn.blocks * self._block_s

    def worth_s(self, turn: TurnView) -> float:
        """How long it may be kept until that wastes as much as leaving: the lesser waste / (C x M)."""
        tokens, blocks = turn.kv_tokens, turn.blocks
        away_s, copied_s = tokens * self._token_s, blocks * self._block_s
        if copied_s <= away_s and blocks <= self._most_blocks:
            away_s = copied_s
        return away_s * (self._others + tokens) / tokens

    def in_order(self, turns: Iterable[TurnView]) -> list[TurnView]:
        """Background first, then the least waste for each block, in token-seconds, as the bytes of a token are
        everybody's; then id. In one loop, as it is asked for all that are parked."""
        block_s, token_s, others, most = self._block_s, self._token_s, self._others, self._most_blocks
        now, waits = self._situation.now, self._situation.waits
        tool, mean_left = None, waits.of(None).mean_left
        background: list[tuple[float, int, TurnView]] = []
        foreground: list[tuple[float, int, TurnView]] = []
        for turn in turns:
            tokens, blocks = turn.kv_tokens, turn.blocks
            waste, copied = tokens * token_s, blocks * block_s
            if copied <= waste and blocks <= most:
                waste = copied
            waste *= others + tokens
            if turn.phase is _BLOCKED:
                if turn.tool != tool:
                    tool, mean_left = turn.tool, waits.of(turn.tool).mean_left
                waste -= tokens * mean_left(now - turn.phase_since)
            (background if turn.priority is _BACKGROUND else foreground).append((waste / blocks, turn.id, turn))
        # No two ids are alike, so no two turns are compared.
        background.sort()
        foreground.sort()
        return [turn for _, _, turn in background + foreground]
