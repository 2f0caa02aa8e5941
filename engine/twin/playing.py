"""One setup played by a driver on a body, and what it came to: on the twin, or on an engine it is held against."""

import math
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from engine.body import Body
from engine.clock import EngineClock
from engine.control import Sink
from engine.leap import Leaper
from engine.serving import PUBLISH_EVERY_S, Serving, Session
from engine.snapshot import Snapshot
from engine.turn import Priority
from engine.twin.driver import Desk, Driver
from engine.twin.setup import TwinSetup, TwinSummary
from engine.twin.whole import WholeStats
from engine.workload.player import Player

AUTHOR = "twin"
HOUR_S = 3600.0


class Playing:
    """Use once, on one thread. `name`: what the session is called beside its time; `published` hears each snapshot;
    `files`: what prompts are cut from, None: the standard library."""

    def __init__(
        self,
        setup: TwinSetup,
        body: Body,
        clock: EngineClock,
        name: str,
        sinks: tuple[Sink, ...] = (),
        published: Callable[[Snapshot], None] = lambda snapshot: None,
        publish_every_s: float = PUBLISH_EVERY_S,
        files: tuple[Path, ...] | None = None,
    ) -> None:
        self._setup = setup
        self._clock = clock
        self._heard = published
        self._latest: Snapshot | None = None
        self._began = clock.now()
        self._ended_at: float | None = None
        self._leapt = 0
        self._busy_s = self._seen_s = 0.0
        self._session = f"{datetime.fromtimestamp(clock.utc(self._began), UTC):%Y%m%dT%H%M%S}Z-{name}"
        session = Session(
            name=self._session,
            knobs=setup.first_knobs(),
            average_turn_tokens=round(setup.card.mean_context.amount),
            seed=setup.seed,
            author=AUTHOR,
            numbers=count(1),
            publish_every_s=publish_every_s,
        )
        self.serving = Serving(session, body, clock, sinks, self._published)
        self._stats = self.serving.core.stats = WholeStats(self._began)
        desk = Desk(self.serving, clock, self._snapshot)
        self._player = Player(desk, setup.workload, speed=setup.speed, seed=setup.seed, files=files, status_every_s=1.0)

    def run(self, wait_until: Callable[[float], None], leaper: Leaper | None = None) -> None:
        """As `Driver` has it. Raises Refused when agents wait for what never comes."""
        setup, began = self._setup, self._began
        self.serving.begin()
        if setup.hours is None:
            self._player.play_once(setup.agent_count, began)
        else:
            self._player.set_agents(setup.agent_count, began)
        driver = Driver(self.serving, self._clock, self._player, wait_until, leaper)
        driver.run(math.inf if setup.hours is None else began + setup.hours * HOUR_S)
        self._ended_at = self._clock.now()
        self._leapt = driver.leapt
        self._player.publish(self._ended_at)
        self.serving.end("the time of the run is over")

    def done(self, snapshot: Snapshot) -> float:
        """The share of the run that is over."""
        if self._setup.hours is not None:
            return (snapshot.at - self._began) / (self._setup.hours * HOUR_S)
        agents = self._setup.workload.agents
        turns = sum(len(agents[place % len(agents)].turns) for place in range(self._setup.agent_count))
        return snapshot.counters.finished / turns

    def summary(self, title: str, peak_kv_bytes: int, wall_s: float) -> TwinSummary:
        core, stats, status = self.serving.core, self._stats, self._player.status
        counters = core.counters
        ran = (self._clock.now() if self._ended_at is None else self._ended_at) - self._began
        foreground = (Priority.FOREGROUND,)
        return TwinSummary(
            session=self._session,
            title=title,
            virtual_s=ran,
            makespan_s=ran if self._setup.hours is None else None,
            turns=counters.turns,
            finished=counters.finished,
            failed=counters.failed,
            refused=status.refused,
            ttft_p50_s=stats.ttft_quantile(0.5),
            ttft_p95_s=stats.ttft_quantile(0.95),
            ttft_foreground_p50_s=stats.ttft_quantile(0.5, foreground),
            ttft_foreground_p95_s=stats.ttft_quantile(0.95, foreground),
            ttft_foreground_p99_s=stats.ttft_quantile(0.99, foreground),
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
            busy_slots=self._busy_s / self._seen_s if self._seen_s else None,
            peak_kv_bytes=peak_kv_bytes,
            steps=core.step,
            leapt=self._leapt,
            wall_s=wall_s,
        )

    def _snapshot(self) -> Snapshot:
        assert self._latest is not None
        return self._latest

    def _published(self, snapshot: Snapshot) -> None:
        before = self._latest
        if before is not None and before.bands is not None:
            self._busy_s += before.bands.turns.running * (snapshot.at - before.at)
            self._seen_s += snapshot.at - before.at
        self._latest = snapshot
        self._heard(snapshot)
