"""What a move costs: measured at the start (engine/calibration), updated by the host from what really ran."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Costs:
    """Rates of this body. `decode_base_s` + turns x `decode_per_turn_s` is one decode step's time in seconds."""

    swap_out_bytes_per_s: float
    swap_in_bytes_per_s: float
    prefill_tokens_per_s: float
    decode_base_s: float
    decode_per_turn_s: float

    def round_trip_s(self, nbytes: int) -> float:
        """Seconds to copy `nbytes` out and back."""
        return nbytes / self.swap_out_bytes_per_s + nbytes / self.swap_in_bytes_per_s

    def recompute_s(self, tokens: int) -> float:
        """Seconds to prefill `tokens` again."""
        return tokens / self.prefill_tokens_per_s
