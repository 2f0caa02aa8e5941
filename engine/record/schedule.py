"""Work that is done each second beside the engine: flushing the recorder, sampling the hardware.

APScheduler plans by the wall clock. Set back by an hour it would leave a job waiting for an hour; so this scheduler
looks up every second and, when the wall clock fell behind the monotonic one, makes its jobs due at once.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.memory import MemoryJobStore
from apscheduler.schedulers.background import BackgroundScheduler

from engine.record.recorder import Recorder

FLUSH_JOB = "recorder-flush"
HARDWARE_JOB = "hardware-sample"
EACH_S = 1.0
JUMP_S = 2.0


class SteadyScheduler(BackgroundScheduler):
    """A BackgroundScheduler that a wall clock set back does not stop. `wall`: epoch seconds."""

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        super().__init__(
            jobstores={"default": MemoryJobStore()},
            executors={"default": ThreadPoolExecutor(2)},
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
            timezone=UTC,
            daemon=True,
        )
        self._wall = wall
        self._offset = wall() - time.monotonic()

    def _process_jobs(self) -> float | None:
        offset = self._wall() - time.monotonic()
        if offset < self._offset - JUMP_S:
            now = datetime.fromtimestamp(self._wall(), UTC)
            for job in self.get_jobs():
                if job.next_run_time is not None:
                    job.modify(next_run_time=now)
        self._offset = offset
        wait: float | None = super()._process_jobs()
        return None if wait is None else min(wait, EACH_S)


class Schedule:
    """Starts and stops the work; jobs live in memory and are known by their id."""

    def __init__(self, scheduler: BackgroundScheduler | None = None) -> None:
        self._scheduler = scheduler or SteadyScheduler()

    def each(self, job: str, work: Callable[[], object], seconds: float = EACH_S) -> None:
        """Do `work` every `seconds`, never twice at once; a job of the same id is replaced."""
        self._scheduler.add_job(work, "interval", seconds=seconds, id=job, replace_existing=True)

    @property
    def jobs(self) -> tuple[str, ...]:
        return tuple(job.id for job in self._scheduler.get_jobs())

    def start(self) -> None:
        self._scheduler.start()

    def stop(self) -> None:
        """Waits for work that is under way; nothing happens if it does not run."""
        if self._scheduler.running:
            self._scheduler.shutdown(wait=True)


def start_schedule(recorder: Recorder, sample_hardware: Callable[[], object] | None = None) -> Schedule:
    """A running schedule that flushes the recorder and samples the hardware each second. Whoever stops it closes the
    recorder afterwards."""
    schedule = Schedule()
    schedule.each(FLUSH_JOB, recorder.flush)
    if sample_hardware is not None:
        schedule.each(HARDWARE_JOB, sample_hardware)
    schedule.start()
    return schedule
