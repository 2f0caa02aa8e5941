"""A grid that runs: its cells on processes beside the server, results as they come, one grid at a time.

The state is an immutable object, replaced with each change; a page reads it, and a grid goes on whoever looks.
"""

import logging
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import Protocol

from engine.errors import ParkdeckError, Refused
from engine.twin.cell import CellProcess, CellResult, Tell
from engine.twin.grid import S_PER_STEP, Grid, forecast_s, steps_of
from engine.twin.setup import TwinSetup
from engine.words import counted

CLOSED_WITHIN_S = 2.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one cell: its result, or the `problem`, one sentence."""

    result: CellResult | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class GridState:
    """`number`: of the grid, from 1; 0 before the first. `outcomes`: by cell, None for one that is not there yet.
    `fraction`: of the whole, by what cells cost. `left_s`: real seconds that it may still take. `note`: how it ended,
    one sentence, empty while it runs."""

    number: int = 0
    grid: Grid | None = None
    outcomes: tuple[Outcome | None, ...] = ()
    running: bool = False
    author: str = ""
    fraction: float = 0.0
    left_s: float = 0.0
    note: str = ""

    @property
    def done(self) -> int:
        return sum(outcome is not None for outcome in self.outcomes)


class CellWorker(Protocol):
    """What runs cells, as CellProcess does."""

    def run(self, setup: TwinSetup, tell: Tell) -> CellResult: ...
    def stop(self) -> None: ...
    def close(self) -> None: ...


def spare_workers() -> int:
    """A core is left to engine and page."""
    return max(1, (os.cpu_count() or 1) - 1)


class GridRunner:
    """All its verbs return at once, from any thread."""

    def __init__(self, workers: int | None = None, open_worker: Callable[[], CellWorker] = CellProcess) -> None:
        self._workers = workers or spare_workers()
        self._open = open_worker
        self._lock = threading.Lock()
        self._state = GridState()
        self._run: _Run | None = None
        self._s_per_step = S_PER_STEP

    def state(self) -> GridState:
        run = self._run
        return self._state if run is None or not self._state.running else run.timed(self._state)

    def forecast_s(self, setups: Sequence[TwinSetup]) -> float:
        """Real seconds, by what the cells before have taken."""
        return forecast_s(setups, self._workers, self._s_per_step)

    def start(self, grid: Grid, author: str) -> str:
        """Raises Refused while a grid runs, and where none of its cells can be run."""
        with self._lock:
            if self._state.running:
                raise Refused(f"a grid runs already, started by {self._state.author}; wait for it or cancel it")
            able = [index for index, cell in enumerate(grid.cells) if cell.setup is not None]
            if not able:
                raise Refused(f"no cell of this grid can be run: {grid.cells[0].problem}")
            outcomes = tuple(None if cell.setup else Outcome(None, cell.problem) for cell in grid.cells)
            self._state = GridState(self._state.number + 1, grid, outcomes, True, author)
            workers = min(self._workers, len(able))
            self._run = run = _Run(grid, able, workers, self._s_per_step)
            for number in range(workers):
                threading.Thread(
                    target=self._work, args=(run,), name=f"parkdeck-grid-{number + 1}", daemon=True
                ).start()
        return f"Running {counted(len(able), 'cell')} on the twin."

    def cancel(self) -> str:
        run = self._run
        if run is None or not self._state.running:
            raise Refused("no grid runs; there is nothing to cancel")
        run.cancel()
        return "Cancelled; the cells that are there stay."

    def close(self) -> None:
        """Call off what runs, and wait a moment for its end."""
        run = self._run
        if run is not None:
            run.cancel()
            run.over.wait(CLOSED_WITHIN_S)

    def _work(self, run: "_Run") -> None:
        worker: CellWorker | None = None
        try:
            while (index := run.take()) is not None:
                outcome, worker = self._cell(run, index, worker)
                if outcome is not None:
                    self._came(run, index, outcome)
        finally:
            if worker is not None:
                run.forget(worker)
            self._left(run)

    def _cell(self, run: "_Run", index: int, worker: CellWorker | None) -> tuple[Outcome | None, CellWorker | None]:
        """One cell, and the worker for the next: None where this one is of no more use."""
        setup = run.grid.cells[index].setup
        assert setup is not None
        try:
            if worker is None:
                worker = run.opened(self._open())
            return Outcome(worker.run(setup, lambda share: run.tell(index, share))), worker
        except ParkdeckError as refusal:
            problem = str(refusal)
        except Exception as fault:
            log.exception("a cell failed")
            problem = f"the cell failed: {fault}"
        if worker is not None:
            run.forget(worker)
        return (None if run.cancelled.is_set() else Outcome(None, problem)), None

    def _came(self, run: "_Run", index: int, outcome: Outcome) -> None:
        with self._lock:
            if outcome.result is not None:
                self._s_per_step = run.measured(index, outcome.result.summary.wall_s)
            run.tell(index, 1.0)
            outcomes = list(self._state.outcomes)
            outcomes[index] = outcome
            self._state = replace(self._state, outcomes=tuple(outcomes))

    def _left(self, run: "_Run") -> None:
        with self._lock:
            run.working -= 1
            if run.working:
                return
            state = run.timed(self._state)
            took = monotonic() - run.began
            failed = sum(outcome is not None and outcome.result is None for outcome in state.outcomes)
            how = f"Cancelled after {state.done} of {counted(len(state.outcomes), 'cell')}"
            if not run.cancelled.is_set():
                how = f"{counted(len(state.outcomes), 'cell')} in {took:,.1f} s"
            note = f"{how}{f', {failed} of them failed' if failed else ''}."
            self._state = replace(state, running=False, left_s=0.0, note=note)
            run.over.set()


class _Run:
    """What the threads of one grid share."""

    def __init__(self, grid: Grid, able: Sequence[int], workers: int, s_per_step: float) -> None:
        self.grid = grid
        self.working = workers
        self.began = monotonic()
        self.cancelled = threading.Event()
        self.over = threading.Event()
        self._workers = workers
        self._s_per_step = s_per_step
        self._lock = threading.Lock()
        self._left = list(able)
        self._opened: list[CellWorker] = []
        self._cost = {index: steps_of(setup) for index in able if (setup := grid.cells[index].setup) is not None}
        self._share = dict.fromkeys(able, 0.0)
        self._spent_s = self._spent_steps = 0.0

    def take(self) -> int | None:
        with self._lock:
            return self._left.pop(0) if self._left and not self.cancelled.is_set() else None

    def tell(self, index: int, share: float) -> None:
        self._share[index] = share

    def measured(self, index: int, wall_s: float) -> float:
        """A cell has taken so long: real seconds for a step, over those that are done."""
        self._spent_s += wall_s
        self._spent_steps += self._cost[index]
        self._s_per_step = self._spent_s / max(1.0, self._spent_steps)
        return self._s_per_step

    def timed(self, state: GridState) -> GridState:
        whole = sum(self._cost.values())
        over = sum(self._cost[index] * share for index, share in list(self._share.items()))
        left_s = self._s_per_step * (whole - over) / self._workers
        return replace(state, fraction=min(1.0, over / whole) if whole else 1.0, left_s=left_s)

    def opened(self, worker: CellWorker) -> CellWorker:
        with self._lock:
            self._opened.append(worker)
        if self.cancelled.is_set():
            worker.stop()
        return worker

    def forget(self, worker: CellWorker) -> None:
        with self._lock:
            if worker in self._opened:
                self._opened.remove(worker)
        worker.close()

    def cancel(self) -> None:
        with self._lock:
            self.cancelled.set()
            for worker in self._opened:
                worker.stop()
