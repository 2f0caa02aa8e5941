"""swap-on-block: a turn that blocks on a tool leaves for the host pool as soon as it is as likely as not to wait for
longer than `margin` times the measured copy of its KV out and back, so that its room is another's meanwhile; it comes
back as any turn does once its result is there. A background turn must moreover be expected to wait out its dwell, as it
comes back no sooner. Nobody is dropped ahead of need, and for need the others leave as walk-down has it.

Source: "A turn that blocks on a tool may be swapped at the moment it blocks and brought back when the result arrives",
Parkdeck's study of swap against recompute; the break-even of the wait is the round trip. The rest of a wait is the
median of engine/waits.py: at a tool that mostly answers at once, turns leave once this call has proved a long one.
"""

import math

from engine.policies.base import (
    TIER_DWELL_S,
    Exits,
    Move,
    Parameter,
    Relief,
    Situation,
    blocked,
    by_longest,
    relief,
)
from engine.turn import Priority
from engine.view import Reason, TurnView

MARGIN = Parameter("margin", "Margin", "x", 0.0, 1000.0, 2.0)
_BACKGROUND = Priority.BACKGROUND


class SwapOnBlock:
    name = "swap-on-block"
    title = "To the host pool on a tool call that outlasts the copy; else walk-down"
    fits = "Tools often take longer than a copy and more turns want room than have it"
    source = "Parkdeck's study of swap against recompute"
    parameters = (MARGIN,)

    def relieve(self, situation: Situation) -> Relief:
        exits, memory, now, waits = Exits(situation.memory), situation.memory, situation.now, situation.waits
        block_s = MARGIN.of(self.name, situation.knobs) * situation.costs.round_trip_s(memory.block_bytes)
        due: list[TurnView] = []
        wake_at = math.inf
        for turn in blocked(situation):
            least_s = turn.blocks * block_s
            if turn.priority is _BACKGROUND and least_s < TIER_DWELL_S:
                least_s = TIER_DWELL_S
            at = waits.of(turn.tool).outlasts_median(turn.phase_since, least_s, now)
            if at <= now:
                due.append(turn)
            elif at < wake_at:
                wake_at = at
        ahead: list[Move] = [exits.leave(turn, Reason.POLICY) for turn in by_longest(due) if exits.fits(turn)]
        return relief(ahead, wake_at, situation, by_longest, exits.leave)
