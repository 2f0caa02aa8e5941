"""One cell of a grid in a process of its own: `python -m engine.twin.cell` runs the setups that it is handed.

A setup comes pickled by the process that started this one, over a pipe that nobody else writes to; answers are lines
of JSON. It ends when its input does, and when nobody reads its answers any more.
"""

import json
import os
import pickle
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from engine.errors import ParkdeckError, Refused
from engine.twin.setup import TwinSetup, TwinSummary
from engine.twin.simulate import TwinProgress, simulate
from engine.twin.timeline import Point, Timeline

ROOT = Path(__file__).resolve().parents[2]
NICE = 10
TELL_EVERY_S = 0.2
HEAD = struct.Struct("<Q")
Tell = Callable[[float], None]
"""Hears the share that is over, from 0 to 1."""


@dataclass(frozen=True, slots=True)
class CellResult:
    """What one run came to, and its turns by phase over modelled time."""

    summary: TwinSummary
    timeline: tuple[Point, ...]


class CellProcess:
    """Runs setups one after the other, in the background of the machine. Raises Refused where it cannot be started."""

    def __init__(self) -> None:
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "engine.twin.cell"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": path},
                # A Ctrl-C in the terminal is the server's, which then ends its cells.
                start_new_session=True,
            )
        except OSError as error:
            raise Refused(f"no process for the cells could be started ({error.strerror or error})") from error

    def run(self, setup: TwinSetup, tell: Tell) -> CellResult:
        """Raises Refused for a setup that cannot be run, and where the process has ended."""
        asked, answers = self._process.stdin, self._process.stdout
        assert asked is not None
        assert answers is not None
        try:
            _send(asked, setup)
            for line in answers:
                answer = json.loads(line)
                if "done" not in answer:
                    return _result(answer)
                tell(answer["done"])
        except (OSError, ValueError):
            pass  # What is left to say is how it ended.
        raise Refused(f"the cell's process ended with status {self._process.wait()} before its run was over")

    def stop(self) -> None:
        """At once, from any thread; a run that is under way is refused."""
        self._process.kill()

    def close(self) -> None:
        """End it and leave nothing of it behind; its thread alone."""
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    continue  # What it had not read is lost with it.
        self._process.wait()


def _send(pipe: IO[bytes], setup: TwinSetup) -> None:
    content = pickle.dumps(setup)
    pipe.write(HEAD.pack(len(content)) + content)
    pipe.flush()


def _result(answer: dict[str, Any]) -> CellResult:
    if "problem" in answer:
        raise Refused(answer["problem"])
    return CellResult(TwinSummary(**answer["summary"]), tuple(Point(*point) for point in answer["timeline"]))


def _serve(asked: IO[bytes], answers: IO[str]) -> None:
    while len(head := asked.read(HEAD.size)) == HEAD.size:
        setup: TwinSetup = pickle.loads(asked.read(HEAD.unpack(head)[0]))  # noqa: S301 -- our own parent's bytes
        _answer(answers, _run(setup, answers))


def _run(setup: TwinSetup, answers: IO[str]) -> dict[str, Any]:
    timeline = Timeline()
    told_at = time.monotonic()

    def tell(progress: TwinProgress) -> None:
        nonlocal told_at
        if time.monotonic() - told_at >= TELL_EVERY_S:
            told_at = time.monotonic()
            _answer(answers, {"done": progress.fraction})

    try:
        summary = simulate(setup, tell, (timeline,))
    except ParkdeckError as refusal:
        return {"problem": str(refusal)}
    return {"summary": asdict(summary), "timeline": timeline.points}


def _answer(answers: IO[str], answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


def main() -> int:
    if hasattr(os, "nice"):
        os.nice(NICE)
    # Whatever prints must not get between the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        _serve(sys.stdin.buffer, answers)
    except (BrokenPipeError, KeyboardInterrupt):
        os._exit(1)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
