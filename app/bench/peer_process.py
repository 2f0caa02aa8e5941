"""A peer: another engine in a process of its own, asked over JSON lines (see `peers/peer_main.py`)."""

import contextlib
import json
import os
import queue
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import psutil

from app.bench.bound import bound_to_us
from engine.errors import Refused
from engine.models.stated import one_line

ANSWER_S = 600.0
"""The longest that one request may take: a first start compiles, a long context is prefilled."""
ENDS_S = 5.0
"""From the end of its output to its own."""
LOOK_S = 0.5
"""How often a peer that is waited for is looked at."""
SAID_LENGTH = 200


class PeerProcess:
    """`name` is for people. Raises Refused, one sentence, for whatever goes wrong; whoever made it closes it, which
    ends the process and all that it started. It ends when this process does."""

    def __init__(self, name: str, command: Sequence[str], env: Mapping[str, str]) -> None:
        self.name = name
        self._answered = True
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - kept open as long as the process
        self._requests: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
                env=dict(env),
                text=True,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,
                preexec_fn=bound_to_us(),
            )
        except OSError as error:
            self._said.close()
            raise Refused(f"{command[0]} cannot be run ({error.strerror}); name a Python as --peer-python") from error
        # Threads, so that a peer that neither reads nor writes is still told after its time.
        for target in (self._read, self._write):
            threading.Thread(target=target, name=f"peer {name}", daemon=True).start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, op: str, timeout_s: float = ANSWER_S, **arguments: object) -> Any:
        """What the peer's method `op` returns."""
        self._answered = False
        self._requests.put(json.dumps({"op": op, **arguments}) + "\n")
        try:
            line = self._line(timeout_s)
        except queue.Empty:
            raise Refused(f"{self.name} gave no answer to {op!r} within {timeout_s:g} s{self._last_said()}") from None
        if line is None:
            raise self._ended(op)
        result = self._result(op, line)
        self._answered = True
        return result

    def cpu_seconds(self) -> float:
        """Of the process and all that it started."""
        spent = 0.0
        try:
            process = psutil.Process(self.pid)
            for one in (process, *process.children(recursive=True)):
                times = one.cpu_times()
                spent += times.user + times.system
        except psutil.Error:
            return spent
        return spent

    def close(self) -> None:
        """End the process and its children: at once where it is at something, else it may tidy up first."""
        self._requests.put(None)
        try:
            if self._answered:
                self._process.wait(timeout=ENDS_S)
        except subprocess.TimeoutExpired:
            pass
        finally:
            self._kill()

    def _kill(self) -> None:
        if hasattr(os, "killpg"):
            # Its children are of its group, also when it has ended itself.
            try:
                os.killpg(self.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                self._process.kill()
        else:
            self._process.kill()
        self._process.wait()
        self._said.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as answers:
            for line in answers:
                self._lines.put(line)
        self._lines.put(None)

    def _write(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError), self._process.stdin as requests:
            while (request := self._requests.get()) is not None:
                requests.write(request)
                requests.flush()

    def _line(self, timeout_s: float) -> str | None:
        """None when the peer has ended, also while a child of its holds its output. Raises queue.Empty."""
        ends = time.monotonic() + timeout_s
        while True:
            ended = self._process.poll() is not None
            left = max(0.0, ends - time.monotonic())
            try:
                return self._lines.get(timeout=min(LOOK_S, left))
            except queue.Empty:
                if ended:
                    return None
                if left <= LOOK_S:
                    raise

    def _result(self, op: str, line: str) -> Any:
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if isinstance(answer, dict) and "ok" in answer:
            return answer["ok"]
        if isinstance(answer, dict) and "error" in answer:
            why = answer["error"]
            said = one_line(why)[:SAID_LENGTH] if isinstance(why, str) and why.strip() else "it did not say why"
            raise Refused(f"{self.name} could not {op}: {said}")
        raise Refused(f"{self.name} answered {op!r} with something else than was agreed: {line.strip()[:80]!r}")

    def _ended(self, op: str) -> Refused:
        try:
            status = self._process.wait(timeout=ENDS_S)
        except subprocess.TimeoutExpired:
            return Refused(f"{self.name} closed its output when it was asked to {op}{self._last_said()}")
        return Refused(f"{self.name} {_how_it_ended(status)} when it was asked to {op}{self._last_said()}")

    def _last_said(self) -> str:
        """The last line on its stderr, in brackets."""
        self._said.seek(0)
        lines = [line.strip() for line in self._said.read().decode("utf-8", "replace").splitlines() if line.strip()]
        return f" ({one_line(lines[-1])[:SAID_LENGTH]})" if lines else ""


def _how_it_ended(status: int) -> str:
    if status >= 0:
        return f"ended with status {status}"
    return f"was killed by signal {-status}" + (" (out of memory?)" if status == -9 else "")
