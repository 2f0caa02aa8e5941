"""`parkdeck twin`: its summary, its CSV files, and a mistake in one sentence.

pytest tests/app/test_twin.py
"""

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.cli import MAKE
from app.twin import knob_of
from engine.errors import BadKnob, Refused
from engine.geometry import KVDtype

SMALL = ("twin", "--agents", "12", "--hours", "0.05", "--seed", "3")


def ran(*args: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(MAKE, list(args))
    return done.exit_code, done.stdout, done.stderr


def test_a_summary_for_machines_and_the_files_of_a_session(tmp_path: Path) -> None:
    code, out, _ = ran(*SMALL, "--set", "policy=recompute-only", "--slots", "2", "--out", str(tmp_path), "--json")
    assert code == 0
    found = json.loads(out.splitlines()[-1])
    assert found["title"].startswith("Modelled: RX 9070 XT")
    assert "modelled" in found["session"]
    assert found["virtual_s"] >= 180
    assert found["files"] == [str(tmp_path / name) for name in ("timeline.csv", "samples.csv", "events.csv")]
    with (tmp_path / "samples.csv").open(encoding="utf-8", newline="") as file:
        samples = list(csv.DictReader(file))
    last = samples[-1]
    assert 100 < len(samples) < 400
    assert int(last["ceiling_bytes"]) == round(15.5 * 2**30)
    assert int(last["running_turns"]) <= 2
    assert int(last["preemptions_total"]) <= found["preemptions"]
    with (tmp_path / "timeline.csv").open(encoding="utf-8", newline="") as file:
        spans = list(csv.DictReader(file))
    assert {span["policy"] for span in spans} == {"recompute-only"}
    assert len({span["turn"] for span in spans}) == found["turns"]


def test_the_same_command_gives_the_same_figures() -> None:
    def figures() -> dict[str, object]:
        found = json.loads(ran(*SMALL, "--json")[1].splitlines()[-1])
        return {name: value for name, value in found.items() if name not in ("wall_s", "session")}

    assert figures() == figures()


def test_a_table_for_people_says_that_it_is_modelled() -> None:
    code, out, _ = ran("twin", "--agents", "2", "--overlap", "--speed", "5")
    assert code == 0
    assert out.startswith("Modelled: RX 9070 XT, 9B at Q4_K_M, preset ceiling\nsession ")
    for figure in ("makespan", "TTFT p50, p95", "ITL p50, p99", "preemptions", "swaps", "stalls", "peak KV"):
        assert figure in out


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("--card", "nowhere"), "there is no card 'nowhere'"),
        (("--preset", "nope"), "card rx9070xt has no preset 'nope'"),
        (("--preset", "qwen3.5-9b"), "keeps a fixed state of 49.1 MiB for each turn"),
        (("--workload", "nowhere"), "there is no workload 'nowhere'"),
        (("--agents", "900"), "900 is no number of agents"),
        (("--hours", "-1"), "-1 hours cannot be run"),
        (("--hours", "nan"), "nan hours cannot be run"),
        (("--speed", "0"), "speed 0 is outside"),
        (("--slots", "900"), "Slots 900 is not a whole number"),
        (("--set", "max_running"), "names no knob and value"),
        (("--set", "slots=3"), "there is no knob 'slots'"),
        (("--set", "max_running=many"), "Slots cannot be 'many'"),
        (("--set", "policy=nope"), "policy 'nope' is not known"),
        (("--set", "kv_dtype=fp32"), "choose fp16 or q8"),
        (("--set", "ttl.samples=1"), "Samples until tau is learnt of ttl 1 is outside 8 to 256"),
        (("--set", "ttl.samples=many"), "cannot be 'many'"),
        (("--set", "ttl.margin=1"), "there is no knob 'ttl.margin'"),
        (("--set", "host_pool_bytes=much"), "is no size"),
        (("--slots", "3", "--set", "max_running=3"), "say the same twice"),
    ],
)
def test_a_mistake_is_one_sentence(args: tuple[str, ...], sentence: str) -> None:
    code, out, err = ran("twin", *args)
    assert code == 2
    assert sentence in err
    assert len(err.strip().splitlines()) == 1
    assert out == ""


def test_knobs_as_they_are_typed() -> None:
    assert knob_of("host_pool_bytes=24GB") == ("host_pool_bytes", 24 * 10**9)
    assert knob_of("low_watermark=0.8") == ("low_watermark", 0.8)
    assert knob_of("kv_dtype=q8") == ("kv_dtype", KVDtype.Q8)
    assert knob_of("swap-on-block.margin=3") == ("swap-on-block.margin", 3.0)
    with pytest.raises(BadKnob):
        knob_of("changed=3")
    with pytest.raises(Refused):
        knob_of("=3")
