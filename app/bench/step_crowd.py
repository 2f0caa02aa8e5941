"""Views of many live turns in all phases and tiers, drawn from a seed: what `decide()` is timed on."""

import math
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.costs import Costs
from engine.governor import decide
from engine.knobs import Knobs
from engine.turn import Phase, Priority, Tier, TurnId
from engine.view import MemoryView, TurnView, View
from engine.waits import KEPT, WaitBook, Waits

COSTS = Costs(5e9, 5e9, 1000.0, 0.02, 0.002)
NOW = 1000.0
BLOCK, BLOCK_BYTES = 16, 368_640


@dataclass(frozen=True, slots=True)
class Case:
    """`running`: turns with a slot; `free`: blocks that nobody holds."""

    name: str
    running: int = 8
    free: int = 50
    evicting: bool = False
    knobs: Mapping[str, object] = field(default_factory=dict)


CASES = (
    Case("room for all", free=200_000),
    Case("a full arena"),
    Case("a full arena, free slots", running=6),
    Case("far above the low watermark", evicting=True, knobs={"low_watermark": 0.5}),
    Case("64 slots, a full arena", running=64, knobs={"max_running": 64}),
)


def crowd(turns: int, case: Case, seed: int) -> View:
    """So many live turns: a third waits, a fifth is paused, the rest is blocked; of each some are in the host pool,
    some dropped, one in five is foreground."""
    rng = random.Random(seed)
    views = tuple(_turn(rng, i, i < case.running) for i in range(turns))
    held = sum(view.blocks for view in views)
    memory = MemoryView(BLOCK, BLOCK_BYTES, held + case.free, case.free, 1 << 32, 1 << 30, BLOCK_BYTES)
    return View(views, memory, case.evicting, waits(seed))


def waits(seed: int) -> Waits:
    """As much as is ever known of the tool: log-normal, p50 0.3 s, p90 13.6 s."""
    rng = random.Random(seed)
    book = WaitBook()
    book.seed(("bash", rng.lognormvariate(math.log(0.3), 2.976)) for _ in range(KEPT))
    return book.waits


def _turn(rng: random.Random, number: int, runs: bool) -> TurnView:
    tokens = rng.randint(100, 3_000)
    priority = rng.choices((Priority.BACKGROUND, Priority.FOREGROUND), (4, 1))[0]
    phases = (Phase.WAITING, Phase.PAUSED, Phase.BLOCKED)
    phase = Phase.DECODE if runs else rng.choices(phases, (3, 2, 5))[0]
    tier = Tier.RESIDENT if runs else rng.choices((Tier.RESIDENT, Tier.HOST, Tier.DROPPED), (5, 3, 2))[0]
    if phase is Phase.WAITING and rng.random() < 0.5:
        tier = Tier.NONE
    if not runs and phase is not Phase.BLOCKED and rng.random() < 0.8:
        # Else foreground that waits would take all slots at once, which no boundary after it does.
        priority = Priority.BACKGROUND
    kv_tokens = tokens - 1 if tier in (Tier.RESIDENT, Tier.HOST) else 0
    since = NOW - rng.uniform(0, 40)
    return TurnView(
        id=TurnId(number + 1),
        priority=priority,
        phase=phase,
        tier=tier,
        tokens=tokens,
        kv_tokens=kv_tokens,
        blocks=-(-kv_tokens // BLOCK) if tier is Tier.RESIDENT else 0,
        arrived_at=NOW - rng.uniform(50, 900),
        phase_since=since,
        queued_since=since,
        tier_since=NOW - rng.uniform(0, 60),
        resumed_at=NOW - rng.uniform(1, 100) if phase is Phase.PAUSED else None,
        held=phase is Phase.PAUSED and rng.random() < 0.3,
        tool="bash" if phase is Phase.BLOCKED else None,
    )


def decide_seconds(turns: int, case: Case, policy: str, views: int, repeats: int) -> list[float]:
    """Of each view the median of its repeats, so that what interrupts the machine is not counted."""
    knobs = Knobs(policy=policy).changed(case.knobs)
    found = []
    for seed in range(views):
        view = crowd(turns, case, seed)
        seen = []
        for _ in range(repeats):
            started = time.perf_counter()
            decide(view, knobs, COSTS, NOW)
            seen.append(time.perf_counter() - started)
        found.append(sorted(seen)[repeats // 2])
    return found
