"""The swarm in a terminal: what went wrong beside the engine is told while it runs and at the end."""

import io
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from rich.console import Console

from app import terminal
from app.deck import DeckConfig
from engine.errors import Refused
from engine.record.recorder import Recorder
from engine.workload.status import SwarmStatus
from tests.panels.fake_control import FakeControl

TOO_SMALL = "the prompt needs 400 tokens, the arena holds 100"


@dataclass
class FakeDeck:
    """As much of a Deck as the terminal uses."""

    recorder: Recorder
    status: SwarmStatus
    control: FakeControl = field(default_factory=lambda: FakeControl(at=60.0))

    def start(self) -> None:
        self.recorder.begin(self.control.snapshot.session, self.control.snapshot)
        for sample in self.control.samples()[:3]:
            self.recorder.sample(sample)
        self.recorder.flush()

    def stop(self) -> None:
        self.recorder.close()


def ran(monkeypatch: pytest.MonkeyPatch, path: Path, **status: object) -> tuple[str, str | None]:
    """What is printed, and the refusal."""
    swarm = SwarmStatus(True, "w", 4, 1.0, **status)  # type: ignore[arg-type]
    deck = FakeDeck(Recorder(path / "sessions.sqlite"), swarm)
    monkeypatch.setattr(terminal, "Deck", lambda config: deck)
    console = Console(width=300, file=io.StringIO())
    refusal = None
    try:
        terminal.run_swarm(DeckConfig(), 0.01, console)
    except Refused as error:
        refusal = str(error)
    return console.file.getvalue(), refusal  # type: ignore[attr-defined]


def test_a_run_that_goes_well_names_its_csv(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    printed, refusal = ran(monkeypatch, tmp_path, live=2, blocked_fraction=0.5)
    assert "CSV: parkdeck export" in printed
    assert "Recording" not in printed
    assert refusal is None


def test_recording_that_failed_is_told_and_no_csv_promised(monkeypatch: pytest.MonkeyPatch) -> None:
    printed, refusal = ran(monkeypatch, Path("/dev/null"), live=2, blocked_fraction=0.5)
    first, *rest = printed.splitlines()
    assert "Recording waits: /dev/null" in first
    assert "Recording failed: /dev/null" in "".join(rest)
    assert "3 records lost" in "".join(rest)
    assert "CSV" not in printed
    assert refusal is None


def test_no_turn_that_ever_ran_is_a_refusal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    printed, refusal = ran(monkeypatch, tmp_path, refused=7, problem=TOO_SMALL)
    assert TOO_SMALL in printed.splitlines()[0]
    assert f"7 turns refused, 0 failed; the latest: {TOO_SMALL}" in printed
    assert refusal == f"no turn ran: {TOO_SMALL}"


def test_refusals_beside_turns_that_ran_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    printed, refusal = ran(monkeypatch, tmp_path, live=2, blocked_fraction=0.5, refused=1, problem=TOO_SMALL)
    assert TOO_SMALL not in printed.splitlines()[0]
    assert f"1 turn refused, 0 failed; the latest: {TOO_SMALL}" in printed
    assert refusal is None
