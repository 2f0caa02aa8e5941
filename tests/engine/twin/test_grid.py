"""A grid's axes, cells and forecast, the bounded timeline, and cells in a process of their own.

pytest tests/engine/twin/test_grid.py
"""

import threading
from collections.abc import Callable
from dataclasses import asdict

import pytest

from engine.cards.store import load_card
from engine.errors import BadField, Refused
from engine.geometry import KVDtype
from engine.twin.cell import CellProcess, CellResult, Tell
from engine.twin.grid import Axis, AxisName, Grid, forecast_s, grid_of, parsed, steps_of
from engine.twin.grid_run import GridRunner, GridState
from engine.twin.setup import TwinSetup
from engine.twin.simulate import SAMPLE_EVERY_S, simulate
from engine.twin.timeline import Timeline
from tests.engine.twin.small import small_setup

WAIT_S = 60.0
CARDS = {card: load_card(card) for card in ("rx9070xt", "rtx5090", "rtx5090-32b")}


def small_grid(across: Axis | None = None, down: Axis | None = None) -> Grid:
    down = down or Axis("kv_dtype", ("fp16", "q8"))
    return grid_of(small_setup(), across or Axis("max_running", (2, 4)), down, CARDS)


def wait_for(runner: GridRunner, so: Callable[[GridState], bool]) -> GridState:
    """Polls on a condition, bounded."""
    waiting = threading.Event()
    for _ in range(int(WAIT_S / 0.01)):
        if so(runner.state()):
            return runner.state()
        waiting.wait(0.01)
    raise AssertionError(runner.state())


def test_each_cell_has_its_two_values_and_the_base_else() -> None:
    grid = small_grid()
    base = small_setup()
    assert [(cell.down, cell.across) for cell in grid.cells] == [("fp16", 2), ("fp16", 4), ("q8", 2), ("q8", 4)]
    for cell in grid.cells:
        assert cell.setup is not None
        knobs = cell.setup.first_knobs()
        assert (knobs.kv_dtype, knobs.max_running) == (KVDtype(str(cell.down)), cell.across)
        assert (cell.setup.workload, cell.setup.card, cell.setup.seed) == (base.workload, base.card, base.seed)
    assert grid.cell(1, 0) is grid.cells[2]


def test_every_axis_changes_what_it_names() -> None:
    def only(name: AxisName, value: object) -> TwinSetup:
        other = Axis("kv_dtype", ("q8",)) if name != "kv_dtype" else Axis("agents", (3,))
        setup = small_grid(Axis(name, (value,)), other).cells[0].setup  # type: ignore[arg-type]
        assert setup is not None
        return setup

    assert only("policy", "recompute-only").first_knobs().policy == "recompute-only"
    assert only("agents", 5).agent_count == 5
    assert only("host_pool_bytes", 10**9).host_bytes == 10**9
    assert only("link", 2.5e10).card.link_out.amount == only("link", 2.5e10).card.link_back.amount == 2.5e10
    assert only("card", "rtx5090").card == CARDS["rtx5090"]


def test_a_bandwidth_is_set_on_the_card_of_its_cell() -> None:
    grid = small_grid(Axis("link", (1e10, 2e10)), Axis("card", ("rtx5090",)))
    assert [cell.setup and (cell.setup.card.id, cell.setup.card.link_out.amount) for cell in grid.cells] == [
        ("rtx5090", 1e10), ("rtx5090", 2e10)
    ]  # fmt: skip


def test_a_cell_that_cannot_be_is_a_sentence_and_the_others_stay() -> None:
    grid = small_grid(Axis("policy", ("walk-down", "no-such")), Axis("card", ("rtx5090", "rtx5090-32b", "gone")))
    good = [cell.setup is not None for cell in grid.cells]
    assert good == [True, False, False, False, False, False]
    assert "no-such" in grid.cells[1].problem
    assert "ceiling" in grid.cells[2].problem
    assert "no card 'gone'" in grid.cells[4].problem


