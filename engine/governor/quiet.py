"""When time alone may change the governor's answer: what lets a modelled engine skip the boundaries in between."""

import math
from collections.abc import Iterator

from engine.governor.timing import STARVE_AFTER_S, TIER_DWELL_S, returns_at, share_until
from engine.knobs import Knobs
from engine.turn import Phase, Priority
from engine.view import TurnView, View

# As in board.py.
_DECODE, _PREFILL, _WAITING, _PAUSED = Phase.DECODE, Phase.PREFILL, Phase.WAITING, Phase.PAUSED
_FOREGROUND, _BACKGROUND = Priority.FOREGROUND, Priority.BACKGROUND


def quiet_until(view: View, knobs: Knobs, now: float) -> float:
    """The first instant after `now` that a rule compares the clock with while somebody runs, beside those that a
    decision names itself (`Decision.next_at`); infinity: none. Where no slot is free and no foreground turn waits,
    nobody's wait counts, only the dwell of those who may be moved."""
    running: list[TurnView] = []
    waiting: list[TurnView] = []
    instants: list[float] = []
    for turn in view.turns:
        phase = turn.phase
        if phase is _DECODE or phase is _PREFILL:
            running.append(turn)
            continue
        if turn.blocks:
            instants.append(turn.tier_since + TIER_DWELL_S)
        if (phase is _WAITING or phase is _PAUSED) and not turn.held:
            waiting.append(turn)
    if knobs.max_running > len(running) or any(turn.priority is _FOREGROUND for turn in waiting):
        instants += _of_waiting(waiting)
        instants += _of_running(running, knobs)
    return min((at for at in instants if at > now), default=math.inf)


def _of_waiting(turns: list[TurnView]) -> Iterator[float]:
    for turn in turns:
        yield turn.queued_since + STARVE_AFTER_S
        if (back := returns_at(turn)) is not None:
            yield back


def _of_running(turns: list[TurnView], knobs: Knobs) -> Iterator[float]:
    """Until when a background turn may not be preempted."""
    for turn in turns:
        if turn.priority is _BACKGROUND:
            yield share_until(turn, knobs)
            if turn.resumed_at is not None:
                yield turn.resumed_at + knobs.min_quantum_s
