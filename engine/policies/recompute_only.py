"""recompute-only: what leaves is dropped and prefilled again, the host pool is never used; background before
foreground, the latest arrival first, whatever its length (so the long-turn threshold has no effect).

Source: vLLM V1, vllm/v1/core/sched/scheduler.py, which preempts the lowest priority and latest arrival and frees all
its blocks. vLLM does so when a step finds no block; here the watermarks ask for it too.
"""

from dataclasses import replace

from engine.policies.base import ARRIVAL, ID, PRIORITY, Move, Parameter, Relief, Situation, leave_in_order
from engine.view import Drop, Reason, TurnView


class RecomputeOnly:
    name = "recompute-only"
    title = "Drop and recompute, latest arrival first (vLLM V1)"
    fits = "There is no host pool, or contexts are so short that a prefill costs little"
    source = "vLLM V1, its scheduler"
    parameters: tuple[Parameter, ...] = ()

    def relieve(self, situation: Situation) -> Relief:
        need = replace(situation.need, long=0)
        if need.most <= 0:
            return Relief()
        order = sorted(situation.parked, key=ID, reverse=True)
        order.sort(key=ARRIVAL, reverse=True)
        order.sort(key=PRIORITY, reverse=True)
        return Relief(leave_in_order(order, replace(situation, need=need), _drop))


def _drop(turn: TurnView, reason: Reason) -> Move:
    return Drop(turn.id, reason)
