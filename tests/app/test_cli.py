"""The command line: help is quick, mistakes are one sentence and status 2, exports and benches do what they say."""

import csv
import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from app.bench import benches
from app.bench.report import Bench, Target, as_object, run_bench
from app.cli import MAKE
from app.settings import config_from
from app.terminal import line, screen, summary
from engine.errors import Refused
from engine.models.fetch import DEFAULT_FILE
from engine.record.recorder import Recorder
from engine.snapshot import HostState
from tests.browser.scenes import SCENES
from tests.panels.fake_control import FakeControl

ROOT = Path(__file__).resolve().parents[2]


def parkdeck(*args: str, env: Mapping[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "app.cli", *args]
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, **(env or {})}, capture_output=True, text=True, timeout=120
    )


def test_help_needs_nothing_heavy() -> None:
    check = (
        "import sys, app.cli; heavy = {'torch', 'numba', 'streamlit', 'plotly', 'transformers'} & set(sys.modules);"
        "print(sorted(heavy)); sys.exit(bool(heavy))"
    )
    found = subprocess.run([sys.executable, "-c", check], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert found.returncode == 0, found.stdout
    shown = parkdeck("--help")
    assert shown.returncode == 0
    for command in ("up", "swarm", "models", "export", "bench"):
        assert command in shown.stdout


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("bench", "nonsense"), "there is no bench 'nonsense'"),
        (("bench", "identity", "--quick", "--full"), "exclude each other"),
        (("bench", "identity", "--minutes", "3"), "takes no --minutes"),
        (("swarm", "--seconds", "-3"), "is not a time to run"),
        (("swarm", "--agents", "5", "--workload", "nowhere"), "there is no workload 'nowhere'"),
        (("swarm", "--kv-dtype", "int3"), "KV precision 'int3' is not known"),
        (("swarm", "--weight-dtype", "int3"), "weights cannot be kept as 'int3'"),
        (("up", "--ceiling", "much"), "is no size"),
        (("up", "--ceiling", "9" * 400), "larger than any memory"),
        (("up", "--workload", "nope"), "there is no workload 'nope'"),
        (("up", "--agents", "-3"), "-3 is no number of agents"),
        (("up", "--speed", "-1"), "speed -1 is outside 0.01 to 100"),
        (("up", "--policy", "nope"), "policy 'nope' is not known"),
        (("up", "--backend", "nope"), "there is no backend 'nope'"),
        (("twin", "--card", "nowhere"), "there is no card 'nowhere'"),
        (("up", "--port", "99999"), "--port 99999 is no port"),
        (("export", "--session", "none"), "PARKDECK_DATA_DIR"),
    ],
)
def test_a_mistake_is_one_sentence(args: tuple[str, ...], sentence: str, tmp_path: Path) -> None:
    done = parkdeck(*args, env={"PARKDECK_DATA_DIR": str(tmp_path)})
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_mistake_in_the_environment_of_streamlit_run_is_one_sentence() -> None:
    command = [sys.executable, "-m", "streamlit", "run", "app", "--server.port", "0"]
    env = {**os.environ, "PARKDECK_AGENTS": "many"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (2, "PARKDECK_AGENTS 'many' is not a number; give one such as 8\n")


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The command lines that `up` gives to Streamlit, in place of running it."""
    lines: list[list[str]] = []
    monkeypatch.setattr("streamlit.web.cli.main", lambda line, prog_name: lines.append(line))
    monkeypatch.setattr("signal.signal", lambda number, handler: None)
    return lines


def test_an_option_wins_over_its_variable(served: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARKDECK_SPEED", "4")
    assert CliRunner().invoke(MAKE, ["up", "--speed", "1"]).exit_code == 0
    assert config_from().speed == 1.0
    assert len(served) == 1


def test_a_port_that_is_taken_gives_way_to_the_next_free_one(served: list[list[str]]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert CliRunner().invoke(MAKE, ["up", "--port", str(port)]).exit_code == 0
    assert int(served[0][-1]) > port


def test_ctrl_c_while_a_command_still_imports_ends_quietly() -> None:
    process = subprocess.Popen(
        [sys.executable, "-X", "importtime", "-m", "app.cli", "up"], cwd=ROOT, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    for imported in process.stderr:
        if "engine.errors" in imported:
            break
    process.send_signal(2)
    rest = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert "Aborted" not in rest
    assert "Traceback" not in rest


def test_models_are_listed_with_their_whole_path(tmp_path: Path) -> None:
    kept = tmp_path / ("a-folder-with-a-long-name-" * 4) / DEFAULT_FILE
    kept.parent.mkdir()
    kept.touch()
    shown = parkdeck("models", env={"PARKDECK_CACHE_DIR": str(kept.parent), "COLUMNS": "80"}).stdout
    assert str(kept) in shown


def test_export_lists_sessions_and_writes_three_files(tmp_path: Path) -> None:
    control = FakeControl(at=60.0)
    recorder = Recorder(tmp_path / "sessions.sqlite")
    recorder.begin(control.snapshot.session, control.snapshot)
    for sample in control.samples()[:10]:
        recorder.sample(sample)
    recorder.close()
    env = {"PARKDECK_DATA_DIR": str(tmp_path), "COLUMNS": "80"}
    assert control.snapshot.session in parkdeck("export", env=env).stdout
    out = tmp_path / "out"
    done = parkdeck("export", "--session", control.snapshot.session, "--out", str(out), env=env)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in out.iterdir()) == ["events.csv", "samples.csv", "timeline.csv"]
    with (out / "samples.csv").open(newline="", encoding="utf-8-sig") as file:
        assert len(list(csv.DictReader(file))) == 10


def test_ctrl_c_ends_the_swarm_cleanly(tmp_path: Path) -> None:
    """Also while the engine still loads."""
    command = [sys.executable, "-m", "app.cli", "swarm"]
    env = {**os.environ, "PARKDECK_DATA_DIR": str(tmp_path)}
    process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    first = process.stdout.readline()
    assert "starting" in first
    process.send_signal(2)
    rest, _ = process.communicate(timeout=60)
    assert process.returncode == 0, rest
    assert "Traceback" not in rest


def test_a_model_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    done = parkdeck("swarm", "--model", str(tmp_path / "none.gguf"), env={"PARKDECK_DATA_DIR": str(tmp_path)})
    assert done.returncode == 2
    assert "none.gguf" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_terminal_shows_what_the_page_shows() -> None:
    deck = SCENES["full"]()
    console = Console(width=140, record=True, file=open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    console.print(screen(deck.control.snapshot))
    console.print(summary(deck.control.snapshot, "session-1"))
    text = console.export_text()
    for word in (
        "Headroom",
        "agent 12",
        "foreground",
        "blocked: pytest",
        "host",
        "parkdeck export --session session-1",
    ):
        assert word in text
    assert line(deck.control.snapshot).startswith("running 8 of 8, decode")
    assert line(FakeControl(state=HostState.STARTING).snapshot) == "starting"
    assert line(FakeControl(state=HostState.IDLE).snapshot).startswith("idle, running")
    assert line(SCENES["starting"]().control.snapshot).startswith("starting convert: layer 12 of 30")


def _bench(value: float) -> "object":
    def run(bench: Bench) -> None:
        bench.row(case="a", time_ms=1.5, ok=True, missing=None)
        bench.target("time", value, "<=", 2.0)
        bench.note("one note")

    return run


@pytest.mark.parametrize(("value", "status"), [(1.0, 0), (3.0, 1), (float("nan"), 1), (float("inf"), 1)])
def test_a_bench_prints_a_table_and_json_last(value: float, status: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_bench("demo", _bench(value), "quick", as_json=True) == status  # type: ignore[arg-type]
    printed = capsys.readouterr().out
    report = json.loads(printed.splitlines()[-1])
    assert {"bench", "machine", "versions", "rows", "targets"} <= report.keys()
    assert report["bench"] == "demo"
    assert set(report["targets"][0]) == {"name", "value", "target", "op", "met"}
    assert report["targets"][0]["met"] is (status == 0)
    assert "time ms" in printed
    assert report["versions"]["torch"]


@pytest.mark.parametrize(
    ("error", "said", "traced"),
    [
        (Refused("no GPU is here; run it on one"), "no GPU is here; run it on one", False),
        (ZeroDivisionError("no positions"), "ZeroDivisionError: no positions", True),
    ],
)
def test_a_bench_that_cannot_run_is_status_two(
    error: Exception, said: str, traced: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(bench: Bench) -> None:
        raise error

    assert run_bench("demo", run, "default", as_json=True) == 2
    printed = capsys.readouterr()
    assert json.loads(printed.out.splitlines()[-1])["error"] == said
    assert f"could not run: {said}" in printed.err
    assert ("Traceback" in printed.err) is traced


DEMO = """
import sys
from app.bench.report import run_bench
from app.streams import open_closed_streams
from engine.errors import Refused

def run(bench):
    bench.say("a line")
    if sys.argv[1] == "refused":
        raise Refused("it is not here")
    bench.row(a=1.0)
    bench.target("a", 1.0, "<=", 2.0)

open_closed_streams()
sys.exit(run_bench("demo", run, "quick", as_json=True))
"""


def demo(redirected: str, what: str, stdout: int = subprocess.PIPE) -> "subprocess.CompletedProcess[str]":
    command = ["bash", "-c", f'exec "$0" -c "$1" "$2" {redirected}', sys.executable, DEMO, what]
    return subprocess.run(command, cwd=ROOT, stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=120)


@pytest.mark.parametrize(
    ("redirected", "status"),
    [("2>&-", 0), ("2>/dev/full", 0), (">&-", 2), (">/dev/full", 2), (">&- 2>&-", 2), (">/dev/full 2>/dev/full", 2)],
)
def test_a_report_that_cannot_be_printed_is_status_two_and_no_traceback(redirected: str, status: int) -> None:
    done = demo(redirected, "run")
    assert (done.returncode, "Traceback" in done.stderr, "ignored" in done.stderr) == (status, False, False)
    assert ("could not be printed" in done.stderr) is (status == 2 and "2>" not in redirected)
    refused = demo(redirected, "refused")
    assert (refused.returncode, "Traceback" in refused.stderr) == (2, False)


def test_a_report_that_nobody_reads_is_status_two_and_no_traceback() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = demo("", "run", stdout=writing)
    os.close(writing)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "Broken pipe" in done.stderr


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["nonsense"], "there is no bench 'nonsense'"),
        (["identity", "--quick", "--full"], "exclude each other"),
        (["swap", "--turns", "3"], "takes no --turns"),
        *(
            ([name, "--backend", "nope"], "there is no backend 'nope'; choose one of auto, torch, vllm, twin")
            for name in benches()
        ),
    ],
)
def test_a_bench_that_is_refused_before_it_runs_has_a_report_too(args: list[str], said: str) -> None:
    done = CliRunner().invoke(MAKE, ["bench", *args, "--json"])
    assert done.exit_code == 2
    report = json.loads(done.stdout.splitlines()[-1])
    assert (report["bench"], said in report["error"], said in done.stderr) == (args[0], True, True)


def test_weights_that_a_cpu_cannot_keep_are_not_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    for gpu, choices in ((False, "choose int8"), (True, "choose fp16, int8, int4")):
        monkeypatch.setattr("torch.cuda.is_available", lambda gpu=gpu: gpu)
        with pytest.raises(Refused) as refused:
            config_from({"PARKDECK_WEIGHT_DTYPE": "int3"})
        assert str(refused.value).endswith(choices)


@pytest.mark.parametrize(("op", "met"), [("<=", True), (">=", True), ("==", True), ("<", False), (">", False)])
def test_target_operators(op: str, met: bool) -> None:
    assert Target("x", 2.0, 2.0, op).met is met  # type: ignore[arg-type]


def test_every_bench_is_found_by_its_file() -> None:
    assert {"identity", "precision"} <= set(benches())
    assert not {"report", "rig"} & set(benches())
    with pytest.raises(KeyError):
        benches()["nonsense"]


def test_machine_and_versions_are_named() -> None:
    report = as_object(Bench("x"))
    assert report["machine"]["cores"] >= 1
    assert report["machine"]["memory_gib"] > 0
