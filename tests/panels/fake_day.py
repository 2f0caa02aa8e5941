"""A day of the scripted engine at one sample a second, as the engine's store keeps it: q8 since noon, one peak."""

from dataclasses import replace

from engine.geometry import KVDtype
from engine.snapshot import Sample
from engine.thinning import SampleStore
from tests.panels.fake_control import START_UTC, FakeControl

DAY_S = 86_400
SWITCHED_AT = 43_210.0
PEAK_AT = 20_003


def day() -> tuple[Sample, ...]:
    shapes = FakeControl(at=200.0).samples()[40::7]
    store = SampleStore()
    for second in range(DAY_S):
        dtype = KVDtype.Q8 if second >= SWITCHED_AT else KVDtype.FP16
        shape = shapes[second // 60 % len(shapes)]
        bands = replace(shape.bands, forced=2 * shape.bands.arena) if second == PEAK_AT else shape.bands
        store.add(replace(shape, at=float(second), utc=START_UTC + second, kv_dtype=dtype, bands=bands))
    return store.samples
