"""What a modelled card takes for a step, a copy and a conversion, in seconds. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CardTimes:
    """One decode step: base + turns x per turn + KV bytes x per byte. `prefill`: (tokens of a chunk, seconds), at least
    one, ascending; a chunk between two points lies on the line between them. Rates in bytes per second."""

    decode_base_s: float
    decode_per_turn_s: float
    decode_per_kv_byte_s: float
    prefill: tuple[tuple[int, float], ...]
    out_bytes_per_s: float
    back_bytes_per_s: float

    def decode_s(self, turns: int, kv_bytes: float) -> float:
        """One step of `turns` turns that read `kv_bytes` of KV together; nothing without turns."""
        if not turns:
            return 0.0
        return self.decode_base_s + turns * self.decode_per_turn_s + kv_bytes * self.decode_per_kv_byte_s

    def prefill_s(self, chunk: int) -> float:
        """One chunk. Below the smallest point the first line goes on, to no less than the point's share; above the
        largest one the rate stays."""
        points = self.prefill
        last, longest = points[-1]
        if chunk >= last or len(points) == 1:
            return longest * chunk / last
        behind = next(i for i, (tokens, _) in enumerate(points) if chunk < tokens)
        (low, shorter), (high, longer) = points[max(behind - 1, 0)], points[max(behind, 1)]
        seconds = shorter + (chunk - low) * (longer - shorter) / (high - low)
        return seconds if behind else max(seconds, shorter * chunk / low)

    def out_s(self, nbytes: int) -> float:
        return nbytes / self.out_bytes_per_s

    def back_s(self, nbytes: int) -> float:
        return nbytes / self.back_bytes_per_s

    def convert_s(self, nbytes: int) -> float:
        """`nbytes` read and written in the arena, each as fast as a decode step reads KV."""
        return nbytes * self.decode_per_kv_byte_s