@pytest.mark.parametrize(
    ("across", "down", "said"),
    [
        (("kv_dtype", ("q8",)), ("kv_dtype", ("fp16",)), "both axes are KV precision"),
        (("agents", ()), ("kv_dtype", ("fp16",)), "Agents has 0 values; give 1 to 8"),
        (("agents", tuple(range(1, 10))), ("kv_dtype", ("fp16",)), "Agents has 9 values"),
        (("agents", (2, 2)), ("kv_dtype", ("fp16",)), "Agents has a value twice"),
        (("speed", (2,)), ("kv_dtype", ("fp16",)), "there is no axis 'speed'"),
    ],
)
def test_bad_axes_are_refused_in_one_sentence(
    across: tuple[AxisName, tuple[int, ...]], down: tuple[AxisName, tuple[str, ...]], said: str
) -> None:
    with pytest.raises(BadField, match=said):
        small_grid(Axis(*across), Axis(*down))


def test_typed_values_are_numbers_in_their_unit_each_once() -> None:
    assert parsed("max_running", "2, 4; 8 4") == (2, 4, 8)
    assert parsed("host_pool_bytes", "0, 1.5") == (0, 1_500_000_000)
    assert parsed("link", "25") == (2.5e10,)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("max_running", "", "Slots has no value"),
        ("max_running", "4, eight", "Slots 'eight' is not a number"),
        ("max_running", "4, 0", "Slots 0 is out of range; give whole numbers from 1 to 64"),
        ("agents", "2.5", "Agents 2.5 is out of range; give whole numbers from 1 to 256"),
        ("agents", "nan", "Agents 'nan' is not a number"),
        ("link", "0", "Bandwidth 0 GB/s is out of range"),
        ("host_pool_bytes", "-1", "Host pool -1 GB is out of range"),
    ],
)
def test_what_cannot_be_typed_is_refused_in_one_sentence(name: AxisName, text: str, said: str) -> None:
    with pytest.raises(BadField, match=said):
        parsed(name, text)


def test_the_forecast_goes_by_the_steps() -> None:
    one, long = small_setup(), small_setup(hours=2.0)
    assert steps_of(long) == pytest.approx(2 * steps_of(small_setup(hours=1.0)))
    assert forecast_s([long, long], 1, 1.0) - forecast_s([long], 1, 1.0) == pytest.approx(steps_of(long))
    assert forecast_s([one, one], 2, 1.0) == pytest.approx(forecast_s([one], 1, 1.0))
    wide = small_grid(Axis("max_running", (1, 8))).cells
    assert wide[0].setup is not None
    assert wide[1].setup is not None
    assert steps_of(wide[0].setup) == pytest.approx(8 * steps_of(wide[1].setup))


def test_a_timeline_is_bounded_and_has_the_whole_run() -> None:
    every, few = Timeline(10**9), Timeline(20)
    summary = simulate(small_setup(hours=0.05), sinks=(every, few))
    assert len(every.points) > 150
    assert 10 <= len(few.points) <= 21
    assert set(few.points) <= set(every.points)
    assert (few.points[0], few.points[-1]) == (every.points[0], every.points[-1])
    assert few.points[-1].at == pytest.approx(summary.virtual_s, abs=SAMPLE_EVERY_S)
    assert max(point.running for point in every.points) > 0


def test_a_process_gives_what_simulate_gives_and_a_refusal_ends_it_not() -> None:
    process = CellProcess()
    try:
        setup = small_setup()
        told: list[float] = []
        result = process.run(setup, told.append)
        assert {**asdict(result.summary), "wall_s": 0} == {**asdict(simulate(setup)), "wall_s": 0}
        assert result.timeline[-1].at == pytest.approx(result.summary.virtual_s, abs=SAMPLE_EVERY_S)
        cell = small_grid(Axis("policy", ("walk-down",)), Axis("card", ("rtx5090",))).cells[0]
        assert cell.setup is not None
        assert process.run(cell.setup, told.append).summary.finished > 0
        process.stop()
        with pytest.raises(Refused, match="the cell's process ended with status"):
            process.run(setup, told.append)
    finally:
        process.close()


