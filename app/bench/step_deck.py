"""A running engine for the step bench: eight decoding turns, beside them as many others as asked for, in all phases and
tiers, recorded as the app records."""

import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from app.bench.rig import AUTHOR
from app.bench.step_parts import Iteration, Watch
from engine.backends.torch.backend import TorchBackend
from engine.body import Body, BodyConfig, OpenBody, open_body
from engine.errors import Refused
from engine.host import Host, HostConfig
from engine.record.recorder import Recorder
from engine.record.schedule import start_schedule
from engine.snapshot import Snapshot
from engine.turn import Finish, Phase, Sampling, TurnId, TurnRequest, TurnUpdate

T = TypeVar("T")

RUNNING = 8
FILLING = 16
PROMPT, SHORT_PROMPT = 128, 24
LONGEST = 4_000
ARENA_TOKENS = 24_576
WAIT_S = 120.0


class Deck:
    """Use as a context manager. `watch` sees each of its steps. `open_body` is another body's in tests."""

    def __init__(self, backend: str, open_body: OpenBody = open_body, arena_tokens: int = ARENA_TOKENS) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="parkdeck-bench-")
        self._recorder = Recorder(Path(self._folder.name) / "sessions.sqlite")
        self._opened: Body | None = None
        self._moved = threading.Condition()
        self._heard = 0

        def opening(config: BodyConfig, report: Callable[..., None]) -> Body:
            self._opened = open_body(config, report)
            return self._opened

        config = HostConfig(body=BodyConfig(backend=backend, arena_tokens=arena_tokens))
        self.host = Host(config, sinks=[self._recorder], open_body=opening)

    def __enter__(self) -> "Deck":
        self.host.start()
        self._schedule = start_schedule(self._recorder)
        try:
            self.host.wait_ready()
            assert self._opened is not None
            if not isinstance(self._opened.backend, TorchBackend):
                raise Refused(f"the parts of a step are known on torch alone, not on {self._opened.backend.name}")
            self.watch = Watch(self._opened.backend.executor).__enter__()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end()
        self.watch.__exit__(kind, error, at)

    def _end(self) -> None:
        self.host.stop()
        self._schedule.stop()
        self._recorder.close()
        self._folder.cleanup()

    def run_eight(self, sampling: Sampling | None = None) -> list[TurnId]:
        """Until all of them decode."""
        turns = [self._submit(f"runs {i}", PROMPT, LONGEST, sampling=sampling) for i in range(RUNNING)]
        self._until(lambda now: _count(now, Phase.DECODE) == RUNNING, f"{RUNNING} turns decode")
        return turns

    def cancel(self, turns: list[TurnId]) -> None:
        for turn in turns:
            self._ask(self.host.cancel(turn, AUTHOR))

    def park(self, count: int) -> None:
        """So many more turns, none of which runs: of eight, four blocked on a tool (one of them in the host pool, one
        dropped), two paused by the operator and two waiting for a slot."""
        blocked, paused = count // 2, count // 4
        self._ask(self.host.set_knobs({"max_running": FILLING}, AUTHOR))
        tooled = [self._submit(f"blocked {i}", SHORT_PROMPT, 1, tool="bash") for i in range(blocked)]
        self._until(lambda now: _count(now, Phase.BLOCKED) == blocked, f"{blocked} turns are blocked")
        for i, turn in enumerate(tooled):
            if i % 4 < 2:
                self._ask((self.host.swap_out if i % 4 else self.host.drop)(turn, AUTHOR))
        for first in range(0, paused, FILLING - RUNNING):
            some = [
                self._submit(f"paused {i}", SHORT_PROMPT, LONGEST)
                for i in range(first, min(paused, first + FILLING - RUNNING))
            ]
            self._until(lambda now, some=some: _count(now, Phase.DECODE) == RUNNING + len(some), "they decode")  # type: ignore[misc]
            for turn in some:
                self._ask(self.host.pause(turn, AUTHOR))
        self._ask(self.host.set_knobs({"max_running": RUNNING}, AUTHOR))
        for i in range(count - blocked - paused):
            self._submit(f"waiting {i}", SHORT_PROMPT, LONGEST)

    def steps(self, count: int) -> list[Iteration]:
        """The next `count` steps in which exactly the eight decoded and nothing was prefilled."""
        first = len(self.watch.iterations)
        found: list[Iteration] = []

        def enough(now: Snapshot) -> bool:
            seen = self.watch.iterations[first:]
            found[:] = [i for i in seen if i.decoded == RUNNING and not i.prefilled][:count]
            return len(found) == count

        self._until(enough, f"{count} steps of {RUNNING} turns", WAIT_S + count)
        return found

    def _submit(
        self, agent: str, prompt: int, max_tokens: int, tool: str | None = None, sampling: Sampling | None = None
    ) -> TurnId:
        tokens = tuple(3 + (i * 7 + len(agent)) % 90 for i in range(prompt))
        request = TurnRequest(
            agent, tokens, max_tokens, sampling=sampling or Sampling(), ignore_eos=True, then_block=tool
        )
        return self._ask(self.host.submit(request, self._listen, AUTHOR))

    def _listen(self, update: TurnUpdate) -> None:
        """On the engine's thread; wakes who waits, so that nobody polls beside the engine."""
        if update.finish is Finish.ERROR or self._heard % RUNNING == 0 or not update.tokens:
            with self._moved:
                self._moved.notify_all()
        self._heard += 1

    def _ask(self, future: "Future[T]") -> T:
        return future.result(WAIT_S)

    def _until(self, seen: Callable[[Snapshot], bool], what: str, seconds: float = WAIT_S) -> None:
        deadline = self.host.now + seconds
        with self._moved:
            while not seen(self.host.snapshot):
                if not self.host.snapshot.state.serving:
                    raise Refused(f"the engine stopped: {self.host.snapshot.error}")
                if self.host.now > deadline:
                    raise Refused(f"not within {seconds:g} s: {what}")
                self._moved.wait(0.5)


def _count(snapshot: Snapshot, phase: Phase) -> int:
    return sum(turn.phase is phase for turn in snapshot.turns)
