"""The VRAM stack in words, for those who do not see it. Pure."""

from collections.abc import Sequence

from engine.geometry import KVDtype
from engine.publish import other_dtype
from engine.snapshot import Bands, TurnRow
from engine.turn import Phase, Tier
from engine.words import counted
from panels.scale import Scale

NOTHING = "VRAM stack: the engine has published no memory figures yet."


def sentence(bands: Bands, turns: Sequence[TurnRow], scale: Scale, dtype: KVDtype, *, runs: bool = True) -> str:
    """What the stack shows at this instant, in the unit of the chart. `runs`: False for what a stopped engine left."""
    now = scale.stack(bands)

    def size(nbytes: float) -> str:
        return scale.size(nbytes, bands)

    resident = [turn for turn in turns if turn.tier == Tier.RESIDENT]
    running = sum(turn.phase in (Phase.PREFILL, Phase.DECODE) for turn in resident)
    blocked = sum(turn.phase == Phase.BLOCKED for turn in resident)
    left = sum(turn.tier in (Tier.HOST, Tier.DROPPED) for turn in turns)
    room = f"{size(now.headroom)} headroom" if now.headroom >= 0 else f"{size(-now.headroom)} over the ceiling"
    parts = [
        f"Weights {size(now.weights)}",
        f"runtime {size(now.runtime)}",
        f"running KV {size(now.running)} ({counted(running, 'turn')})",
        f"paused or waiting KV {size(now.paused)} ({counted(len(resident) - running - blocked, 'turn')})",
        f"blocked KV {size(now.blocked)} ({counted(blocked, 'turn')})",
    ]
    if now.other is not None:
        parts.append(f"other on the device {size(now.other)}")
    return (
        f"VRAM stack {'now' if runs else 'as the engine left it'}, {counted(len(turns), 'turn')}: "
        f"{size(now.used)} of the {size(now.ceiling)} ceiling, {room}. {', '.join(parts)}; "
        f"forced to leave {size(now.forced)} ({counted(left, 'turn')}). The same turns at {other_dtype(dtype)}: "
        f"{size(now.other_precision)} in all. Figures: {scale.label}."
    )
