"""TraceLab's CSV and round trace, from small samples of our own in its formats."""

import os
from pathlib import Path

import pytest

from engine.errors import Refused
from engine.workload.readers import load_workload
from engine.workload.script import Round

SAMPLES = Path(__file__).resolve().parents[2] / "data" / "workloads"
CSV = (SAMPLES / "sessions.csv").read_text()
TRACE = (SAMPLES / "rounds.jsonl").read_text()


def test_csv() -> None:
    workload = load_workload(SAMPLES / "sessions.csv")
    seven, eight = workload.agents
    assert (seven.name, seven.arrival_ms, eight.name, eight.arrival_ms) == ("7", 0.0, "8", 600.0)
    assert seven.turns[0].rounds == (Round(420, 60, "tool", 350.0), Round(35, 80, "tool", 12.5), Round(20, 30))
    assert workload.agents_nominal == 2


def test_round_trace() -> None:
    one, two = load_workload(SAMPLES / "rounds.jsonl").agents
    first, second = one.turns
    assert first.rounds == (Round(500, 40, "Fetch", 1500.0), Round(60, 25))
    assert second.rounds == (Round(640, 1),)
    assert second.think_ms == pytest.approx(10_000)
    assert two.turns[0].rounds == (Round(50, 9),)


def test_long_contexts_are_cut_with_a_note() -> None:
    workload = load_workload(SAMPLES / "sessions.csv", max_context=512)
    assert all(turn.peak_tokens <= 512 for agent in workload.agents for turn in agent.turns)
    assert workload.notes[0].startswith("2 of 2 turns were longer than the context of 512 tokens")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (CSV.replace("output_len", "out"), "line 1: column output_len is missing"),
        (CSV.replace("480,35,80", "480,-35,80"), "line 4: input_len '-35'"),
        (CSV.replace("480,35,80", "480,3.5,80"), "line 4: input_len"),
        (CSV.replace("480,35,80", "480,99999999999,80"), "line 4: input_len"),
        (CSV.replace("12.5", "nan"), "line 4: tool_wait_after_ms 'nan'"),
        (CSV.replace("12.5", "inf"), "line 4: tool_wait_after_ms"),
        (CSV.replace("12.5", "12,5"), "line 4: 8 cells"),
        (CSV.replace("12.5", "12\r.5"), "line 4: not CSV"),
        (CSV.replace("12.5", "1" * 200_000), "line 4: not CSV"),
        (CSV.replace("\n", "\r"), "line 1: not CSV"),
        (CSV.replace("12.5", ""), "line 4: tool_wait_after_ms ''"),
        (CSV.replace("7,1000,2", "7,1000,1"), "line 5: round 1 of session '7' was given on line 4"),
        (CSV.replace("8,1600,0,0,900", "8,1600,0,0,0"), "line 3: the first round"),
        (CSV.replace("8,1600", " ,1600"), "line 3: session_id"),
        (CSV.splitlines()[0] + "\n", "no rounds"),
        (CSV.replace("350", "35é0").encode("latin-1"), "line 2: not UTF-8"),
        ("", "empty"),
        (TRACE.replace('"output_tokens": 25', '"output_tokens": NaN'), "line 2: NaN"),
        (TRACE.replace('"output_tokens": 25', '"output_tokens": -1'), "line 2: output_tokens -1"),
        (TRACE.replace('"output_tokens": 25', '"output_token": 25'), "line 2: output_tokens None"),
        (TRACE.replace('"tool_wall_latency_ms": 90', '"tool_wall_latency_ms": -90'), "line 1: tool_wall_latency_ms"),
        (TRACE.replace("10:00:05.500Z", "5 past 10"), "line 2: timestamp"),
        (TRACE.replace('"round_index": 2', '"round_index": 1'), "line 3: round 1"),
        (TRACE + "{broken", "line 5: broken JSON at column"),
        (TRACE.replace("s:two", r"\ud800"), "line 4: .*stands alone"),
        (TRACE.replace('"session_id": "s:two"', '"session_id": null'), "line 4: session_id"),
    ],
)
def test_refused_with_file_and_line(tmp_path: Path, content: str | bytes, words: str) -> None:
    path = tmp_path / "bad.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(Refused, match=words) as caught:
        load_workload(path)
    assert str(caught.value).startswith("bad.txt")


def test_missing_and_unreadable(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="there is no workload"):
        load_workload(tmp_path / "none.csv")
    with pytest.raises(Refused, match="cannot be read"):
        load_workload(tmp_path)
    with pytest.raises(Refused, match="cannot be read"):
        load_workload(tmp_path / ("long" * 100))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Refused, match="cannot be read"):
        load_workload(tmp_path / "pipe")
