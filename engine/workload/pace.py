"""How fast a workload is played on the engine at hand, so that speed 1 blocks as large a part of the time everywhere.

The shipped workloads are drawn for a stand-in that decodes at 15 tok/s in each of 8 slots and prefills 500 tok/s. The
engine's time for their average turn is then 760 / 500 + 258 / (8 x 15) = 3.7 s; on another engine it is found from its
measured costs, and tool and think times are stretched by the ratio. They never get shorter than on the card.
"""

from engine.costs import Costs
from engine.workload.generate import STANDIN_TOKENS_PER_S

STANDIN_PREFILL_PER_S = 500.0
SLOTS = 8
TURN_PREFILL_TOKENS = 760
TURN_DECODE_TOKENS = 258
SLOWEST = 0.02


def pace_for(costs: Costs | None, scale: float) -> float:
    """Factor on the speed of a workload of `scale` (see `Workload`): 1 on the stand-in, less on a slower engine, at
    most `scale`, where waits are the card's own. 1 while nothing is measured."""
    if costs is None or costs.prefill_tokens_per_s <= 0:
        return 1.0
    step = costs.decode_base_s + SLOTS * costs.decode_per_turn_s
    here = TURN_PREFILL_TOKENS / costs.prefill_tokens_per_s + TURN_DECODE_TOKENS * step / SLOTS
    standin = TURN_PREFILL_TOKENS / STANDIN_PREFILL_PER_S + TURN_DECODE_TOKENS / (SLOTS * STANDIN_TOKENS_PER_S)
    if here <= 0:
        return 1.0
    return min(max(standin / here, SLOWEST), max(scale, 1.0))
