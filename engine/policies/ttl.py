"""ttl: the KV of a turn that blocks on a tool is kept for a time to live, tau, and leaves when that is over: to the
host pool if it fits, else dropped.

Source: Continuum (arXiv 2511.02230). tau = argmax over the observed durations of
P(duration <= tau) x (queueing gain + reload cost) - tau; with fewer than `samples` durations of the tool, and of all
tools, tau = ln(B) s for a reload cost of B > 1 s, else 0. When room is needed, those that are not pinned so leave
first, then the pinned, the latest arrival first; background before foreground.

The reload cost is what the way back from where it would go costs at measured rates: the copy from the host pool, or
the prefill. The queueing gain is measured too (`Waits.queueing_gain_s`): how much longer turns whose result was there
have waited for a slot when their KV had left than when it was here, dwell and all; 0 until enough were seen.
"""

import math
from collections.abc import Iterable

from engine.durations import Durations
from engine.policies.base import (
    ARRIVAL,
    ID,
    PRIORITY,
    Exits,
    Move,
    Parameter,
    Relief,
    Situation,
    blocked,
    relief,
)
from engine.turn import Phase
from engine.view import Drop, Reason, TurnView
from engine.waits import KEPT

SAMPLES = Parameter("samples", "Samples until tau is learnt", "", 8.0, float(KEPT), 100.0)
_BLOCKED = Phase.BLOCKED


class Ttl:
    name = "ttl"
    title = "Keep for a time learnt from the tool, then host pool or drop (Continuum)"
    fits = "Each tool takes about as long each time: what answers soon stays, what does not makes room"
    source = "Continuum (arXiv 2511.02230)"
    parameters = (SAMPLES,)

    def relieve(self, situation: Situation) -> Relief:
        memory, costs, now, waits = situation.memory, situation.costs, situation.now, situation.waits
        exits, least, gain_s = Exits(memory), math.ceil(SAMPLES.of(self.name, situation.knobs)), None
        due: list[tuple[TurnView, bool]] = []
        wake_at = math.inf
        for turn in blocked(situation):
            if gain_s is None:
                gain_s = waits.queueing_gain_s
            fits = exits.fits(turn)
            nbytes = turn.blocks * memory.block_bytes
            reload_s = nbytes / costs.swap_in_bytes_per_s if fits else costs.recompute_s(turn.kv_tokens)
            at = turn.phase_since + time_to_live_s(waits.of(turn.tool, least), gain_s, reload_s)
            if at <= now:
                due.append((turn, fits))
            elif at < wake_at:
                wake_at = at
        fitted = {turn.id for turn, fits in due if fits}
        ahead: list[Move] = []
        for turn in _latest_first([turn for turn, _ in due]):
            if turn.id not in fitted:
                ahead.append(Drop(turn.id, Reason.POLICY))
            elif exits.fits(turn):
                ahead.append(exits.leave(turn, Reason.POLICY))
            # Else the pool has been filled just now, and for a drop it would have lived longer.
        return relief(ahead, wake_at, situation, _latest_first, exits.leave)


def time_to_live_s(durations: Durations, gain_s: float, reload_s: float) -> float:
    """tau, for the durations that are known well enough; none: the rule for a cold start, which knows no gain."""
    if durations.ascending:
        return durations.keep_s(gain_s + reload_s)
    return math.log(reload_s) if reload_s > 1 else 0.0


def _latest_first(turns: Iterable[TurnView]) -> list[TurnView]:
    order = sorted(turns, key=ID, reverse=True)
    order.sort(key=ARRIVAL, reverse=True)
    order.sort(key=_pinned)
    order.sort(key=PRIORITY, reverse=True)
    return order


def _pinned(turn: TurnView) -> bool:
    return turn.phase is _BLOCKED
