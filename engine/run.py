"""One life of the engine: open the body, serve until stopped or broken, leave nobody waiting. On its own thread."""

import gc
import queue
import random
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import TypeVar

from engine.body import Body, BodyConfig, OpenBody
from engine.clock import EngineClock
from engine.commands import Commands
from engine.control import Sink
from engine.core import Core, core_over
from engine.errors import ParkdeckError, Refused
from engine.events import Event, EventKind, Interval, MoveCost
from engine.knobs import Knobs
from engine.loop import Loop, Ticked
from engine.models.loaded import ServedModel
from engine.policies import policies
from engine.publish import Publisher
from engine.snapshot import HostState, Sample, Snapshot, Startup
from engine.turn import Finish, Phase

T = TypeVar("T")

PUBLISH_EVERY_S = 0.05
IDLE_TICK_S = 0.25


@dataclass(frozen=True, slots=True)
class HostConfig:
    """How a host starts: its body, its first knobs, and the seed from which turns without one draw theirs.
    `head_start_s`: the first engine waits so long, for opening a body keeps the interpreter from drawing a page."""

    body: BodyConfig = field(default_factory=BodyConfig)
    knobs: Knobs = field(default_factory=Knobs)
    seed: int = 0
    head_start_s: float = 0.0


@dataclass(slots=True)
class _Asked:
    act: Callable[[Commands], object]
    future: "Future[object]"


