"""The VRAM stack in words, for those who do not see it. Pure."""

from engine.geometry import KVDtype
from engine.publish import other_dtype
from engine.snapshot import Bands
from engine.words import counted
from panels.scale import Scale

NOTHING = "VRAM stack: the engine has published no memory figures yet."


def sentence(bands: Bands, turns: int, scale: Scale, dtype: KVDtype, *, runs: bool = True) -> str:
    """What the stack shows at this instant, in the unit of the chart. `turns`: all that live; `runs`: False for what a
    stopped engine left."""
    now, of = scale.stack(bands), bands.turns

    def size(nbytes: float) -> str:
        return scale.size(nbytes, bands)

    room = f"{size(now.headroom)} headroom" if now.headroom >= 0 else f"{size(-now.headroom)} over the ceiling"
    parts = [
        f"Weights {size(now.weights)}",
        f"runtime {size(now.runtime)}",
        f"running KV {size(now.running)} ({counted(of.running, 'turn')})",
        f"paused KV {size(now.paused)} ({counted(of.paused, 'turn')})",
        f"tool-blocked KV {size(now.blocked)} ({counted(of.blocked, 'turn')})",
    ]
    if now.other is not None:
        parts.append(f"other on the device {size(now.other)}")
    return (
        f"VRAM stack {'now' if runs else 'as the engine left it'}, {counted(turns, 'turn')}: "
        f"{size(now.used)} of the {size(now.ceiling)} ceiling, {room}. {', '.join(parts)}; "
        f"forced swap or recompute {size(now.forced)} ({counted(of.forced, 'turn')}). "
        f"The same turns at {other_dtype(dtype)}: {size(now.other_precision)} in all. Figures: {scale.label}."
    )
