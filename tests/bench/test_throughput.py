"""The throughput bench: how a peer is asked and what becomes of a bad one, who is measured when, ratios and targets."""

import contextlib
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import psutil
import pytest
from typer.testing import CliRunner

from app.bench import against, benches, peer_process, sides, throughput
from app.bench.against import EXACT, MAIN, PEERS, peer_python, start_peer
from app.bench.peer_process import PeerProcess
from app.bench.report import COULD_NOT_RUN, MET, MISSED, Bench, run_bench
from app.bench.sides import Case, PeerSide, Side, Text, come_to_rest
from app.bench.throughput import BESIDE, Depth, Own, Row, measured, report
from app.cli import MAKE
from engine.errors import Refused

ROOT = Path(__file__).resolve().parents[2]
GOOD = """
import os, subprocess, sys

class Engine:
    def start(self):
        print("noise on stdout")
        os.system("echo noise from a child")

    def open(self, model, turns, tokens, kv, threads):
        return "1.0"

    def hold(self, kv, prompts):
        self.turns = len(prompts)

    def decode(self, kv, warm, steps):
        return steps * self.turns / 100

    def release(self, kv):
        self.turns = 0

    def prefill(self, kv, prompts):
        return sum(map(len, prompts)) / 500

    def child(self):
        return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]).pid

    def fail(self):
        raise ValueError("of two\\nlines")

    def burn(self):
        while True:
            pass

    def sleep(self):
        import time
        time.sleep(600)
"""


@pytest.fixture
def scripted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Its `scripted_engine` is an engine for `peer_main.py`."""
    (tmp_path / "scripted_engine.py").write_text(GOOD, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path


@contextlib.contextmanager
def peer_of(command: Sequence[str]) -> Iterator[PeerProcess]:
    process = PeerProcess("peer", command, os.environ)
    try:
        yield process
    finally:
        process.close()


def a_script(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def gone(pid: int) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    return True


def wait_until_gone(pid: int) -> None:
    ends = time.monotonic() + 10
    while not gone(pid):
        assert time.monotonic() < ends, f"process {pid} was left behind"
        time.sleep(0.01)


# -- the process ------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("scripted")
def test_a_peer_is_asked_by_lines_and_ends_with_all_it_started() -> None:
    with peer_of([sys.executable, str(MAIN), "scripted_engine"]) as peer:
        assert peer.ask("start") is None
        peer.ask("hold", kv="f16", prompts=[[1] * 30_000] * 3)
        assert peer.ask("decode", kv="f16", warm=1, steps=10) == 0.3
        with pytest.raises(Refused, match=r"^peer could not fail: ValueError: of two$"):
            peer.ask("fail")
        child = peer.ask("child")
        assert not gone(child)
        assert peer.cpu_seconds() > 0
    wait_until_gone(peer.pid)
    wait_until_gone(child)


@pytest.mark.usefixtures("scripted")
def test_a_peer_that_is_at_something_is_ended_at_once() -> None:
    started = time.monotonic()
    with peer_of([sys.executable, str(MAIN), "scripted_engine"]) as peer:
        peer.ask("start")
        with pytest.raises(Refused, match=r"gave no answer to 'sleep' within 0\.2 s"):
            peer.ask("sleep", 0.2)
    wait_until_gone(peer.pid)
    assert time.monotonic() - started < peer_process.ENDS_S


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (
            "import sys; sys.exit('no such engine')",
            r"ended with status 1 when .* start \(no such engine\)",
        ),
        (
            "import os; os.kill(os.getpid(), 9)",
            r"was killed by signal 9 \(out of memory\?\) when it was asked to start",
        ),
        ("import os; os.kill(os.getpid(), 11)", r"was killed by signal 11 when it was asked to start"),
        ("input(); print('{\"error\": null}')", "could not start: it did not say why"),
        ("input(); print('hello')", "answered 'start' with something else than was agreed: 'hello'"),
        ("input(); print('[1]')", "something else than was agreed"),
        ("import time; time.sleep(600)", "gave no answer to 'start' within 0.5 s"),
    ],
)
def test_a_bad_peer_is_one_sentence(code: str, said: str) -> None:
    with peer_of(a_script(code)) as peer, pytest.raises(Refused, match=said) as told:
        peer.ask("start", 0.5 if "sleep" in code else 30.0, prompts=[[1] * 100_000])
    assert "\n" not in str(told.value)
    wait_until_gone(peer.pid)


def test_a_peer_that_does_not_answer_is_told_with_what_it_last_said() -> None:
    code = "import sys, time; input(); print('loading layer 3', file=sys.stderr, flush=True); print(0, flush=True)"
    with peer_of(a_script(f"{code}; time.sleep(600)")) as peer:
        with pytest.raises(Refused, match="something else"):
            peer.ask("start")
        with pytest.raises(Refused, match=r"no answer to 'open' within 0\.1 s \(loading layer 3\)$"):
            peer.ask("open", 0.1)


def test_a_peer_that_ended_is_told_at_once_though_a_child_holds_its_output() -> None:
    child = "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])"
    started = time.monotonic()
    script = a_script(f"import subprocess, sys; {child}; sys.exit(3)")
    with peer_of(script) as peer, pytest.raises(Refused, match="ended with status 3 when it was asked to start"):
        peer.ask("start", 60.0)
    assert time.monotonic() - started < 30.0


BUSY = f"""
import os, signal, sys
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
import typer
from app.bench.peer_process import PeerProcess
from app.interrupt import ended_as_by_ctrl_c
from app.options import told

