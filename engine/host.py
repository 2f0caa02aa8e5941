"""The host: what pages, swarm, CLI and API hold. It owns the engine thread's lives and hands commands over to it.

A turn's way: submit() here -> queue -> run.py [engine thread] -> commands.py -> loop.py: governor decides, backend
steps -> listener.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from typing import TypeVar

from engine.asked import check_request, check_turn, check_unblock
from engine.body import BodyConfig, OpenBody, chosen_backend, open_body
from engine.calibration.probes import Probe
from engine.changeover import as_left, checked_card, real_config
from engine.clock import EngineClock
from engine.commands import Commands
from engine.control import Listener, Sink, Unblock
from engine.errors import Refused
from engine.events import Event, EventKind, MoveCost
from engine.knobs import Knobs
from engine.models.loaded import ServedModel
from engine.models.resolve import check_choice
from engine.preview import Preview
from engine.run import HostConfig, Run, blank_snapshot
from engine.snapshot import HostState, ModelledCard, Sample, Snapshot, TurnDetail
from engine.thinning import after
from engine.turn import TurnId, TurnRequest
from engine.twin.live import live_config
from engine.waits import KnownWaits

__all__ = ["Host", "HostConfig"]

T = TypeVar("T")


class Host:
    """Implements engine.control.Control and TwinControl. `start` returns at once; the snapshot shows the progress. One
    engine thread at a time; a restart waits for the old one to end."""

    def __init__(
        self,
        config: HostConfig | None = None,
        sinks: Sequence[Sink] = (),
        clock: EngineClock | None = None,
        open_body: OpenBody = open_body,
    ) -> None:
        self._config = config or HostConfig()
        self._first = self._config.body
        self._sinks = tuple(sinks)
        self._clock = clock or EngineClock()
        self._open_body = open_body
        self._lifecycle = threading.RLock()
        self._run: Run | None = None
        self._runs = 0
        # A turn's number is not given again by a later engine: who still knows it would reach another's turn.
        self._numbers = count(1)
        self._ready: tuple[BodyConfig, str] | None = None
        self._left: HostConfig | None = None
        self._left_named = "the real engine"
        self._known: KnownWaits | None = None
        self._snapshot = self._blank(HostState.STOPPED, self._new_session(self._first))

    # -- life -------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the engine thread, after one that is ending; does nothing while one runs."""
        with self._lifecycle:
            if self._run is None or not self._run.thread.is_alive():
                self._begin(self._config.body)
            elif self._run.stopping.is_set():
                self._begin(self._config.body, after=self._run)

    def stop(self, timeout: float = 5.0) -> bool:
        """Ask the engine thread to end at the next token boundary; True when it ended within `timeout` seconds."""
        with self._lifecycle:
            run = self._run
        return run is None or run.stop(timeout)

    def restart(self, model: str | None = None, backend: str | None = None, author: str = "api") -> None:
        """See Control. The knobs stay as the operator left them, KV precision where the next body can have it."""
        if model is not None:
            check_choice(model)
        if backend is not None:
            chosen_backend(backend)
        with self._lifecycle:
            knobs = self._snapshot.knobs
            ran = self._ready[0] if self._ready else self._config.body
            twin = (ran.backend if backend is None else backend) == "twin"
            if twin != (self._config.body.backend == "twin"):
                # A card's knobs and sizes are none of a real engine's, nor the other way round.
                self._replace(live_config(ran.card) if twin else real_config(self._left, model, backend), author)
                return
            body = replace(
                ran,
                model=ran.model if model is None else model,
                backend=ran.backend if backend is None else backend,
                kv_dtype=knobs.kv_dtype if knobs.kv_dtype.switchable else ran.kv_dtype,
            )
            same = self._ready is not None and not _differ(ran, body)
            body = replace(body, host_bytes=knobs.host_pool_bytes if same else self._first.host_bytes)
            self._begin_after(replace(self._config, body=body, knobs=knobs), author)

    def start_twin(self, card: str, author: str = "api") -> str:
        name, config = checked_card(card), live_config(card)
        with self._lifecycle:
            if self._config.body.backend == "twin":
                raise Refused("the twin runs already; change its card, or go back to the real engine first")
            ran = self._snapshot.session if self._snapshot.bands is not None else ""
            self._replace(config, author)
        stored = f" Session {ran} stays stored." if ran else ""
        return f"The engine stops, and the twin of {name} starts in its place.{stored}"

    def leave_twin(self, author: str = "api") -> str:
        with self._lifecycle:
            if self._config.body.backend != "twin":
                raise Refused("no twin runs; this is the real engine")
            ran = self._snapshot.session if self._snapshot.bands is not None else ""
            self._replace(real_config(self._left), author)
        stored = f" The modelled session {ran} stays stored." if ran else ""
        return f"The twin stops, and {self._left_named} starts again.{stored}"

    def _replace(self, config: HostConfig, author: str) -> None:
        """A twin for the real engine, which is kept as it was left, or the other way round. The lock is held."""
        if config.body.backend == "twin":
            came_up = self._ready is not None and self._ready[0] == self._config.body
            self._left = as_left(self._config, self._snapshot.knobs, came_up)
            self._left_named = f"{self._snapshot.model} on {self._snapshot.backend}"
        self._begin_after(config, author)

    def _begin_after(self, config: HostConfig, author: str) -> None:
        """Once the engine that runs has ended. The lock is held."""
        self._config, old = config, self._run
        if old is not None:
            old.stopping.set()
            old.wake()
        self._begin(config.body, after=old, author=author)

    def know_waits(self, known: KnownWaits) -> None:
        """How long tools took before this engine: learnt by the one that runs, and by those after it. Not by a twin,
        whose tools are modelled."""
        with self._lifecycle:
            self._known, run = known, self._run
        if run is not None and run.body.backend != "twin":
            run.ask(lambda c: c.learn_waits(known))

    def _keep_waits(self, run: "Run") -> None:
        """What a real engine has learnt goes on with the next one."""
        learnt = run.known_waits()
        if learnt and run.body.backend != "twin":
            self._known = KnownWaits(learnt, "tools' durations are known from the engine before")

    def wait_ready(self, timeout: float = 600.0) -> Snapshot:
        """Block until the engine runs. Raises Refused with the engine's own sentence if it failed or took longer."""
        deadline = time.monotonic() + timeout
        while True:
            snapshot = self.snapshot
            if snapshot.state.serving:
                return snapshot
            if snapshot.state in (HostState.FAILED, HostState.STOPPED):
                raise Refused(snapshot.error or "the engine is stopped; start it first")
            if time.monotonic() > deadline:
                raise Refused(f"the engine was not ready within {timeout:g} s; see its progress on the page")
            time.sleep(0.02)

    def _begin(self, body: BodyConfig, after: "Run | None" = None, author: str = "engine") -> None:
        session = self._new_session(body)
        config = replace(self._config, body=body)
        self._snapshot = self._blank(HostState.STARTING, session)
        if self._run is not None:
            self._keep_waits(self._run)
        known = None if body.backend == "twin" else self._known
        self._run = Run(
            session,
            config,
            self._sinks,
            self._clock,
            self._open_body,
            self._publish,
            after,
            author,
            self._numbers,
            known,
        )
        self._run.thread.start()

    def _publish(self, run: "Run", snapshot: Snapshot) -> None:
        """Keeps what became ready last: as it was chosen, and the model's name."""
        if run is not self._run:
            return
        if snapshot.bands is not None:
            self._ready = run.body, snapshot.model
        elif self._ready is not None and _differ(self._ready[0], run.body):
            snapshot = replace(snapshot, ran_before=self._ready[1])
        self._snapshot = snapshot

    def _new_session(self, body: BodyConfig) -> str:
        self._runs += 1
        modelled = "-modelled" if body.backend == "twin" else ""
        started = datetime.fromtimestamp(self._clock.utc(self._clock.now()), UTC)
        return f"{started:%Y%m%dT%H%M%S}Z-{started.microsecond // 1000:03d}-{self._runs}{modelled}"

    def _blank(self, state: HostState, session: str) -> Snapshot:
        return blank_snapshot(state, session, self._clock, self._config)

    # -- reading ----------------------------------------------------------------------------------------------------

    @property
    def snapshot(self) -> Snapshot:
        return self._snapshot

    @property
    def now(self) -> float:
        run = self._run
        return self._clock.now() if run is None else run.clock.now()

    def real_s(self, seconds: float) -> float:
        """Real seconds in which `seconds` of the engine's clock pass."""
        run = self._run
        return seconds if run is None else run.clock.real_s(seconds)

    @property
    def model(self) -> ServedModel | None:
        return self._run.model if self._run else None

    def samples(self, since: float = float("-inf")) -> Sequence[Sample]:
        return after(self._run.samples(), since) if self._run else ()

    def events(self) -> Sequence[Event]:
        return self._run.events() if self._run else ()

    def moves(self) -> Sequence[MoveCost]:
        return self._run.moves() if self._run else ()

    # -- commands ---------------------------------------------------------------------------------------------------

    def submit(self, request: TurnRequest, listener: Listener | None = None, author: str = "api") -> "Future[TurnId]":
        asked = self.now
        return self._ask(lambda c: c.submit(request, listener, author, asked), lambda: check_request(request))

    def block(self, turn: TurnId, tool: str, author: str = "api") -> "Future[str]":
        return self._ask(lambda c: c.block(turn, tool, author), lambda: check_turn(turn))

    def unblock(self, result: Unblock, author: str = "api") -> "Future[str]":
        asked = self.now
        return self._ask(lambda c: c.unblock(result, author, asked), lambda: check_unblock(result))

    def cancel(self, turn: TurnId, author: str = "api") -> "Future[str]":
        return self._ask(lambda c: c.cancel(turn, author), lambda: check_turn(turn))

    def pause(self, turn: TurnId, author: str = "api") -> "Future[str]":
        return self._ask(lambda c: c.pause(turn, author), lambda: check_turn(turn))

    def resume(self, turn: TurnId, author: str = "api") -> "Future[str]":
        return self._ask(lambda c: c.resume(turn, author), lambda: check_turn(turn))

    def swap_out(self, turn: TurnId, author: str = "api") -> "Future[str]":
        return self._ask(lambda c: c.swap_out(turn, author), lambda: check_turn(turn))

    def drop(self, turn: TurnId, author: str = "api") -> "Future[str]":
        return self._ask(lambda c: c.drop(turn, author), lambda: check_turn(turn))

    def set_knobs(self, changes: Mapping[str, object], author: str = "api") -> "Future[Knobs]":
        wanted = dict(changes)
        return self._ask(lambda c: c.set_knobs(wanted, author))

    def set_card(self, changes: Mapping[str, object], author: str = "api") -> "Future[ModelledCard]":
        wanted = dict(changes)
        return self._ask(lambda c: c.set_card(wanted, author))

    def preview(self, changes: Mapping[str, object]) -> "Future[Preview]":
        wanted = dict(changes)
        return self._ask(lambda c: c.preview(wanted))

    def probe(self, probe: Probe[T], session: str) -> "Future[T]":
        return self._ask(lambda c: c.probe(probe), session=session)

    def turn_detail(self, turn: TurnId) -> "Future[TurnDetail]":
        return self._ask(lambda c: c.turn_detail(turn), lambda: check_turn(turn))

    def note(self, text: str, author: str = "api", kind: EventKind = EventKind.SWARM) -> "Future[None]":
        return self._ask(lambda c: c.note(text, author, kind))

    def _ask(
        self, act: Callable[[Commands], T], check: Callable[[], None] = lambda: None, session: str | None = None
    ) -> "Future[T]":
        """`check` runs here, on the caller's thread; what it refuses is the answer. `session`: of the only engine that
        may be asked; None: of whichever runs."""
        run = self._run
        try:
            check()
            if run is None:
                raise Refused("the engine is not started; start it first")
            if session is not None and session != run.session:
                raise Refused(f"the engine was restarted, its session {session} is over; ask the one that runs now")
        except Refused as refusal:
            future: Future[T] = Future()
            future.set_exception(refusal)
            return future
        return run.ask(act)


def _differ(ran: BodyConfig, asked: BodyConfig) -> bool:
    return (ran.model, ran.backend) != (asked.model, asked.backend)
