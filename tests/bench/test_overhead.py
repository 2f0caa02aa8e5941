"""From spans to rows, targets and the exit status; the load, the switch and the environment of the app."""

import dataclasses
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from app.bench.overhead import BROWSER, NONE, OFF, ON, ONE, THREE, Looked, check, report
from app.bench.page_client import Seen
from app.bench.report import MET, MISSED, Bench
from app.bench.served import _environment
from app.bench.spans import Span
from app.bench.steady import AGENTS, PROMPT_TOKENS, TURN_TOKENS, steady_load
from app.bench.switched import Switch
from engine.errors import Refused
from engine.events import Event, EventKind
from engine.record.recorder import Recorder
from engine.workload.format import dump_workload, read_workload

SEEN = Seen(asked=20, finished=20, messages=500, nbytes=600_000, charts=10, points=200, fragments=2)


def span(kind: str, speed: float) -> Span:
    return Span(kind, 5.0, round(5 * speed))


def looked(kind: str, speed: float, clients: int = 0, browser: float | None = None) -> Looked:
    return Looked(span(kind, speed), 5.0, 1.8, 0.1, browser, (SEEN,) * clients)


def pages(one: float, three: float) -> list[Looked]:
    base = looked(NONE, 200)
    return [base, looked(ONE, one, 1), base, looked(THREE, three, 3), base]


def reported(one: float, three: float, on: float, watched: Sequence[Looked] = ()) -> Bench:
    bench = Bench("overhead")
    report(bench, pages(one, three), watched, [span(OFF, 200), span(ON, on), span(OFF, 200)])
    return bench


@pytest.mark.parametrize(
    ("one", "three", "on", "status"),
    [(190, 180, 199, MET), (180, 180, 199, MISSED), (190, 160, 199, MISSED), (190, 180, 190, MISSED)],
)
def test_a_target_missed_is_status_1(one: float, three: float, on: float, status: int) -> None:
    assert reported(one, three, on).status == status


def test_a_few_spans_cannot_tell_one_percent() -> None:
    bench = Bench("overhead", "quick")
    report(bench, pages(190, 180), (), [span(OFF, 200), span(ON, 150), span(OFF, 200)])
    assert bench.status == MET
    assert [target.name for target in bench.targets] == [f"{kind}: share of tok/s lost" for kind in (ONE, THREE)]
    assert any("no target at --quick" in note for note in bench.notes)


def test_rows_say_what_was_lost_and_what_was_read() -> None:
    rows = {row["span"]: row for row in reported(190, 180, 199).rows}
    assert list(rows) == [NONE, ONE, THREE, OFF, ON]
    assert rows[NONE]["cost"] is None
    assert str(rows[ONE]["cost"]).startswith("5.0%")
    assert (rows[ONE]["charts_per_s"], rows[ONE]["kB_per_s"], rows[ONE]["chart_points"]) == (2.0, 120.0, 200)


def test_the_browsers_cpu_is_a_row_of_its_own_and_no_target() -> None:
    watched = [looked(NONE, 200, browser=0.0), looked(BROWSER, 100, browser=0.9), looked(NONE, 200, browser=0.0)]
    bench = reported(190, 180, 199, watched)
    row = next(row for row in bench.rows if row["span"] == BROWSER)
    assert (row["browser_cpu"], row["server_cpu"]) == (0.9, 1.8)
    assert bench.status == MET


def test_a_client_far_behind_is_refused() -> None:
    check(SEEN, 5.0)
    with pytest.raises(Refused, match=r"10 charts of 200 points in 12\.0 s"):
        check(SEEN, 12.0)
    with pytest.raises(Refused, match="of 1 points"):
        check(dataclasses.replace(SEEN, points=1), 5.0)


def test_the_load_is_the_same_in_each_turns_length(tmp_path: Path) -> None:
    load = steady_load()
    assert len(load.agents) == AGENTS
    firsts = [agent.turns[0].rounds[0].output for agent in load.agents]
    assert [later - first for first, later in pairwise(firsts)] == [TURN_TOKENS // AGENTS] * 7
    assert {turn.peak_tokens for agent in load.agents for turn in agent.turns[1:]} == {PROMPT_TOKENS + TURN_TOKENS}
    path = tmp_path / "steady.jsonl"
    path.write_text(dump_workload(load), encoding="utf-8")
    assert read_workload(path).agents == load.agents


def test_the_switch_passes_on_only_while_it_is_on(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "sessions.sqlite")
    switch = Switch(recorder)
    event = Event(1.0, 1.0, 1, EventKind.SWARM, "bench", "text")
    switch.event(event)
    assert switch.behind == recorder.behind == 0
    switch.on = True
    switch.event(event)
    assert switch.behind == recorder.behind == 1


def test_the_callers_settings_do_not_change_the_load(tmp_path: Path) -> None:
    own = {"PARKDECK_AGENTS": "3", "PARKDECK_SWARM": "off", "PARKDECK_MODEL": "/m.gguf", "PATH": "/bin"}
    env = _environment(own, tmp_path, tmp_path / "load.jsonl", "torch")
    assert (env["PATH"], env["PARKDECK_MODEL"], env["PARKDECK_WORKLOAD"]) == (
        "/bin", "/m.gguf", str(tmp_path / "load.jsonl"),
    )  # fmt: skip
    assert not {"PARKDECK_AGENTS", "PARKDECK_SWARM"} & env.keys()
    assert env["PARKDECK_DATA_DIR"].startswith(str(tmp_path))
