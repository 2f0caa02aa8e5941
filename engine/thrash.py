"""Thrash: KV that is moved for next to nothing. Pure.

A turn whose KV leaves the arena less than THRASH_S after it came back, or comes back less than THRASH_S after it left,
has paid for a way that bought nobody room for long; THRASH_S is twice the governor's dwell, which alone holds a turn
for one. KV that is computed for the first time does not come back, and what an operator moves out by hand is no thrash.
"""

from engine.turn import Tier

THRASH_S = 2.0
TOLD_EVERY_S = 1.0


def undone(old: Tier, new: Tier, lasted_s: float, back: bool, by_itself: bool) -> str:
    """What a move from `old`, held for `lasted_s`, to `new` undoes, in words; empty: nothing. `back`: KV here had left
    the arena before; `by_itself`: neither this move nor the one before was an operator's."""
    if not by_itself or lasted_s >= THRASH_S:
        return ""
    if old is Tier.RESIDENT and new is not Tier.RESIDENT and back:
        return "left the arena again {} after it came back"
    if old in (Tier.HOST, Tier.DROPPED) and new is Tier.RESIDENT:
        return "came back {} after it was moved out"
    return ""


class Telling:
    """An event at most every TOLD_EVERY_S, however many there are."""

    def __init__(self) -> None:
        self._told_at = float("-inf")
        self._untold = 0

    def note(self, now: float) -> int | None:
        """One more at `now`. How many since the last that was told, this one among them, if it is to be told now."""
        self._untold += 1
        if now - self._told_at < TOLD_EVERY_S:
            return None
        count, self._untold, self._told_at = self._untold, 0, now
        return count
