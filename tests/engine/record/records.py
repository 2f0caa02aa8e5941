"""Records as the host would hand them over, with values that tests can tell apart."""

import dataclasses

from engine.events import Event, EventKind, Interval
from engine.geometry import KVDtype
from engine.knobs import Knobs
from engine.snapshot import Bands, BandTurns, CardScale, Counters, HostState, Rates, Sample, Snapshot
from engine.turn import Phase, Priority, Tier, TurnId

START = 1_767_225_600.0
GIB = 1 << 30
CARD = CardScale("RX 9070 XT", 50.0, 5_583_457_485, 858_993_459, 16_642_998_272)


def snapshot(session: str = "s1", card: CardScale | None = CARD) -> Snapshot:
    return Snapshot(session, HostState.RUNNING, 10.0, START, 0, "SmolLM2", "torch", Knobs(), ("walk-down",), card=card)


def interval(number: int = 0, **changes: object) -> Interval:
    made = Interval(
        start_utc=START + number,
        end_utc=START + number + 0.25,
        agent="coder-01",
        turn=TurnId(number),
        priority=Priority.BACKGROUND,
        phase=Phase.DECODE,
        tier=Tier.RESIDENT,
        tool=None,
        context_tokens=768,
        kv_bytes=GIB,
        kv_bytes_card_scale=50 * GIB,
        kv_dtype=KVDtype.FP16,
        policy="walk-down",
        queued_ms=12.5,
    )
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


def event(number: int = 0, **changes: object) -> Event:
    made = Event(
        at=10.0 + number,
        utc=START + number,
        step=number,
        kind=EventKind.KNOB,
        author="page",
        text="high_watermark 1.0 -> 0.8",
        name="high_watermark",
        old="1.0",
        new="0.8",
    )
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


def sample(number: int = 0, other: int | None = None, running_kv: int = GIB) -> Sample:
    return Sample(
        at=10.0 + number,
        utc=START + number,
        step=number,
        bands=Bands(100, 20, running_kv, 300, 50, 7, other, 2 * GIB, 600, BandTurns(8, 2, 1, 3)),
        kv_dtype=KVDtype.FP16,
        host_used_bytes=5,
        host_total_bytes=GIB,
        running=8,
        waiting=1,
        paused=2,
        blocked=3,
        counters=Counters(turns=number),
        rates=Rates(decode_tokens_per_s=99.5, blocked_fraction=None, itl_p50=float("nan")),
    )
