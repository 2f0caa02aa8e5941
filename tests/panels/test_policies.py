"""The Policies page's pure parts: the chart of a comparison, and what is said of a policy.

pytest tests/panels/test_policies.py
"""

import csv
import io
import json
from dataclasses import replace

import pytest

from engine.cards.store import load_card
from engine.outcomes import outcomes
from engine.policies import policies
from engine.twin.cell import CellResult
from engine.twin.compare import Play, compared
from engine.twin.grid_run import GridState, Outcome
from engine.twin.simulate import simulate
from engine.workload.readers import load_workload
from panels.palette import ThemeName, palette
from panels.policies_ab import ended_words
from panels.policies_chart import METRICS, Comparison, sentence, spec
from panels.policies_rows import as_csv
from panels.policies_words import measured_words, of_what
from tests.engine.test_outcomes import at, policy_change
from tests.engine.twin.small import small_setup

GRID = compared(load_card("rx9070xt"), None, Play(load_workload("swarm"), 16), None)
SUMMARY = simulate(small_setup(arena_tokens=700))
COUNT = len(policies())


def came(makespan_s: float, **figures: object) -> Outcome:
    return Outcome(CellResult(replace(SUMMARY, makespan_s=makespan_s, **figures), ()))  # type: ignore[arg-type]


ALL = tuple(came(100.0 + place, ttft_foreground_p95_s=2.0 - place / 10) for place in range(COUNT))


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_a_bar_for_each_policy_and_figure_and_the_one_in_force_is_marked(theme: ThemeName) -> None:
    shown = Comparison(GRID, ALL, "recompute-only")
    drawn = spec(shown, theme)
    json.dumps(drawn, allow_nan=False)
    assert [len(trace["y"]) for trace in drawn["data"]] == [COUNT] * len(METRICS)
    names = drawn["layout"]["yaxis"]["ticktext"]
    place = list(policies()).index("recompute-only")
    assert [index for index, name in enumerate(names) if "in force" in name] == [place]
    for trace, metric in zip(drawn["data"], METRICS, strict=True):
        inks = trace["marker"]["color"]
        assert inks[place] == getattr(palette(theme), metric.meaning)
        assert len(set(inks)) == 2
    assert drawn["table"]["head"][2:6] == [f"{metric.title} ({metric.unit}), modelled" for metric in METRICS]


def test_what_is_not_there_is_not_nothing() -> None:
    outcomes_ = (ALL[0], Outcome(None, "it failed"), *[None] * (COUNT - 2))
    drawn = spec(Comparison(GRID, outcomes_), "dark")
    assert drawn["data"][0]["text"][:3] == ["100 s", "failed", "…"]
    assert drawn["table"]["blocks"][0][2]["values"] == [100.0, *[None] * (COUNT - 1)]
    assert sentence(Comparison(GRID, [None] * COUNT)) == "No policy is there yet."


def test_the_sentence_names_the_best_and_the_worst() -> None:
    first, *_, last = policies()
    assert sentence(Comparison(GRID, ALL)).startswith(f"Modelled. Makespan: the least is 100 s with {first}; the most")
    assert f"Foreground TTFT p95: the least is {2.0 - (COUNT - 1) / 10:.2f} s with {last}" in sentence(
        Comparison(GRID, ALL)
    )
    same = [came(50.0, ttft_foreground_p95_s=1.0)] * COUNT
    assert "Makespan: the least is 50.0 s with every policy that is there" in sentence(Comparison(GRID, same))
    none = [came(50.0, ttft_foreground_p95_s=None)] * COUNT
    assert "Foreground TTFT p95: n/a, as no agent among them is foreground." in sentence(Comparison(GRID, none))


def test_how_it_ended_is_said() -> None:
    done = GridState(1, GRID, ALL)
    assert ended_words(done).startswith(f"{COUNT} policies, ")
    assert ended_words(replace(done, running=True)) == ended_words(GridState()) == ""
    assert ended_words(replace(done, outcomes=(*ALL[1:], None))).startswith(f"Cancelled after {COUNT - 1} of {COUNT}")
    assert ended_words(replace(done, outcomes=(*ALL[1:], Outcome(None, "why")))).endswith("1 run failed.")


def test_what_all_are_compared_on() -> None:
    words = of_what(GRID)
    assert "RX 9070 XT" in words
    assert "workload swarm, 16 agents" in words
    assert "fp16, 8 slots" in words


def test_what_came_of_a_policy_in_words_and_as_csv() -> None:
    samples = [at(0.0, 0), at(10.0, 500), at(20.0, 900, swaps_out=1, swap_out_bytes=1 << 20, recomputed_tokens=64)]
    first, second = outcomes("b", [policy_change(10.0, "a", "b")], samples, 21.0)
    assert measured_words(None) == ("not in force in this session",)
    assert measured_words(replace(first, measured_s=0.0)) == ("in force 10.0 s", "nothing measured yet")
    assert measured_words(second) == (
        "in force 11.0 s · 40.0 tok/s", "TTFT p95 n/a", "1 swap, 1.00 MiB", "64 tok recomputed",
    )  # fmt: skip
    rows = list(csv.reader(io.StringIO(as_csv((first, second), "s-1", "measured").decode())))
    assert rows[:2] == [["session", "s-1"], ["figures", "measured"]]
    assert rows[3][:3] == ["policy", "in_force_s", "measured_s"]
    assert [row[0] for row in rows[4:]] == ["a", "b"]
