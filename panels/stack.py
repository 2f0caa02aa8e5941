"""The VRAM stack: over time and now, against the ceiling. `figure` is pure; `render` puts it on a page.

Bands are sums over the block table (Bands). `forced` is what had to leave, hatched above what is there; the dashed line
is the same turns at the other KV precision; dotted lines are knob changes. stack_traces.py has the marks,
stack_figures.py the figures in and beside the bar of now, stack_layout.py what stands around them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.events import Event
from engine.geometry import KVDtype
from engine.publish import other_dtype
from engine.snapshot import Bands, Sample, Snapshot
from engine.thinning import thinned
from panels import chart, components
from panels.marks import Trace
from panels.palette import ThemeName, palette
from panels.scale import Scale
from panels.stack_figures import beside_the_bar, in_the_bar
from panels.stack_layout import axis_title, layout, marks, narrow
from panels.stack_traces import areas, ceiling, now_bar, other_precision
from panels.stack_words import NOTHING, sentence

if TYPE_CHECKING:
    import plotly.graph_objects as go

MAX_POINTS = 400


@dataclass(frozen=True, slots=True)
class StackData:
    """What the chart is drawn from. `utc`: the right edge; `samples` oldest first; `window_s`: how far back; `runs`:
    whether the engine does, so that what is shown is now."""

    samples: Sequence[Sample]
    events: Sequence[Event]
    bands: Bands | None
    kv_dtype: KVDtype
    utc: float
    scale: Scale
    window_s: float = 300.0
    session: str = ""
    runs: bool = True


def stack_data(
    snapshot: Snapshot, samples: Sequence[Sample], events: Sequence[Event], scale: Scale, window_s: float
) -> StackData:
    return StackData(
        samples, events, snapshot.bands, snapshot.knobs.kv_dtype, snapshot.utc, scale, window_s,
        snapshot.session, snapshot.state.serving,
    )  # fmt: skip


def figure(data: StackData, theme: ThemeName = "dark") -> "go.Figure":
    """The stack over time with a bar of now beside it, in GiB or MiB."""
    import plotly.graph_objects as go

    return go.Figure(spec(data, theme))


def spec(data: StackData, theme: ThemeName) -> dict[str, Any]:
    """The figure as plain JSON: what a page sends each second, thirty times cheaper than by way of Figure objects."""
    colours = palette(theme)
    unit = data.scale.unit(data.bands)
    if data.bands is None:
        return {"data": [], "layout": layout(None, unit, data.scale, colours), "alt": NOTHING, "table": chart.table(())}
    # The right edge is the reading of the bar beside it: samples taken since belong to the next refresh.
    samples = thinned([s for s in data.samples if data.utc - data.window_s <= s.utc < data.utc], MAX_POINTS)
    now = data.scale.stack(data.bands)
    stacks = [*(data.scale.stack(sample.bands) for sample in samples), now]
    others = [other_dtype(dtype) for dtype in (*(sample.kv_dtype for sample in samples), data.kv_dtype)]
    times = [*(sample.utc for sample in samples), data.utc]
    x = np.asarray(times, dtype=np.float64) * 1000.0
    traces = areas(x, stacks, unit, colours)
    traces += other_precision(x, stacks, others, unit, colours)
    traces.append(ceiling(x, now, unit, colours))
    table = _table(traces, now.ceiling / unit, axis_title(unit, data.scale))
    traces += now_bar(now, unit, colours)
    changes = marks(data.events, times[0], times[-1], colours)
    figures = [*in_the_bar(now, unit, colours), *beside_the_bar(now, unit, colours)]
    labels = [*changes["annotations"], *figures]
    around = layout(now, unit, data.scale, colours) | {"shapes": changes["shapes"], "annotations": labels}
    alt = sentence(data.bands, data.scale, data.kv_dtype, runs=data.runs)
    return {"data": traces, "layout": around, "narrow": narrow(data.scale, colours), "alt": alt, "table": table}


def render(data: StackData, theme: ThemeName, *, key: str = "vram_stack") -> None:
    modelled = data.scale.modelled
    heading = f"VRAM stack over time and now{', modelled' if modelled else ''}"
    source = f"session {data.session}{f', {data.scale.label}' if modelled else ''}"
    files = chart.files("live", "stack", data.session, heading, source)
    components.live_plot(spec(data, theme) | files, key=key)


def _table(over_time: Sequence[Trace], ceiling_at: float, unit: str) -> dict[str, Any]:
    """A row for each instant; the bar of now is the last. A trace without a name is the ground of dashes."""
    named = [(index, trace["name"]) for index, trace in enumerate(over_time[:-1]) if "name" in trace]
    head = ["time (UTC)", *(f"{name} ({unit})" for _, name in named), f"ceiling ({unit})"]
    columns = [chart.part(0, "x"), *(chart.part(index, "y") for index, _ in named), chart.same(ceiling_at)]
    return chart.table(head, columns, times=True)
