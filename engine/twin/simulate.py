"""The twin as one function: a setup in, a summary out, the same for the same setup."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count

from engine.backends.base import Backend
from engine.body import Body
from engine.calibration.quick import measure_costs
from engine.cards.profile import CardProfile
from engine.control import Sink
from engine.costs import Costs
from engine.serving import Serving, Session
from engine.snapshot import Snapshot
from engine.turn import Priority
from engine.twin.driver import Desk, Driver
from engine.twin.leap import Leaper
from engine.twin.setup import TwinSetup, TwinSummary
from engine.twin.whole import WholeStats
from engine.twin_body import TwinConfig, chosen_preset, modelled_model, twin_backend
from engine.virtual_clock import VirtualClock
from engine.workload.player import Player

AUTHOR = "twin"
HOUR_S = 3600.0
SAMPLE_EVERY_S = 1.0
"""Modelled: an hour of samples as a live engine takes them would cost as much as the hour itself."""


@dataclass(frozen=True, slots=True)
class TwinProgress:
    """`virtual_s` have been modelled; `fraction` from 0 to 1, never falling."""

    virtual_s: float
    fraction: float


OnProgress = Callable[[TwinProgress], None]


def simulate(setup: TwinSetup, on_progress: OnProgress | None = None, sinks: Sequence[Sink] = ()) -> TwinSummary:
    """Run it as fast as it goes, on this thread. `on_progress` is told once for each modelled second, about, and may
    raise to call it off; `sinks` get what those of a host get. Raises Refused for a setup that the card cannot run."""
    began = time.perf_counter()
    clock = VirtualClock(epoch=setup.began_utc)
    backend = twin_backend(setup.card, setup.twin, clock, setup.first_knobs().kv_dtype, setup.host_bytes)
    model = modelled_model(setup.card, backend)
    body = Body(backend, model, setup.costs or modelled_costs(setup.card, setup.twin), None, clock)
    run = _Run(setup, body, clock, tuple(sinks), on_progress)
    try:
        run.play(Leaper(run.serving.core, run.serving.loop, backend) if setup.leap else None)
        return run.summary(backend.peak_kv_bytes, time.perf_counter() - began)
    finally:
        backend.shutdown()


def modelled_costs(card: CardProfile, config: TwinConfig) -> Costs:
    """What an engine on this card would measure at its start."""
    backend: Backend = twin_backend(card, config, VirtualClock())
    return measure_costs(backend)


def title_of(card: CardProfile, config: TwinConfig) -> str:
    return f"Modelled: {card.name}, {card.model}, preset {chosen_preset(card, config.preset).name}"


class _Run:
    """One run under way."""

    def __init__(
        self,
        setup: TwinSetup,
        body: Body,
        clock: VirtualClock,
        sinks: tuple[Sink, ...],
        on_progress: OnProgress | None,
    ) -> None:
        self._setup = setup
        self._clock = clock
        self._on_progress = on_progress
        self._fraction = 0.0
        self._latest: Snapshot | None = None
        self._ended_at: float | None = None
        self._leapt = 0
        began = datetime.fromtimestamp(setup.began_utc, UTC)
        self._session = f"{began:%Y%m%dT%H%M%S}Z-modelled-{setup.card.id}-{setup.seed}"
        session = Session(
            name=self._session,
            knobs=setup.first_knobs(),
            average_turn_tokens=round(setup.card.mean_context.amount),
            seed=setup.seed,
            author=AUTHOR,
            numbers=count(1),
            publish_every_s=SAMPLE_EVERY_S,
        )
        self.serving = Serving(session, body, clock, sinks, self._published)
        self.stats = self.serving.core.stats = WholeStats(clock.now())
        desk = Desk(self.serving, clock, self._snapshot)
        self.player = Player(desk, setup.workload, speed=setup.speed, seed=setup.seed)

    def play(self, leaper: Leaper | None) -> None:
        setup, now = self._setup, self._clock.now()
        self.serving.begin()
        if setup.hours is None:
            self.player.play_once(setup.agent_count, now)
        else:
            self.player.set_agents(setup.agent_count, now)
        driver = Driver(self.serving, self._clock, self.player, self._clock.advance_to, leaper)
        driver.run(math.inf if setup.hours is None else setup.hours * HOUR_S)
        self._ended_at = self._clock.now() if setup.hours is None else None
        self._leapt = driver.leapt
        self.serving.end("the modelled time is over")

    def _snapshot(self) -> Snapshot:
        assert self._latest is not None
        return self._latest

    def _published(self, snapshot: Snapshot) -> None:
        self._latest = snapshot
        if self._on_progress is None:
            return
        self._fraction = max(self._fraction, min(self._done(snapshot), 1.0))
        self._on_progress(TwinProgress(snapshot.at, self._fraction))

    def _done(self, snapshot: Snapshot) -> float:
        if self._setup.hours is not None:
            return snapshot.at / (self._setup.hours * HOUR_S)
        agents = self._setup.workload.agents
        turns = sum(len(agents[place % len(agents)].turns) for place in range(self._setup.agent_count))
        return snapshot.counters.finished / turns

    def summary(self, peak_kv_bytes: int, wall_s: float) -> TwinSummary:
        core, stats, status = self.serving.core, self.stats, self.player.status
        counters, ran = core.counters, self._clock.now()
        foreground = (Priority.FOREGROUND,)
        return TwinSummary(
            session=self._session,
            title=title_of(self._setup.card, self._setup.twin),
            virtual_s=ran,
            makespan_s=self._ended_at,
            turns=counters.turns,
            finished=counters.finished,
            failed=counters.failed,
            refused=status.refused,
            ttft_p50_s=stats.ttft_quantile(0.5),
            ttft_p95_s=stats.ttft_quantile(0.95),
            ttft_foreground_p50_s=stats.ttft_quantile(0.5, foreground),
            ttft_foreground_p95_s=stats.ttft_quantile(0.95, foreground),
            itl_p50_s=stats.itl_quantile(0.5),
            itl_p99_s=stats.itl_quantile(0.99),
            prompt_tokens=counters.prompt_tokens,
            generated_tokens=counters.generated_tokens,
            tokens_per_s=counters.generated_tokens / ran if ran else 0.0,
            preemptions=counters.preemptions,
            swaps_out=counters.swaps_out,
            swaps_in=counters.swaps_in,
            swapped_bytes=counters.swap_out_bytes + counters.swap_in_bytes,
            drops=counters.drops,
            recomputed_tokens=counters.recomputed_tokens,
            stalls=counters.stalls,
            blocked_fraction=status.blocked_fraction,
            peak_kv_bytes=peak_kv_bytes,
            steps=core.step,
            leapt=self._leapt,
            wall_s=wall_s,
        )
