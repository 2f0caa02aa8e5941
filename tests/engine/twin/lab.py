"""Small modelled cards for tests."""

from engine.backends.twin.backend import Modelled, TwinBackend
from engine.backends.twin.times import CardTimes
from engine.geometry import BlockLayout, KVDtype, KVGeometry
from engine.virtual_clock import VirtualClock

GEOMETRY = KVGeometry(2, 2, 8)
TIMES = CardTimes(0.010, 0.001, 1e-9, ((100, 0.1),), 1e6, 2e6)


def small_backend(
    arena_tokens: int = 1024,
    host_tokens: int = 1024,
    kv_dtype: KVDtype = KVDtype.FP16,
    overlap: bool = False,
    times: CardTimes = TIMES,
) -> TwinBackend:
    """Sizes in tokens at `kv_dtype`."""
    size = BlockLayout(GEOMETRY, kv_dtype).nbytes
    card = Modelled(GEOMETRY, 4096, 1000, 100, arena_tokens // 16 * size, times)
    return TwinBackend(card, VirtualClock(), host_tokens // 16 * size, kv_dtype, overlap)
