"""A policy of one's own: an installed package, found, held to its promises, and run; a broken one is a sentence.

pytest tests/engine/policies/test_own.py
"""

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from shutil import copy
from types import SimpleNamespace
from typing import Any

import pytest

import engine.governor
import engine.policies
from engine.errors import BadKnob
from engine.policies import BUILT_IN, policy_named
from engine.policies.base import Need, Relief, Situation, TierPolicy
from engine.policies.own import GROUP, Held, PolicyFault, load_own
from engine.turn import TurnId
from engine.view import Drop, Reason, SwapOut
from tests.engine.lab import Lab
from tests.engine.policies.example.parkdeck_oldest_first import OldestFirst
from tests.engine.policies.test_policies import situation
from tests.engine.simulator import Simulator, knobs

EXAMPLE = Path(__file__).parent / "example"
ROOT = Path(__file__).resolve().parents[3]
NAMES = [policy.name for policy in BUILT_IN]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """The example package as pip leaves it in a folder of its own."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text("utf-8"))["project"]
    copy(EXAMPLE / "parkdeck_oldest_first.py", tmp_path)
    info = tmp_path / f"parkdeck_oldest_first-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    points = project["entry-points"][GROUP]
    lines = [f"[{GROUP}]", *(f"{name} = {value}" for name, value in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return tmp_path


def parkdeck(site: Path, *args: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join((str(ROOT), str(site)))
    return subprocess.run(
        [sys.executable, "-m", "app.cli", *args],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )


def test_an_installed_policy_runs_on_the_twin_with_its_parameter(site: Path) -> None:
    args = ("twin", "--agents", "12", "--hours", "0.03", "--set", "policy=oldest-first", "--json")
    done = parkdeck(site, *args, "--set", "oldest-first.patience=0.5")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["swaps_out"] > 0
    listed = parkdeck(site, "policies")
    assert "oldest-first" in listed.stdout
    assert "oldest-first.patience" in listed.stdout


def test_without_the_package_its_name_is_none() -> None:
    assert load_own(NAMES, ()).policies == ()


def test_it_keeps_the_governors_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Held(OldestFirst())
    monkeypatch.setattr(engine.governor, "policy_named", lambda name: own)
    sim = Simulator(blocks=30, host_blocks=20, knobs=knobs())
    for nth in range(8):
        sim.submit(60 + 20 * nth, 20, tool="bash")
        sim.run(12)
        sim.now += 31.0
    sim.drain(4000)
    assert sim.counts["swaps_out"] > 0


def entry(load: Callable[[], Any], name: str = "own") -> EntryPoint:
    return SimpleNamespace(name=name, value=f"a_package:{name}", load=load)  # type: ignore[return-value]


def fails(error: BaseException) -> Callable[[], Any]:
    def load() -> Any:
        raise error

    return load


def like(**members: object) -> TierPolicy:
    lines = {"title": "One's own", "fits": "For tests", "source": "nowhere"}
    plain = {"name": "own", **lines, "parameters": (), "relieve": lambda situation: Relief()}
    return SimpleNamespace(**(plain | members))  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("load", "why"),
    [
        (fails(ImportError("no module named 'numba2'")), "ImportError: no module named 'numba2'"),
        (fails(SyntaxError("bad\nline")), "SyntaxError: bad line"),
        (fails(SystemExit(3)), "SystemExit: 3"),
        (lambda: object(), "AttributeError"),
        (lambda: like(name="walk-down"), "the name walk-down is taken"),
        (lambda: like(name="My Policy"), "its name 'My Policy' is none"),
        (lambda: like(title=""), "its title '' is no line of text"),
        (lambda: like(fits=None), "its fits None is no line of text"),
        (lambda: like(parameters=(3,)), "its parameter 3 is no Parameter"),
        (lambda: like(relieve=lambda situation: None), "answered NoneType, no Relief"),
        (lambda: like(relieve=lambda situation: 1 / 0), "raised ZeroDivisionError"),
        (lambda: like(relieve=None), "raised TypeError"),
    ],
)
def test_a_broken_one_is_left_out_with_a_sentence(load: Callable[[], Any], why: str) -> None:
    own = load_own(NAMES, (entry(load), entry(lambda: like(name="good"), "good")))
    assert [policy.name for policy in own.policies] == ["good"]
    (sentence,) = own.refused
    assert sentence.startswith("Tier policy own (a_package:own) is left out: ")
    assert why in sentence
    assert "\n" not in sentence


def test_of_two_with_one_name_the_first_stays() -> None:
    own = load_own(NAMES, (entry(lambda: like(title="B"), "b"), entry(lambda: like(title="A"), "a")))
    assert [policy.title for policy in own.policies] == ["A"]
    assert len(own.refused) == 1


@pytest.mark.parametrize(
    ("moves", "why"),
    [
        ((Drop(TurnId(99), Reason.POLICY),), "moves turn 99, which it was not offered"),
        ((Drop(TurnId(1), Reason.POLICY),) * 2, "moves turn 1, which it was not offered, or moves it twice"),
        ((SwapOut(TurnId(1), Reason.POLICY),), "to the host pool, which has no room for it"),
        (("turn 1",), "neither SwapOut nor Drop"),
    ],
)
def test_a_wrong_answer_is_told(moves: tuple[Any, ...], why: str) -> None:
    with pytest.raises(PolicyFault, match=why):
        Held(like(relieve=lambda situation: Relief(moves))).relieve(situation(Need(), host_blocks=2))


def test_a_policy_that_fails_at_work_gives_way_to_the_default_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine goes on, and an event says why."""

    def relieve(asked: Situation) -> Relief:
        return Relief() if not asked.running else 1 / 0  # type: ignore[return-value]

    known = {policy.name: policy for policy in BUILT_IN} | {"own": Held(like(relieve=relieve))}
    monkeypatch.setattr(engine.governor, "policy_named", known.__getitem__)
    lab = Lab()
    lab.core.ledger.knobs = replace(lab.core.knobs, policy="own")
    turn = lab.ask(40, 5)
    lab.finish([turn])
    lab.assert_right(turn)
    assert lab.core.knobs.policy == "walk-down"
    (event,) = [event for event in lab.core.events.copy() if event.name == "policy"]
    assert (event.old, event.new, event.author) == ("own", "walk-down", "engine")
    assert "policy own raised ZeroDivisionError: division by zero" in event.text


def test_who_asks_for_a_policy_that_was_left_out_is_told_why(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = load_own(NAMES, (entry(fails(ImportError("no numba2"))),))
    monkeypatch.setattr(engine.policies, "_own", lambda: broken)
    with pytest.raises(BadKnob, match=r"choose walk-down.*\(Tier policy own \(a_package:own\) is left out: Imp"):
        policy_named("own")
