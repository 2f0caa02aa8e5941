"""The workload file: round trip, complaints with file and line, cutting to a context."""

from pathlib import Path

import pytest

from engine.errors import Refused
from engine.turn import Priority
from engine.workload.format import dump_workload, read_workload
from engine.workload.readers import load_workload, shipped
from engine.workload.script import AgentScript, Round, ScriptedTurn, Workload, fit

HEADER = '{"parkdeck_workload": 1, "name": "w"}\n'
AGENT = '{"agent": "a", "turns": [{"rounds": [[10, 5, "bash", 20], [3, 5, null, 0]]}]}\n'


def written(tmp_path: Path, content: str | bytes, name: str = "w.jsonl") -> Path:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_round_trip(tmp_path: Path) -> None:
    turn = ScriptedTurn((Round(10, 5, "bäsh", 20), Round(3, 5)), 7.5)
    workload = Workload("w", (AgentScript("ü", Priority.FOREGROUND, (turn,), 3),), "title", 4, 2.5, 9)
    assert read_workload(written(tmp_path, dump_workload(workload))) == workload


def test_defaults_and_byte_order_mark(tmp_path: Path) -> None:
    workload = read_workload(written(tmp_path, b"\xef\xbb\xbf" + (HEADER + "\n" + AGENT).encode()))
    assert workload.agents[0].priority is Priority.BACKGROUND
    assert workload.agents[0].turns[0].peak_tokens == 23


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "empty"),
        ("\n \n", "empty"),
        (AGENT, "line 1"),
        (HEADER, "no agents"),
        ('{"parkdeck_workload": 2}\n' + AGENT, "newer"),
        ('{"parkdeck_workload": 0}\n' + AGENT, "line 1: there is no format 0"),
        ('{"parkdeck_workload": -5}\n' + AGENT, "line 1: there is no format -5"),
        (HEADER.replace('"w"', r'"\ud800"') + AGENT, "line 1: .*stands alone"),
        (HEADER + AGENT.replace('"a"', r'"\uDFFF"'), "line 2: .*stands alone"),
        (HEADER + AGENT.replace("20", "9" * 400), "line 2: wait_ms"),
        (HEADER + AGENT.replace('"agent"', '"arrival_ms": ' + "9" * 400 + ', "agent"'), "line 2: arrival_ms"),
        (HEADER + AGENT.replace('"rounds"', '"think_ms": ' + "9" * 400 + ', "rounds"'), "line 2: think_ms"),
        (HEADER + "{", "line 2: broken JSON"),
        (HEADER + "[1]", "line 2: expected a JSON object"),
        (HEADER + AGENT.replace("20", "NaN"), "line 2: NaN"),
        (HEADER + AGENT.replace("20", "1e999"), "line 2: wait_ms"),
        (HEADER + AGENT.replace("20", "-1"), "line 2: wait_ms"),
        (HEADER + AGENT.replace("[10,", "[-10,"), "line 2: appended"),
        (HEADER + AGENT.replace("[10,", "[0,"), "prompt needs"),
        (HEADER + AGENT.replace("[10, 5,", "[10, 5.5,"), "line 2: output"),
        (HEADER + AGENT.replace("[10, 5,", "[true, 5,"), "line 2: appended"),
        (HEADER + AGENT.replace("[10, 5,", "[" + "9" * 5000 + ", 5,"), "line 2: broken JSON"),
        (HEADER + AGENT.replace('"bash"', "null"), "has no tool"),
        (HEADER + AGENT.replace("null", '"bash"'), "must have no tool"),
        (HEADER + AGENT.replace("[3, 5, null, 0]", "[3, 5]"), "line 2: round"),
        (HEADER + AGENT.replace('"agent"', '"agnet"'), "agnet"),
        (HEADER + AGENT + AGENT, "twice"),
        (HEADER.encode() + b'\n{"agent": "\xff"}', "line 3: not UTF-8"),
    ],
)
def test_refused(tmp_path: Path, content: str | bytes, words: str) -> None:
    with pytest.raises(Refused, match=words) as caught:
        read_workload(written(tmp_path, content))
    assert "w.jsonl" in str(caught.value) or "workload 'w'" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_whole_character_in_two_escapes_is_taken(tmp_path: Path) -> None:
    assert read_workload(written(tmp_path, HEADER + AGENT.replace('"a"', r'"\ud83d\ude00"'))).agents[0].name == "😀"


def test_unknown_name_lists_the_shipped() -> None:
    with pytest.raises(Refused, match="swarm"):
        load_workload("no-such-workload")


def test_fit_cuts_the_prompt_then_rounds() -> None:
    turn = ScriptedTurn((Round(900, 50, "bash", 1), Round(40, 50, "bash", 1), Round(40, 50)))
    workload = Workload("w", (AgentScript("a", Priority.BACKGROUND, (turn, ScriptedTurn((Round(5, 5),)))),))
    assert fit(workload, 2000) is workload
    cut = fit(workload, 1000)
    assert [one.appended for one in cut.agents[0].turns[0].rounds] == [770, 40, 40]
    assert cut.agents[0].turns[0].peak_tokens == 1000
    assert cut.notes == (
        "1 of 2 turns were longer than the context of 1,000 tokens; their prompts were cut and 0 rounds left out.",
    )
    short = fit(workload, 200)
    rounds = short.agents[0].turns[0].rounds
    assert [one.appended for one in rounds] == [100]
    assert rounds[-1].tool is None
    assert short.agents[0].turns[0].peak_tokens <= 200
    with pytest.raises(Refused):
        fit(workload, 1)


@pytest.mark.parametrize("limit", [2, 3, 17, 500, 2048])
def test_every_shipped_turn_fits_any_context(limit: int) -> None:
    for name in shipped():
        for agent in load_workload(name, limit).agents:
            assert all(2 <= turn.peak_tokens <= limit for turn in agent.turns)
