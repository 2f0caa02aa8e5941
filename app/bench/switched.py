"""Recording on and off on one running engine: the recorder's copies, queues, transactions and disk, behind a switch.

Two processes would differ by more than recording costs; one engine whose recorder is switched differs by nothing else.
"""

import tempfile
import time
from pathlib import Path
from types import TracebackType

from app.bench.spans import Reading
from app.bench.steady import AGENTS, steady_load
from engine.body import BodyConfig
from engine.events import Event, Interval
from engine.host import Host, HostConfig
from engine.record.recorder import Recorder
from engine.record.schedule import FLUSH_JOB, Schedule
from engine.snapshot import Sample, Snapshot
from engine.stats import quantile
from engine.workload.swarm import Swarm


class Switch:
    """A Sink that passes on what it gets while `on`."""

    def __init__(self, recorder: Recorder) -> None:
        self.on = False
        self._recorder = recorder

    @property
    def behind(self) -> int:
        return self._recorder.behind

    def begin(self, session: str, snapshot: Snapshot) -> None:
        self._recorder.begin(session, snapshot)

    def event(self, event: Event) -> None:
        if self.on:
            self._recorder.event(event)

    def interval(self, interval: Interval) -> None:
        if self.on:
            self._recorder.interval(interval)

    def sample(self, sample: Sample) -> None:
        if self.on:
            self._recorder.sample(sample)


class Recorded:
    """An engine under the steady load in this process. Use as a context manager; `switch.on` from any thread."""

    def __init__(self, backend: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="parkdeck-bench-")
        self.recorder = Recorder(Path(self._folder.name) / "sessions.sqlite")
        self.switch = Switch(self.recorder)
        self._host = Host(HostConfig(body=BodyConfig(backend=backend)), sinks=[self.switch])
        self._swarm = Swarm(self._host, steady_load(), agents=AGENTS)
        self._schedule = Schedule()
        self._writing: list[float] = []

    def __enter__(self) -> "Recorded":
        self._host.start()
        self._schedule.each(FLUSH_JOB, self._flush)
        self._schedule.start()
        try:
            self._host.wait_ready()
        except BaseException:
            self._end()
            raise
        self._swarm.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end()

    def _end(self) -> None:
        self._swarm.stop()
        self._host.stop()
        self._schedule.stop()
        self.recorder.close()
        self._folder.cleanup()

    def read(self) -> Reading:
        snapshot = self._host.snapshot
        return Reading(snapshot.at, snapshot.counters.generated_tokens)

    def _flush(self) -> None:
        began = time.thread_time()
        if self.recorder.flush():
            self._writing.append(time.thread_time() - began)

    def writing_s(self) -> float | None:
        """CPU seconds of one second's writing, the median; None: nothing was written."""
        return quantile(self._writing, 0.5)

    def stored(self) -> int:
        """Rows in the database."""
        self.recorder.flush()
        return sum(self.recorder.unflushed("").last_row.values())
