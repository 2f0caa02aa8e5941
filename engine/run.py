"""One life of the engine: open the body, serve until stopped or broken, leave nobody waiting. On its own thread."""

import gc
import math
import queue
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from engine.backends.twin.backend import TwinBackend
from engine.body import Body, BodyConfig, OpenBody
from engine.clock import EngineClock
from engine.commands import Commands
from engine.control import Sink
from engine.errors import ParkdeckError, Refused
from engine.events import Event, MoveCost
from engine.knobs import Knobs
from engine.leap import Leaper
from engine.loop import Ticked
from engine.models.loaded import ServedModel
from engine.policies import policies
from engine.serving import PUBLISH_EVERY_S, Serving, Session
from engine.snapshot import HostState, Sample, Snapshot, Startup
from engine.waits import KnownWaits

T = TypeVar("T")

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
    for; `session`: its name; `author`: who started it; `numbers`: of its turns; `known`: of tools, from before it;
    `clock`: the machine's, or the body's own once that is open."""

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
        known: KnownWaits | None,
    ) -> None:
        self.body = config.body
        self.session = session
        self._config = config
        self._sinks = sinks
        self.clock = clock
        self._open_body = open_body
        self._publish_to_host = publish
        self._after = after
        self._author = author
        self._numbers = numbers
        self._known = known
        self._asked: queue.SimpleQueue[_Asked | None] = queue.SimpleQueue()
        self._closed = threading.Lock()
        self._over = False
        self._serving: Serving | None = None
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._live, name="parkdeck-engine", daemon=True)

    # -- from other threads -----------------------------------------------------------------------------------------

    @property
    def model(self) -> ServedModel | None:
        return self._serving.core.model if self._serving else None

    def samples(self) -> Sequence[Sample]:
        return self._serving.publisher.samples if self._serving else ()

    def events(self) -> Sequence[Event]:
        return self._serving.core.events.copy() if self._serving else ()

    def moves(self) -> Sequence[MoveCost]:
        return self._serving.core.moves.copy() if self._serving else ()

    def known_waits(self) -> tuple[tuple[str, float], ...]:
        return self._serving.core.waits.waits.known() if self._serving else ()

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
        blank = blank_snapshot(HostState.STARTING, self.session, self.clock, self._config)
        self._publish_to_host(self, replace(blank, startup=startup))

    def _serve(self, body: Body) -> None:
        """Numbered as a turn sees it: 1 commands, 2 governor and step, 3 snapshot, 4 sleep until something is due."""
        serving = self._assemble(body)
        twin = body.backend if isinstance(body.backend, TwinBackend) else None
        leaper = Leaper(serving.core, serving.loop, twin) if twin else None
        wait = 0.0
        while not self.stopping.is_set():
            ticked = serving.boundary(partial(self._drain, serving.commands, wait))
            if leaper is not None and ticked.worked and not self._interrupted():
                leaper.over(serving.follow, math.inf, self._interrupted)
            wait = self.clock.lead_s() if ticked.worked else self._sleep_for(ticked)

    def _interrupted(self) -> bool:
        """Somebody asks for something, or the clock is ahead of its pace, which leaves time to decide at each boundary:
        a leap is taken where there is none."""
        return not self._asked.empty() or self.stopping.is_set() or self.clock.lead_s() > 0

    def _assemble(self, body: Body) -> Serving:
        config = self._config
        self.clock = body.clock or self.clock
        session = Session(
            name=self.session,
            knobs=config.knobs,
            average_turn_tokens=config.body.average_turn_tokens,
            seed=config.seed,
            author=self._author,
            numbers=self._numbers,
            # As often in real time, however fast the engine's own clock goes.
            publish_every_s=PUBLISH_EVERY_S / self.clock.real_s(1.0),
        )
        serving = self._serving = Serving(session, body, self.clock, self._sinks, partial(self._publish_to_host, self))
        # What the start has made lives as long as the engine: no later collection needs to look at it again. An engine
        # before this one was frozen too and must go first.
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        serving.begin()
        if self._known is not None:
            serving.commands.learn_waits(self._known)
        return serving

    def _drain(self, commands: Commands, wait: float) -> None:
        """All commands that are there; waits for the first up to `wait` real seconds."""
        try:
            asked = self._first_asked(wait)
            while True:
                if asked is not None:
                    _answer(asked, commands)
                asked = self._asked.get_nowait()
        except queue.Empty:
            return

    def _first_asked(self, wait: float) -> "_Asked | None":
        """Raises queue.Empty."""
        if not wait:
            return self._asked.get_nowait()
        try:
            return self._asked.get(timeout=wait)
        finally:
            self.clock.follow()

    def _sleep_for(self, ticked: Ticked) -> float:
        """Real seconds."""
        due = IDLE_TICK_S if ticked.wake_at is None else ticked.wake_at - self.clock.now()
        return min(IDLE_TICK_S, max(1e-3, self.clock.real_s(due)))

    def _end(self, state: HostState, error: str | None) -> None:
        """No turn and no caller is left waiting."""
        with self._closed:
            self._over = True
        why = error or "the engine was stopped"
        serving = self._serving
        if serving is not None:
            serving.end(why)
        while True:
            try:
                asked = self._asked.get_nowait()
            except queue.Empty:
                break
            if asked is not None and asked.future.set_running_or_notify_cancel():
                asked.future.set_exception(Refused(f"{why}; restart it first"))
        blank = blank_snapshot(state, self.session, self.clock, self._config)
        if serving is not None:
            blank = serving.last_words(blank)
        self._publish_to_host(self, replace(blank, error=error))


def blank_snapshot(state: HostState, session: str, clock: EngineClock, config: HostConfig) -> Snapshot:
    """A snapshot of an engine that has no body yet, or none any more."""
    at = clock.now()
    return Snapshot(
        session=session,
        state=state,
        at=at,
        utc=clock.utc(at),
        step=0,
        model=_named(config.body),
        backend=config.body.backend,
        knobs=config.knobs,
        policies=tuple(policies()),
    )


def _named(body: BodyConfig) -> str:
    """What is not open yet."""
    return f"modelled: card {body.card}" if body.backend == "twin" else body.model or "default model"


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