class Run:
    """One life of the engine: opens the body, runs until stopped or broken, cleans up. `body`: what it was asked
    for; `session`: its name; `author`: who started it; `numbers`: of its turns."""

    def __init__(
        self,
        session: str,
        config: HostConfig,
        sinks: tuple[Sink, ...],
        clock: EngineClock,
        open_body: OpenBody,
        publish: Callable[["Run", Snapshot], None],
        after: "Run | None",
        author: str,
        numbers: Iterator[int],
    ) -> None:
        self.body = config.body
        self.session = session
        self._config = config
        self._sinks = sinks
        self._clock = clock
        self._open_body = open_body
        self._publish_to_host = publish
        self._after = after
        self._author = author
        self._numbers = numbers
        self._asked: queue.SimpleQueue[_Asked | None] = queue.SimpleQueue()
        self._closed = threading.Lock()
        self._over = False
        self._core: Core | None = None
        self._publisher: Publisher | None = None
        self._published_at = float("-inf")
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._live, name="parkdeck-engine", daemon=True)

    # -- from other threads -----------------------------------------------------------------------------------------

    @property
    def model(self) -> ServedModel | None:
        return self._core.model if self._core else None

    def samples(self) -> Sequence[Sample]:
        return self._publisher.samples if self._publisher else ()

    def events(self) -> Sequence[Event]:
        return self._core.events.copy() if self._core else ()

    def moves(self) -> Sequence[MoveCost]:
        return self._core.moves.copy() if self._core else ()

    def ask(self, act: Callable[[Commands], T]) -> "Future[T]":
        future: Future[T] = Future()
        with self._closed:
            if not self._over:
                self._asked.put(_Asked(act, future))  # type: ignore[arg-type]
                return future
        future.set_exception(Refused("the engine has stopped; restart it first"))
        return future

    def wake(self) -> None:
        self._asked.put(None)

    def stop(self, timeout: float) -> bool:
        self.stopping.set()
        self.wake()
        if self.thread.is_alive():
            self.thread.join(timeout)
        return not self.thread.is_alive()

    # -- the engine thread ------------------------------------------------------------------------------------------

    def _live(self) -> None:
        body: Body | None = None
        try:
            if self._after is not None:
                self._after.thread.join()
                self._after = None
            else:
                self.stopping.wait(self._config.head_start_s)
            if self.stopping.is_set():
                raise Refused("the start was called off")
            body = self._open_body(self._config.body, self._report)
            self._serve(body)
            self._end(HostState.STOPPED, None)
        except ParkdeckError as error:
            self._end(HostState.FAILED, str(error))
        except BaseException as error:  # noqa: BLE001 -- rule 5: the engine stops loudly, the page says why
            traceback.print_exc()
            self._end(HostState.FAILED, f"the engine stopped on a fault: {type(error).__name__}: {error}")
        finally:
            if body is not None:
                body.backend.shutdown()

    def _report(self, startup: Startup) -> None:
        if self.stopping.is_set():
            raise Refused("the start was called off")
        blank = blank_snapshot(HostState.STARTING, self.session, self._clock, self._config)
        self._publish_to_host(self, replace(blank, startup=startup))

    def _serve(self, body: Body) -> None:
        """Numbered as a turn sees it: 1 commands, 2 governor and step, 3 snapshot, 4 sleep until something is due."""
        core, commands, loop, publisher = self._assemble(body)
        wake_in: float | None = 0.0
        ticked = Ticked(worked=False, wake_at=None, stalled=None)
        while not self.stopping.is_set():
            knobs = core.knobs
            self._drain(commands, wake_in)
            if core.knobs is not knobs:
                # Before the governor acts on it: what a change brings about is counted from here.
                self._publish(core, publisher, ticked, changed=True)
            ticked = loop.tick()
            self._publish(core, publisher, ticked)
            wake_in = 0.0 if ticked.worked else self._sleep_for(ticked)

    def _assemble(self, body: Body) -> tuple[Core, Commands, Loop, Publisher]:
        core = core_over(body, self._clock, self._config.knobs, self._on_event, self._on_interval)
        publisher = Publisher(self.session, core, body.card, self._config.body.average_turn_tokens, self._on_sample)
        # The sinks do not know the session yet, so a sample would be booked under the one before.
        first = publisher.snapshot(HostState.IDLE, None, 0, sampling=False)
        self._each_sink(lambda sink: sink.begin(self.session, first))
        self._core, self._publisher = core, publisher
        # What the start has made lives as long as the engine: no later collection needs to look at it again. An engine
        # before this one was frozen too and must go first.
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        core.event(EventKind.ENGINE, self._author, f"{first.model} ready on {body.backend.name}")
        self._publish_to_host(self, first)
        return core, Commands(core, random.Random(self._config.seed), self._numbers), Loop(core), publisher

    def _drain(self, commands: Commands, wait: float | None) -> None:
        """All commands that are there; waits for the first up to `wait` seconds."""
        try:
            asked = self._asked.get(timeout=wait) if wait else self._asked.get_nowait()
            while True:
                if asked is not None:
                    _answer(asked, commands)
                asked = self._asked.get_nowait()
        except queue.Empty:
            return

    def _sleep_for(self, ticked: Ticked) -> float:
        if ticked.wake_at is None:
            return IDLE_TICK_S
        return min(IDLE_TICK_S, max(1e-3, ticked.wake_at - self._clock.now()))

    def _publish(self, core: Core, publisher: Publisher, ticked: Ticked, changed: bool = False) -> None:
        now = self._clock.now()
        if ticked.worked and not changed and now - self._published_at < PUBLISH_EVERY_S:
            return
        self._published_at = now
        running = any(t.phase.running for t in core.ledger)
        state = HostState.STALLED if ticked.stalled else HostState.RUNNING if running else HostState.IDLE
        behind = sum(sink.behind for sink in self._sinks)
        self._publish_to_host(self, publisher.snapshot(state, ticked.stalled, behind, changed=changed))

    def _end(self, state: HostState, error: str | None) -> None:
        """No turn and no caller is left waiting."""
        with self._closed:
            self._over = True
        why = error or "the engine was stopped"
        core = self._core
        if core is not None:
            now = self._clock.now()
            for turn in list(core.ledger):
                core.end_recompute(turn)
                core.ledger.close_interval(turn, now)
                core.ledger.forget(turn, now, Phase.FAILED)
                core.tell(turn, (), "", Finish.ERROR, why)
            core.event(EventKind.ENGINE, "engine", why)
        while True:
            try:
                asked = self._asked.get_nowait()
            except queue.Empty:
                break
            if asked is not None and asked.future.set_running_or_notify_cancel():
                asked.future.set_exception(Refused(f"{why}; restart it first"))
        blank = blank_snapshot(state, self.session, self._clock, self._config)
        if core is not None:
            blank = replace(
                blank, counters=core.counters, knobs=core.knobs, step=core.step, events=core.events.latest(60)
            )
        self._publish_to_host(self, replace(blank, error=error))

    def _on_event(self, event: Event) -> None:
        self._each_sink(lambda sink: sink.event(event))

    def _on_interval(self, interval: Interval) -> None:
        self._each_sink(lambda sink: sink.interval(interval))

    def _on_sample(self, sample: Sample) -> None:
        self._each_sink(lambda sink: sink.sample(sample))

    def _each_sink(self, tell: Callable[[Sink], None]) -> None:
        """A sink that raises is cut off and told, on stderr and as an event; the engine goes on without it."""
        for sink in self._sinks:
            try:
                tell(sink)
            except Exception as fault:  # noqa: BLE001 -- who writes down what happened must not stop it
                traceback.print_exc()
                self._sinks = tuple(kept for kept in self._sinks if kept is not sink)
                if self._core is not None:
                    self._core.event(EventKind.ENGINE, "engine", f"a recorder failed ({fault!r}) and stores no more")


def blank_snapshot(state: HostState, session: str, clock: EngineClock, config: HostConfig) -> Snapshot:
    """A snapshot of an engine that has no body yet, or none any more."""
    at = clock.now()
    return Snapshot(
        session=session,
        state=state,
        at=at,
        utc=clock.utc(at),
        step=0,
        model=config.body.model or "default model",
        backend=config.body.backend,
        knobs=config.knobs,
        policies=tuple(sorted(policies())),
    )


def _answer(asked: _Asked, commands: Commands) -> None:
    """A refusal goes to the caller; a fault goes to the caller and stops the engine."""
    if not asked.future.set_running_or_notify_cancel():
        return
    try:
        result = asked.act(commands)
    except Refused as refusal:
        asked.future.set_exception(refusal)
    except Exception as fault:
        asked.future.set_exception(fault)
        raise
    else:
        asked.future.set_result(result)