class Stepped:
    """A worker that runs a cell as far as it is let."""

    def __init__(self) -> None:
        self.go = threading.Semaphore(0)
        self.stopped = threading.Event()
        self.fails: set[int] = set()
        self.ran = 0
        self.closed = 0
        self.result = _result()

    def run(self, setup: TwinSetup, tell: Tell) -> CellResult:
        self.ran += 1
        tell(0.5)
        while not self.go.acquire(timeout=0.01):
            if self.stopped.is_set():
                raise Refused("its process ended")
        if self.ran in self.fails:
            raise RuntimeError("by nothing")
        return self.result

    def stop(self) -> None:
        self.stopped.set()

    def close(self) -> None:
        self.closed += 1


def _result() -> CellResult:
    timeline = Timeline()
    return CellResult(simulate(small_setup(), sinks=(timeline,)), timeline.points)


def test_results_come_one_by_one_and_a_failed_cell_is_a_sentence() -> None:
    worker = Stepped()
    worker.fails = {2}
    runner = GridRunner(1, lambda: worker)
    assert runner.state() == GridState()
    assert runner.start(small_grid(), "tab 1") == "Running 4 cells on the twin."
    with pytest.raises(Refused, match="a grid runs already, started by tab 1"):
        runner.start(small_grid(), "tab 2")
    state = wait_for(runner, lambda now: now.fraction > 0)
    assert state.running
    assert state.done == 0
    assert 0 < state.fraction < 0.5
    worker.go.release()
    wait_for(runner, lambda now: now.done == 1)
    for _ in range(3):
        worker.go.release()
    state = wait_for(runner, lambda now: not now.running)
    assert [outcome and outcome.problem for outcome in state.outcomes] == ["", "the cell failed: by nothing", "", ""]
    assert state.fraction == 1.0
    assert state.note.startswith("4 cells in ")
    assert state.note.endswith(", 1 of them failed.")
    assert worker.closed == 2


def test_a_cancelled_grid_keeps_what_is_there_and_another_may_start() -> None:
    workers: list[Stepped] = []

    def opened() -> Stepped:
        workers.append(Stepped())
        return workers[-1]

    runner = GridRunner(1, opened)
    with pytest.raises(Refused, match="no grid runs; there is nothing to cancel"):
        runner.cancel()
    runner.start(small_grid(), "tab 1")
    wait_for(runner, lambda now: bool(workers))
    workers[0].go.release()
    wait_for(runner, lambda now: now.done == 1)
    assert runner.cancel() == "Cancelled; the cells that are there stay."
    state = wait_for(runner, lambda now: not now.running)
    assert (state.done, state.note) == (1, "Cancelled after 1 of 4 cells.")
    assert workers[0].closed == 1
    runner.start(small_grid(), "tab 2")
    assert runner.state().number == 2
    runner.close()
    assert not runner.state().running


def test_a_grid_of_nothing_that_runs_is_refused() -> None:
    grid = small_grid(Axis("policy", ("no-such",)))
    with pytest.raises(Refused, match="no cell of this grid can be run: policy 'no-such' is not known"):
        GridRunner(1).start(grid, "tab 1")


def test_a_grid_runs_in_processes_as_it_does_here() -> None:
    runner = GridRunner(1)
    grid = small_grid()
    runner.start(grid, "tab 1")
    state = wait_for(runner, lambda now: not now.running)
    for cell, outcome in zip(grid.cells, state.outcomes, strict=True):
        assert cell.setup is not None
        assert outcome is not None
        assert outcome.result is not None
        assert {**asdict(outcome.result.summary), "wall_s": 0} == {**asdict(simulate(cell.setup)), "wall_s": 0}
