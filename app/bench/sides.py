"""Who is measured: this project's engine at one precision, or a peer. All do the same work and tell seconds."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from app.bench.peer_process import PeerProcess
from app.bench.rig import AUTHOR, Rig
from engine.errors import Refused
from engine.geometry import KVDtype
from engine.models.stated import shown
from engine.turn import TurnId

WARM = 1
"""Steps at the start of each stretch that count for nobody: the first one places the turns."""
QUIET_CPU = 0.25
"""Cores that an engine at rest may use; the system counts another process's time in ticks of 10 ms, one in LOOK_S."""
LOOK_S = 0.05
QUIETS_S = 3.0
LONGEST_S = 1e6


@dataclass(frozen=True, slots=True)
class Case:
    """Decode steps of `turns` turns, each behind a context of `context` tokens at first."""

    turns: int
    context: int


class Text:
    """The tokens that all sides are given: prompts are cut from one text, no two alike."""

    def __init__(self, tokens: Sequence[int]) -> None:
        self.tokens = list(tokens)

    def prompts(self, count: int, length: int, first: int = 0) -> list[list[int]]:
        """`count` prompts of `length` tokens; `first` is the number of the first one."""
        return [self.prompt(first + number, length) for number in range(count)]

    def prompt(self, number: int, length: int) -> list[int]:
        """Each starts elsewhere, running on at the text's start behind its end."""
        start = number * 257 % len(self.tokens)
        taken = self.tokens[start : start + length]
        while len(taken) < length:
            taken += self.tokens[: length - len(taken)]
        return taken


class Side(Protocol):
    """`label` is for the table. Between `hold` and `release` the turns' contexts grow with each `decode`."""

    label: str

    @property
    def pid(self) -> int:
        """Of the process that it runs in."""
        ...

    def hold(self, case: Case) -> None: ...

    def decode(self, steps: int) -> float:
        """Seconds of `steps` steps in which every turn gets a token, after WARM steps that are not counted."""
        ...

    def release(self) -> None: ...

    def prefill(self, count: int, length: int, first: int) -> float:
        """Seconds from the submit of `count` prompts, numbered from `first`, until each has its first token."""
        ...

    def cpu_seconds(self) -> float:
        """That its process has used so far."""
        ...


class OwnSide:
    """This project's engine loop at one KV precision. A turn's context is pretended, not prefilled: a step reads as
    many bytes and its kernels do not look at values."""

    def __init__(self, label: str, rig: Rig, dtype: KVDtype, text: Text) -> None:
        self.label = label
        self._rig = rig
        self._dtype = dtype
        self._text = text
        self._case = Case(0, 0)

    @property
    def pid(self) -> int:
        return os.getpid()

    def hold(self, case: Case) -> None:
        self._case = case

    def decode(self, steps: int) -> float:
        self._switch()
        rig, case = self._rig, self._case
        prompts = self._text.prompts(case.turns, case.context + 1)
        turns = [rig.submit(prompt, WARM + steps + 1) for prompt in prompts]
        for turn in turns:
            rig.core.backend.pretend(turn, case.context)
        self._tick(WARM)
        started = time.perf_counter()
        self._tick(steps)
        seconds = time.perf_counter() - started
        generated = {len(rig.generated[turn]) for turn in turns}
        self._end(turns)
        if generated != {WARM + steps}:
            raise Refused(f"the engine could not be measured: not all of {case.turns} turns ran in each step")
        self._case = Case(case.turns, case.context + WARM + steps)
        return seconds

    def release(self) -> None:
        self._case = Case(0, 0)

    def prefill(self, count: int, length: int, first: int) -> float:
        self._switch()
        rig = self._rig
        prompts = self._text.prompts(count, length, first)
        started = time.perf_counter()
        turns = [rig.submit(prompt, 1) for prompt in prompts]
        rig.run_until(lambda: all(rig.phase(turn).ended for turn in turns))
        seconds = time.perf_counter() - started
        if rig.errors:
            raise Refused(f"the engine could not be measured: {next(iter(rig.errors.values()))}")
        return seconds

    def cpu_seconds(self) -> float:
        return time.process_time()

    def _tick(self, count: int) -> None:
        for _ in range(count):
            self._rig.tick()

    def _end(self, turns: Sequence[TurnId]) -> None:
        for turn in turns:
            self._rig.commands.cancel(turn, AUTHOR)

    def _switch(self) -> None:
        if self._rig.core.knobs.kv_dtype is not self._dtype:
            self._rig.commands.set_knobs({"kv_dtype": self._dtype}, AUTHOR)


class PeerSide:
    """A peer at one of the KV precisions that it was opened with."""

    def __init__(self, label: str, peer: PeerProcess, kv: str, text: Text) -> None:
        self.label = label
        self._peer = peer
        self._kv = kv
        self._text = text

    @property
    def pid(self) -> int:
        return self._peer.pid

    def hold(self, case: Case) -> None:
        self._peer.ask("hold", kv=self._kv, prompts=self._text.prompts(case.turns, case.context))

    def decode(self, steps: int) -> float:
        return self._seconds("decode", self._peer.ask("decode", kv=self._kv, warm=WARM, steps=steps))

    def release(self) -> None:
        self._peer.ask("release", kv=self._kv)

    def prefill(self, count: int, length: int, first: int) -> float:
        prompts = self._text.prompts(count, length, first)
        return self._seconds("prefill", self._peer.ask("prefill", kv=self._kv, prompts=prompts))

    def cpu_seconds(self) -> float:
        return self._peer.cpu_seconds()

    def _seconds(self, op: str, answer: object) -> float:
        """Raises Refused for what is no time."""
        if isinstance(answer, float | int) and not isinstance(answer, bool) and 0 < answer <= LONGEST_S:
            return float(answer)
        raise Refused(
            f"{self.label} answered {op!r} with {shown(repr(answer))} where its seconds belong; check its version"
        )


def come_to_rest(sides: Sequence[Side]) -> None:
    """Wait until no side's process computes or spins, or QUIETS_S have passed."""
    ends = time.perf_counter() + QUIETS_S
    while time.perf_counter() < ends:
        looked = Idle(sides)
        time.sleep(LOOK_S)
        if looked.cores() < QUIET_CPU:
            return


class Idle:
    """The cores that the processes of these sides have used since it was made."""

    def __init__(self, sides: Sequence[Side]) -> None:
        self._sides = {side.pid: side for side in sides}.values()
        self._at, self._used = time.perf_counter(), self._sum()

    def cores(self) -> float:
        return (self._sum() - self._used) / max(time.perf_counter() - self._at, 1e-9)

    def _sum(self) -> float:
        return sum(side.cpu_seconds() for side in self._sides)
