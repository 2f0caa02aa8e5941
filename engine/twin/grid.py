"""A grid over two of a twin's values: the setup of each cell, and about how long all of them take. Pure.

An axis has a name of AXES and its values as the setup takes them: names, counts, bytes, bytes per second.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast, get_args

from engine.cards.fields import FIELDS, finite
from engine.cards.profile import UNITS, CardProfile, Figure
from engine.errors import BadField, Refused
from engine.knobs import LABELS as KNOB_LABELS
from engine.twin.setup import TwinSetup
from engine.twin_body import TwinConfig

AxisName = Literal["kv_dtype", "policy", "max_running", "agents", "host_pool_bytes", "link", "card"]
Value = str | int | float
AXES: tuple[AxisName, ...] = get_args(AxisName)
LABELS: Mapping[AxisName, str] = {
    "kv_dtype": KNOB_LABELS["kv_dtype"],
    "policy": KNOB_LABELS["policy"],
    "max_running": KNOB_LABELS["max_running"],
    "agents": "Agents",
    "host_pool_bytes": KNOB_LABELS["host_pool_bytes"],
    "link": "Bandwidth",
    "card": "Card",
}
TYPED: Mapping[AxisName, str] = {"max_running": "", "agents": "", "host_pool_bytes": "GB", "link": "GB/s"}
"""The axes whose values are numbers, with the unit that they are typed in; those of the others are names."""
KNOBS = frozenset({"kv_dtype", "policy", "max_running", "host_pool_bytes"})
WHOLE_RANGES: Mapping[AxisName, tuple[int, int]] = {"max_running": (1, 64), "agents": (1, 256)}
BYTE_RANGE = (0.0, 2.0**44)
MOST_VALUES = 8
MOST_CELLS = 64
BY_GRID = "set in a grid"
S_PER_STEP = 3.4e-4
"""Real seconds for a modelled step until cells have been timed; most steps are leapt over."""
START_S = 1.0
"""Of a process that runs cells."""


@dataclass(frozen=True, slots=True)
class Axis:
    """Raises BadField for a name that is none of AXES, for no values, too many, and one that is there twice."""

    name: AxisName
    values: tuple[Value, ...]

    def __post_init__(self) -> None:
        if self.name not in AXES:
            raise BadField(str(self.name), f"there is no axis {self.name!r}; choose one of {', '.join(AXES)}")
        label = LABELS[self.name]
        if not 1 <= len(self.values) <= MOST_VALUES:
            raise BadField(self.name, f"{label} has {len(self.values)} values; give 1 to {MOST_VALUES}")
        if len(set(self.values)) < len(self.values):
            raise BadField(self.name, f"{label} has a value twice; give each once")


@dataclass(frozen=True, slots=True)
class Cell:
    """`setup` None: it cannot be run, and `problem` says why."""

    down: Value
    across: Value
    setup: TwinSetup | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Grid:
    """`cells` row by row: a row for each value of `down`. `base`: what is the same in all of them."""

    base: TwinSetup
    across: Axis
    down: Axis
    cells: tuple[Cell, ...]

    def cell(self, row: int, column: int) -> Cell:
        return self.cells[self.index(row, column)]

    def index(self, row: int, column: int) -> int:
        return row * len(self.across.values) + column


def grid_of(base: TwinSetup, across: Axis, down: Axis, cards: Mapping[str, CardProfile]) -> Grid:
    """`cards`: those that an axis may name, by id. A cell that cannot be run is a sentence, not the end of the grid.
    Raises BadField for one axis twice and for too many cells."""
    if across.name == down.name:
        raise BadField(down.name, f"both axes are {LABELS[down.name]}; choose two different ones")
    count = len(across.values) * len(down.values)
    if count > MOST_CELLS:
        raise BadField(down.name, f"{count} cells are too many; give values for at most {MOST_CELLS}")
    cells = tuple(_cell(base, {down.name: y, across.name: x}, x, y, cards) for y in down.values for x in across.values)
    return Grid(base, across, down, cells)


def parsed(name: AxisName, text: str) -> tuple[Value, ...]:
    """'2, 4, 8' as the values of an axis of numbers, each once. Raises BadField, one sentence."""
    words = text.replace(",", " ").replace(";", " ").split()
    unit = TYPED[name]
    label = LABELS[name]
    if not words:
        raise BadField(name, f"{label} has no value; give numbers with commas between them, such as 2, 4, 8")
    return tuple(dict.fromkeys(_number(name, word, label, unit) for word in words))


def steps_of(setup: TwinSetup) -> float:
    """About how many steps the run takes: what its cost goes by."""
    busy = max(1, min(setup.first_knobs().max_running, setup.agent_count))
    if setup.hours is not None:
        return setup.hours * 3600.0 / setup.card.decode_step_s(busy, 0.0)
    agents = setup.workload.agents
    scripts = (agents[place % len(agents)] for place in range(setup.agent_count))
    return sum(one.output for script in scripts for turn in script.turns for one in turn.rounds) / busy


def forecast_s(setups: Sequence[TwinSetup], workers: int, s_per_step: float = S_PER_STEP) -> float:
    """Real seconds for all of them on so many processes."""
    return START_S + s_per_step * sum(map(steps_of, setups)) / max(1, min(workers, len(setups)))


def _cell(
    base: TwinSetup, values: Mapping[AxisName, Value], across: Value, down: Value, cards: Mapping[str, CardProfile]
) -> Cell:
    try:
        setup = base
        # The card first: a bandwidth is set on it.
        for name in sorted(values, key=lambda one: one != "card"):
            setup = _with(setup, name, values[name], cards)
    except Refused as refusal:
        return Cell(down, across, None, str(refusal))
    return Cell(down, across, setup)


def _with(setup: TwinSetup, name: AxisName, value: Value, cards: Mapping[str, CardProfile]) -> TwinSetup:
    if name in KNOBS:
        return replace(setup, knobs=tuple({**setup.changes, name: value}.items()))
    if name == "agents":
        return replace(setup, agents=cast(int, value))
    if name == "link":
        figure = Figure(float(value) / UNITS["GB/s"], "GB/s", "assumed", BY_GRID)
        return replace(setup, card=replace(setup.card, link_out=figure, link_back=figure))
    if value not in cards:
        raise Refused(f"there is no card {value!r} any more; choose another")
    card = cards[str(value)]
    if setup.twin.preset is not None:
        card.preset(setup.twin.preset)
    return replace(setup, card=card, twin=TwinConfig(setup.twin.preset, setup.twin.overlap))


def _number(name: AxisName, word: str, label: str, unit: str) -> Value:
    try:
        number = finite(float(word)) if "_" not in word else None
    except ValueError:
        number = None
    if number is None:
        raise BadField(name, f"{label} {word[:40]!r} is not a number; give numbers with commas between them")
    if name in WHOLE_RANGES:
        low, high = WHOLE_RANGES[name]
        if not (low <= number <= high and number.is_integer()):
            raise BadField(name, f"{label} {word} is out of range; give whole numbers from {low} to {high}")
        return int(number)
    base = number * UNITS[unit]
    least, most = BYTE_RANGE if name == "host_pool_bytes" else (FIELDS["link_out"].low, FIELDS["link_out"].high)
    if not least <= base <= most:
        span = f"{least / UNITS[unit]:,.10g} to {most / UNITS[unit]:,.0f}"
        raise BadField(name, f"{label} {word} {unit} is out of range; give {span}")
    return round(base) if name == "host_pool_bytes" else base
