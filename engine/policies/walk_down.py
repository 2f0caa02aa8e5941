"""walk-down: three tiers in order of cost. KV stays resident while there is room, then goes to the host pool, and is
dropped only when that is full; background before foreground, the longest first, because a long turn frees most and its
copy costs the least beside its recompute.

Source: swapping and recomputation as two ways out, PagedAttention (SOSP 2023) section 4.5; the order is Parkdeck's own.
"""

from engine.policies.base import Exits, Parameter, Relief, Situation, by_longest, leave_in_order


class WalkDown:
    name = "walk-down"
    title = "Keep resident, then host pool, then drop; longest first"
    fits = "The host pool is large and what waits is mixed: nothing moves before room is needed"
    source = "PagedAttention (SOSP 2023), section 4.5; the order is Parkdeck's own"
    parameters: tuple[Parameter, ...] = ()

    def relieve(self, situation: Situation) -> Relief:
        if situation.need.most <= 0:
            return Relief()
        return Relief(leave_in_order(by_longest(situation.parked), situation, Exits(situation.memory).leave))
