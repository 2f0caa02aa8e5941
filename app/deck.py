"""The deck: one engine, swarm, tour, recorder and schedule for all tabs, started and stopped together."""

import logging
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from app.buttons import MeasuringButtons, SwarmButtons, TourButtons, TwinButtons, card_workload
from app.measuring import Measuring
from engine.clock import Forward
from engine.control import Control, TwinControl
from engine.errors import Refused
from engine.events import Event, Interval
from engine.host import Host, HostConfig
from engine.record.csv_export import csv_chunks
from engine.record.recorder import Recorder
from engine.record.schedule import Schedule, start_schedule
from engine.record.waits import stored_waits
from engine.snapshot import CardScale, Sample, Snapshot
from engine.telemetry.hardware import HardwareReader, HardwareSample
from engine.twin.grid_run import GridRunner
from engine.workload.readers import load_workload
from engine.workload.script import Workload
from engine.workload.status import SwarmStatus
from engine.workload.swarm import Swarm
from engine.workload.tour.tour import Tour
from panels.deck_view import TableName

ENGINE_STOPS_WITHIN_S = 2.0


@dataclass(frozen=True, slots=True)
class DeckConfig:
    """`workload`: a name from assets/workloads or a path, None: the real engine's or the twin's own; `agents` None: as
    many as the workload says; `swarm`: let it start with the engine; `engine`: start that with the deck, else it waits
    for the page's button and so does the swarm."""

    host: HostConfig = field(default_factory=HostConfig)
    workload: str | None = None
    agents: int | None = None
    speed: float = 1.0
    seed: int = 0
    swarm: bool = True
    engine: bool = True
    database: Path | None = None


class Deck:
    """A DeckView. `start` returns at once: the model loads in the engine's thread, and the agents wait for it. `stop`
    is safe to call twice and from any thread. Raises Refused for an unknown workload."""

    def __init__(self, config: DeckConfig | None = None) -> None:
        self._config = config or DeckConfig()
        self._recorder = Recorder(self._config.database)
        self._begun = _Begun()
        self._host = Host(self._config.host, sinks=[self._recorder, self._begun])
        self._swarm = Swarm(
            self._host,
            self._first_workload(),
            agents=self._config.agents,
            speed=self._config.speed,
            seed=self._config.seed,
            clock=Forward(lambda: self._host.now),
            real_s=self._host.real_s,
            note=self._note,
        )
        self._measuring = Measuring(self._host, self._swarm)
        tour = Tour(self._host, self._swarm)
        alone = threading.Lock()
        self._tour = TourButtons(tour, self._measuring, alone)
        self._calibration = MeasuringButtons(self._measuring, tour, alone)
        self._buttons = SwarmButtons(self._swarm, self._measuring, tour)
        chosen = self._config.workload is not None
        self._twin = TwinButtons(self._host, self._swarm, chosen=chosen, agents=self._config.agents)
        self._grids = GridRunner()
        self._comparisons = GridRunner()
        self._hardware = HardwareReader()
        self._schedule: Schedule | None = None
        self._lifecycle = threading.Lock()
        self._tabs = 0
        self._naming = threading.Lock()

    def start(self) -> None:
        with self._lifecycle:
            if self._schedule is not None:
                return
            # A sample that is skipped on a busy machine is no news.
            logging.getLogger("apscheduler").setLevel(logging.ERROR)
            if self._config.engine:
                self._host.start()
                if self._config.swarm:
                    self._swarm.start()
            # Beside the model's loading, which takes longer.
            threading.Thread(target=self._know_waits, name="parkdeck-waits", daemon=True).start()
            self._schedule = start_schedule(self._recorder, self._hardware.sample)

    def stop(self) -> None:
        with self._lifecycle:
            if self._schedule is None:
                return
            self._grids.close()
            self._comparisons.close()
            self._measuring.close()
            self._tour.end()
            self._swarm.stop()
            self._host.stop(ENGINE_STOPS_WITHIN_S)
            self._schedule.stop()
            self._recorder.close()
            self._hardware.close()
            self._schedule = None

    def _first_workload(self) -> Workload:
        body, named = self._config.host.body, self._config.workload
        if named is None and body.backend == "twin":
            return card_workload(body.card)
        return load_workload() if named is None else load_workload(named)

    def _know_waits(self) -> None:
        self._host.know_waits(stored_waits(self._recorder.path))

    def _note(self, text: str, author: str) -> None:
        self._host.note(text, author)

    @property
    def control(self) -> Control:
        return self._host

    @property
    def twin(self) -> TwinControl:
        return self._twin

    @property
    def host(self) -> Host:
        return self._host

    @property
    def swarm(self) -> SwarmButtons:
        return self._buttons

    @property
    def calibration(self) -> MeasuringButtons:
        return self._calibration

    @property
    def grids(self) -> GridRunner:
        return self._grids

    @property
    def comparisons(self) -> GridRunner:
        return self._comparisons

    @property
    def tour(self) -> TourButtons:
        return self._tour

    @property
    def status(self) -> SwarmStatus:
        """The swarm's own, with its counts."""
        return self._swarm.status

    @property
    def recorder(self) -> Recorder:
        return self._recorder

    def next_tab(self) -> str:
        with self._naming:
            self._tabs += 1
            return f"tab {self._tabs}"

    def hardware(self) -> HardwareSample | None:
        return self._hardware.latest

    def health(self) -> dict[str, object]:
        """How it goes, in few words; `at_s`: the engine's clock at that reading, seconds; `host_held_bytes`: of this
        process's memory what is the host pool's."""
        snapshot = self._host.snapshot
        return {
            "state": snapshot.state.value,
            "step": snapshot.step,
            "error": snapshot.error,
            "at_s": snapshot.at,
            "generated_tokens": snapshot.counters.generated_tokens,
            "live_turns": len(snapshot.turns),
            "host_held_bytes": (snapshot.memory.host_held_bytes or 0) if snapshot.memory else 0,
        }

    def last_card(self) -> CardScale | None:
        return self._begun.snapshot.card if self._begun.snapshot else None

    def recorded(self) -> str:
        return self._recorder.session

    def recording_problem(self) -> str | None:
        return self._recorder.problem

    def export(self, table: TableName) -> Iterator[bytes]:
        """The session's CSV in pieces. Raises Refused before the first when nothing is recorded yet."""
        if not self._recorder.session:
            raise Refused("nothing is recorded yet; wait until the engine runs")
        return csv_chunks(f"{table}.csv", self._recorder.session, recorder=self._recorder)


class _Begun:
    """A sink that keeps the first snapshot of the session that began last, and nothing else."""

    behind = 0

    def __init__(self) -> None:
        self.snapshot: Snapshot | None = None

    def begin(self, session: str, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    def event(self, event: Event) -> None:
        """Not kept."""

    def interval(self, interval: Interval) -> None:
        """Not kept."""

    def sample(self, sample: Sample) -> None:
        """Not kept."""
