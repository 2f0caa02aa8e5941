"""oldest-first: who has been parked for longest leaves first, to the host pool while that has room; a turn that waits
on a tool leaves of itself after `patience` seconds."""

import math
from collections.abc import Iterable

from engine.policies.base import Exits, Move, Parameter, Relief, Situation, blocked, relief
from engine.view import Reason, TurnView

PATIENCE = Parameter("patience", "Patience", "s", 0.0, 3600.0, 30.0)


class OldestFirst:
    name = "oldest-first"
    title = "Who has been parked for longest leaves first"
    fits = "Old contexts are seldom wanted again"
    source = "an example"
    parameters = (PATIENCE,)

    def relieve(self, situation: Situation) -> Relief:
        exits, patience = Exits(situation.memory), PATIENCE.of(self.name, situation.knobs)
        ahead: list[Move] = []
        wake_at = math.inf
        # Ahead of need, and only where no one's need is hard: `blocked` sees to that.
        for turn in _oldest_first(blocked(situation)):
            due = turn.phase_since + patience
            if due > situation.now:
                # The answer changes by time alone, so the instant is named.
                wake_at = min(wake_at, due)
            elif exits.fits(turn):
                ahead.append(exits.leave(turn, Reason.POLICY))
        # Then whatever is needed.
        return relief(ahead, wake_at, situation, _oldest_first, exits.leave)


def _oldest_first(turns: Iterable[TurnView]) -> list[TurnView]:
    return sorted(turns, key=lambda turn: (-turn.priority, turn.phase_since, turn.id))
