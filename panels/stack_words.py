"""The VRAM stack in words, for those who do not see it. Pure."""

from engine.geometry import KVDtype
from engine.publish import other_dtype
from engine.snapshot import Bands
from engine.words import counted
from panels.scale import Scale
from panels.stack_traces import FORCED

NOTHING = "VRAM stack: the engine has published no memory figures yet."


def sentence(bands: Bands, scale: Scale, dtype: KVDtype, *, runs: bool = True) -> str:
    """What the stack shows at this instant, in the unit of the chart. `runs`: False for what a stopped engine left."""
    now, turns = scale.stack(bands), bands.turns

    def size(nbytes: float) -> str:
        return scale.size(nbytes, bands)

    room = f"{size(now.headroom)} headroom" if now.headroom >= 0 else f"{size(-now.headroom)} over the ceiling"
    parts = [
        f"Weights {size(now.weights)}",
        f"runtime {size(now.runtime)}",
        f"running KV {size(now.running)} ({counted(turns.running, 'turn')})",
        f"paused KV {size(now.paused)} ({counted(turns.paused, 'turn')})",
        f"tool-blocked KV {size(now.blocked)} ({counted(turns.blocked, 'turn')})",
    ]
    if now.other is not None:
        parts.append(f"other on the device {size(now.other)}")
    return (
        f"VRAM stack {'now' if runs else 'as the engine left it'}: "
        f"{size(now.used)} of the {size(now.ceiling)} ceiling, {room}. {', '.join(parts)}; "
        f"{FORCED} {size(now.forced)} ({counted(turns.forced, 'turn')}). The same turns at {other_dtype(dtype)}: "
        f"{size(now.other_precision)} in all. Figures: {scale.label}."
    )