@told
def busy():
    with ended_as_by_ctrl_c():
        peer = PeerProcess("peer", [sys.executable, {str(MAIN)!r}, "scripted_engine"], os.environ)
        try:
            peer.ask("start")
            print(peer.pid, flush=True)
            peer.ask("burn")
        finally:
            peer.close()

try:
    busy()
except typer.Exit as ended:
    sys.exit(ended.exit_code)
"""


@pytest.mark.usefixtures("scripted")
@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130), (signal.SIGKILL, -9)]
)
def test_a_busy_peer_ends_with_the_bench_whatever_ends_that(number: int, status: int) -> None:
    with subprocess.Popen([sys.executable, "-c", BUSY], cwd=ROOT, stdout=subprocess.PIPE, text=True) as bench:
        assert bench.stdout is not None
        pid = int(bench.stdout.readline())
        bench.send_signal(number)
        assert bench.wait(30) == status
    wait_until_gone(pid)


def test_the_peers_python_is_the_one_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    vllm = replace(PEERS["vllm"], package="no_such_package")
    monkeypatch.setenv("PARKDECK_PEER_PYTHON", "/of/the/variable")
    assert peer_python(vllm, "/asked/for") == "/asked/for"
    assert peer_python(vllm, None) == "/of/the/variable"
    monkeypatch.setenv("PARKDECK_PEER_PYTHON", " ")
    assert peer_python(replace(vllm, package="json"), None) == sys.executable
    with pytest.raises(Refused, match=r"not installed here; make .* --peer-python .venv-vllm/bin/python"):
        peer_python(vllm, None)


def test_a_python_without_the_peer_is_told_before_anything_is_loaded() -> None:
    with pytest.raises(Refused, match=r"llama\.cpp could not start: .*No module named 'llama_cpp'"):
        start_peer(PEERS["llamacpp"], sys.executable)
    with pytest.raises(Refused, match="cannot be run"):
        start_peer(PEERS["vllm"], "/no/such/python")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--against", "nobody"], "there is no peer 'nobody'; choose one of vllm, llamacpp"),
        (["--against", "vllm", "--peer-python", "/no/such/python"], "/no/such/python cannot be run"),
        (["--peer-python", "/no/such/python"], "say which peer by --against vllm"),
        (["--backend", "vllm"], "measures the torch backend"),
    ],
)
def test_what_cannot_be_run_is_status_2_and_one_sentence(options: list[str], said: str) -> None:
    result = CliRunner().invoke(MAKE, ["bench", "throughput", *options])
    assert result.exit_code == COULD_NOT_RUN
    assert said in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr


def test_auto_is_torch() -> None:
    assert throughput._asked_peer(Bench("throughput", backend="auto")) is None


def test_no_other_bench_takes_a_peer() -> None:
    result = CliRunner().invoke(MAKE, ["bench", "identity", "--against", "vllm"])
    assert (result.exit_code, "takes no --against" in result.stderr) == (2, True)
    assert "throughput" in set(benches())
    assert "peers" not in set(benches())


# -- who is measured when ---------------------------------------------------------------------------------------------


class Scripted:
    """A side of constant speed that writes down what it is asked."""

    def __init__(self, label: str, tokens_per_s: float, log: list[tuple[str, object]], cpu: float = 0.0) -> None:
        self.label = label
        self._speed = tokens_per_s
        self._log = log
        self._cpu = cpu
        self._turns = 0

    @property
    def pid(self) -> int:
        return id(self)

    def hold(self, case: Case) -> None:
        self._turns = case.turns

    def decode(self, steps: int) -> float:
        self._log.append((self.label, self._turns))
        return self._turns * steps / self._speed

    def release(self) -> None:
        self._turns = 0

    def prefill(self, count: int, length: int, first: int) -> float:
        self._log.append((self.label, range(first, first + count)))
        return count * length / self._speed

    def cpu_seconds(self) -> float:
        return self._cpu * time.perf_counter()


@pytest.fixture(autouse=True)
def _short_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sides, "LOOK_S", 0.0005)
    monkeypatch.setattr(sides, "QUIETS_S", 0.02)


def test_ours_and_the_peer_take_turns_and_no_prompt_comes_twice() -> None:
    log: list[tuple[str, object]] = []
    depth = Depth(rounds=3, steps=4, turns=(1, 8), contexts=(128,), prefills=(1, 4))
    own: list[Side] = [Scripted("fp16", 400, log), Scripted("q8", 300, log)]
    peer = Scripted("peer", 100, log)
    rows = measured(Bench("throughput"), depth, own, {"fp16": peer, "q8": peer})
    assert [label for label, _ in log] == ["fp16", "peer", "q8"] * (3 * 4)
    assert [turns for label, turns in log[:18] if label == "fp16"] == [8, 8, 8, 1, 1, 1]
    numbers = [number for label, prompts in log[18:] if label == "peer" for number in prompts]  # type: ignore[attr-defined]
    assert len(set(numbers)) == len(numbers) == 3 * (1 + 4)
    fp16 = next(row for row in rows if (row.work, row.kv, row.turns) == ("decode", "fp16", 8))
    assert fp16.ratios == pytest.approx((4.0, 4.0, 4.0))


def test_no_two_prompts_are_alike() -> None:
    text = Text(range(20_000))
    prompts = text.prompts(16, 4096) + text.prompts(150, 512, throughput.HELD_PROMPTS)
    assert len({prompt[0] for prompt in prompts}) == len(prompts)
    assert {len(prompt) for prompt in prompts} == {4096, 512}


def test_who_spins_is_waited_for_and_then_told() -> None:
    log: list[tuple[str, object]] = []
    calm, busy = Scripted("calm", 100, log), Scripted("busy", 100, log, cpu=1.0)
    started = time.perf_counter()
    come_to_rest([calm])
    assert time.perf_counter() - started < 1.0
    bench = Bench("throughput")
    measured(bench, Depth(1, 1, turns=(1,), contexts=(128,), prefills=(1,)), [calm, busy], {})
    assert [note.split(":")[0] for note in bench.notes] == ["calm was not alone"]


# -- what is reported -------------------------------------------------------------------------------------------------


def test_a_ratio_is_the_median_of_the_rounds_ratios() -> None:
    row = Row("decode", "fp16", 1, 128, (100.0, 50.0, 90.0), (25.0, 25.0, 30.0))
    assert row.speed == 90.0
    assert row.ratios == (4.0, 2.0, 3.0)
    bench = Bench("throughput")
    report(bench, BESIDE["default"], [row], PEERS["vllm"])
    cells = {"tok_per_s": 90.0, "peer_tok_per_s": 25.0, "ours_over_peer": 3.0, "in_all_rounds": "2.00-4.00"}
    assert cells.items() <= bench.rows[0].items()
    assert [(target.value, target.target) for target in bench.targets] == [(3.0, 4.0)]
    assert bench.status == MISSED


def test_alone_there_are_no_targets_and_eight_turns_are_told_over_one() -> None:
    bench = Bench("throughput")
    rows = [Row("decode", kv, turns, 128, (50.0 * turns**0.5,)) for kv in ("fp16", EXACT) for turns in (8, 1)]
    report(bench, BESIDE["default"], rows, None)
    assert not bench.targets
    assert [(row["kv"], row["turns"]) for row in bench.rows] == [("fp16", 1), ("fp16", 8), (EXACT, 1), (EXACT, 8)]
    assert [row["times_one_turn"] for row in bench.rows] == [1.0, 2.83, 1.0, 2.83]
    assert "fp16 at 128 2.83, exact fp32 at 128 2.83; the card's is 5.6" in bench.notes[0]


@pytest.mark.parametrize("name", PEERS)
def test_each_target_is_of_a_row_that_some_depth_has(name: str) -> None:
    rows = {
        (work, turns, context)
        for depth in BESIDE.values()
        for work, all_turns, contexts in (
            ("decode", depth.turns, depth.contexts),
            ("prefill", depth.prefills, (throughput.PROMPT,)),
        )
        for turns in all_turns
        for context in contexts
    }
    for wanted in PEERS[name].wanted:
        assert (wanted.work, wanted.turns, wanted.context) in rows
        assert wanted.kv in PEERS[name].kv


@pytest.mark.parametrize(("speed", "status"), [(500.0, MET), (150.0, MISSED)])
def test_beside_a_peer_in_a_process_of_its_own(
    speed: float, status: int, scripted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own: list[Side] = [Scripted(kv, speed, []) for kv in ("fp16", "q8")]
    wanted = tuple(one for one in PEERS["llamacpp"].wanted if one.work == "decode")
    peer = replace(PEERS["llamacpp"], module="scripted_engine", wanted=wanted)
    monkeypatch.setattr(throughput, "chosen_peer", lambda name: peer)
    monkeypatch.setattr(throughput, "open_own", lambda depth, exact, stack: Own(own, Text(range(20_000)), 2))
    monkeypatch.setattr(throughput, "peer_model", lambda peer: scripted)
    started: list[PeerProcess] = []

    def start(peer: against.Peer, python: str) -> PeerProcess:
        started.append(start_peer(peer, python))
        return started[0]

    monkeypatch.setattr(throughput, "start_peer", start)
    words = {"against": "llamacpp", "peer-python": sys.executable}
    assert run_bench("throughput", throughput.run, "quick", words=words) == status
    wait_until_gone(started[0].pid)


def test_ctrl_c_leaves_no_peer_behind(scripted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[PeerProcess] = []

    def start(peer: against.Peer, python: str) -> PeerProcess:
        started.append(start_peer(replace(peer, module="scripted_engine"), python))
        return started[0]

    def interrupted(depth: Depth, exact: bool, stack: contextlib.ExitStack) -> Own:
        raise KeyboardInterrupt

    monkeypatch.setattr(throughput, "start_peer", start)
    monkeypatch.setattr(throughput, "open_own", interrupted)
    bench = Bench("throughput", words={"against": "vllm", "peer-python": sys.executable})
    with pytest.raises(KeyboardInterrupt):
        throughput.run(bench)
    wait_until_gone(started[0].pid)


def test_a_peers_side_asks_for_what_a_side_is_asked(scripted: Path) -> None:
    with peer_of([sys.executable, str(MAIN), "scripted_engine"]) as process:
        side = PeerSide("llama.cpp f16", process, "f16", Text(range(20_000)))
        side.hold(Case(4, 128))
        assert side.decode(6) == 6 * 4 / 100
        side.release()
        assert side.prefill(2, 512, 100) == 2 * 512 / 500


class Answering:
    """A peer that answers whatever it is asked with one thing."""

    pid = 1

    def __init__(self, answer: object) -> None:
        self._answer = answer

    def ask(self, op: str, timeout_s: float = 1.0, **arguments: object) -> object:
        return self._answer


@pytest.mark.parametrize("answer", [None, "1.5", [1.5], True, 0, -1.0, math.nan, math.inf, 10**400])
def test_a_peers_answer_that_is_no_time_is_refused_by_its_name(answer: object) -> None:
    side = PeerSide("llama.cpp f16", cast(PeerProcess, Answering(answer)), "f16", Text(range(20_000)))
    for measure in (lambda: side.decode(6), lambda: side.prefill(1, 8, 0)):
        with pytest.raises(Refused, match=r"^llama\.cpp f16 answered '(decode|prefill)' with .* its seconds belong"):
            measure()
