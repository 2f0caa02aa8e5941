"""The costs that the governor starts with: the few measurements that a start has the time for."""

from engine.backends.base import Backend
from engine.calibration.probes import GROWTH, CopyProbe, DecodeProbe, FactsProbe, PrefillProbe
from engine.costs import Costs
from engine.turn import AVERAGE_TURN_TOKENS

CHUNK = 256
BATCH = 4
COPY_BYTES = 8 << 20


def measure_costs(backend: Backend) -> Costs:
    """On an idle backend, which is left as it was. Raises Refused while a turn is open."""
    facts = FactsProbe().run(backend)
    copied = CopyProbe(facts.memory.block_bytes, COPY_BYTES).run(backend)
    prefilled = PrefillProbe(max(1, min(CHUNK, facts.room_each(1))), tries=2).run(backend)
    batch = max(1, min(BATCH, facts.memory.blocks_total))
    # What a decode step costs beside a swarm, not on empty contexts.
    context = max(1, min(AVERAGE_TURN_TOKENS, facts.room_each(batch) - GROWTH))
    one = DecodeProbe(1, context).run(backend).seconds
    many = DecodeProbe(batch, context).run(backend).seconds if batch > 1 else one
    slope = max(0.0, (many - one) / (batch - 1)) if batch > 1 else 0.0
    return Costs(
        swap_out_bytes_per_s=copied.out_bytes_per_s,
        swap_in_bytes_per_s=copied.back_bytes_per_s,
        prefill_tokens_per_s=prefilled.tokens_per_s,
        decode_base_s=max(one - slope, 0.0),
        decode_per_turn_s=slope,
    )
