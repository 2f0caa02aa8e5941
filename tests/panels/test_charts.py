"""What charts carry beside their drawing: words, tables of what is drawn, names of files, numbers sent once."""

import base64
import dataclasses
import json
from typing import Any

import numpy as np
import pytest

from engine.cards.store import load_card
from engine.geometry import KVDtype
from engine.paper.ceiling import load_of, plan
from engine.paper.prices import prices
from engine.snapshot import Bands, BandTurns
from panels import assets, chart, planner_chart, planner_reserve, prices_room, prices_scale, prices_session, stack
from panels.packing import lean, packed
from panels.prices_session import Session
from panels.scale import Scale, scale_for
from panels.stack_words import NOTHING, sentence
from tests.panels.fake_control import GIB, START_UTC, FakeControl

ARENA_LEFT = Bands(5 * GIB, GIB, 4 * GIB, GIB, GIB // 2, 2 * GIB, None, 9 * GIB, 3 * GIB, BandTurns(4, 1, 1, 2))


def stack_spec(at: float = 112.0) -> dict[str, Any]:
    control = FakeControl(at=at)
    snapshot = control.snapshot
    scale = scale_for(snapshot, "card scale")
    data = stack.stack_data(snapshot, control.samples(), control.events(), scale, 600.0)
    return stack.spec(data, "dark")


def specs() -> dict[str, dict[str, Any]]:
    card = load_card("rx9070xt")
    planned, listed = plan(card, card.preset("ceiling").layout, load_of(card)), prices(card, card.preset("swap"))
    return {
        "stack": stack_spec(),
        "planner": planner_chart.spec(planned, "dark"),
        "reserve": planner_reserve.spec(planned, "dark"),
        "time": prices_scale.spec(listed, "dark"),
        "room": prices_room.spec(listed, "dark"),
        "session": prices_session.spec(Session(listed, "card", None, None), "dark"),
    }


def test_the_stack_in_words_has_each_band_with_its_turns() -> None:
    assert sentence(ARENA_LEFT, Scale(None), KVDtype.FP16) == (
        "VRAM stack now: 11.5 GiB of the 15.0 GiB ceiling, 3.50 GiB headroom. "
        "Weights 5.00 GiB, runtime 1.00 GiB, running KV 4.00 GiB (4 turns), paused KV 1.00 GiB (1 turn), "
        "tool-blocked KV 0.50 GiB (1 turn); forced swap or recompute 2.00 GiB (2 turns). "
        "The same turns at q8: 9.00 GiB in all. Figures: this machine, measured."
    )


def test_the_words_say_what_a_stopped_engine_left_and_what_is_over() -> None:
    over = dataclasses.replace(ARENA_LEFT, arena=5 * GIB, other=GIB)
    told = sentence(over, Scale(None), KVDtype.Q8, runs=False)
    assert told.startswith("VRAM stack as the engine left it: 11.5 GiB of the 11.0 GiB ceiling, 0.50 GiB over")
    assert "other on the device 1.00 GiB; forced" in told
    assert "at fp16" in told


def test_without_figures_the_stack_says_so() -> None:
    data = stack.StackData((), (), None, KVDtype.FP16, START_UTC, Scale(None))
    spec = stack.spec(data, "dark")
    assert spec["alt"] == NOTHING
    assert spec["table"] == chart.table(())


@pytest.mark.parametrize("name", specs())
def test_a_table_is_made_of_parts_that_are_there(name: str) -> None:
    spec = json.loads(json.dumps(specs()[name], allow_nan=False))
    table = spec["table"]
    assert len(set(table["head"])) == len(table["head"])
    for block in table["blocks"]:
        assert len(block) == len(table["head"])
        lengths = set()
        for column in block:
            if "of" in column:
                trace, part = column["of"]
                values = spec["data"][trace][part]
                lengths.add(_length(values))
            elif "values" in column:
                lengths.add(len(column["values"]))
        assert len(lengths) <= 1
    assert spec["alt"]


def _length(values: Any) -> int:
    if isinstance(values, dict):
        return len(np.frombuffer(base64.b64decode(values["bdata"]), dtype=values["dtype"]))
    return len(values)


def test_the_stacks_table_has_each_line_once() -> None:
    spec = stack_spec()
    [block] = spec["table"]["blocks"]
    used = [column["of"][0] for column in block[1:] if "of" in column]
    over_time = [i for i, trace in enumerate(spec["data"]) if trace["type"] == "scatter" and "xaxis" not in trace]
    outlines = [i for i in over_time if "name" not in spec["data"][i]]
    assert len(outlines) == 2
    ceiling = next(i for i in over_time if spec["data"][i].get("name") == "ceiling")
    assert sorted([*used, *outlines, ceiling]) == over_time


def test_files_have_safe_names() -> None:
    named = chart.files("prices", "time", '=A1/../"x"\n, 9', "heading", "source")
    assert named["file"] == "parkdeck-prices-time--A1-..-x-9"
    assert len(chart.files("live", "stack", "x" * 500, "", "")["file"]) <= 80


def test_equal_numbers_are_sent_once() -> None:
    x, y = packed(np.asarray([1.0, 2.0])), packed(np.asarray([3.0, 4.0], dtype=np.float32))
    traces = [{"x": x, "y": y}, {"x": x, "y": y}, {"x": [1, 2], "y": x}]
    sent = lean({"data": traces, "layout": {}})["data"]
    assert sent == [
        {"x": x, "y": y},
        {"x": {"of": [0, "x"]}, "y": {"of": [0, "y"]}},
        {"x": [1, 2], "y": {"of": [0, "x"]}},
    ]
    assert traces[1] == {"x": x, "y": y}
    whole = stack_spec()
    assert len(json.dumps(lean(whole))) < 0.7 * len(json.dumps(whole))


def test_numbers_of_another_width_are_others() -> None:
    zeros = [packed(np.zeros(2)), packed(np.zeros(4, dtype=np.float32))]
    assert zeros[0]["bdata"] == zeros[1]["bdata"]
    assert lean({"data": [{"x": zeros[0], "y": zeros[1]}]})["data"] == [{"x": zeros[0], "y": zeros[1]}]


@pytest.mark.parametrize("name", assets.FILES)
def test_what_an_element_carries_is_the_address_of_what_it_runs(name: str) -> None:
    carried = assets.style(name) if name.endswith(".css") else assets.script(name)
    assert f"/assets/{assets.version()}/{name}" in carried
    assert len(carried) < 320
    assert len(assets.content(name)) > 300
    assert name.endswith(".css") or assets.content(name).count("export default") == 1
