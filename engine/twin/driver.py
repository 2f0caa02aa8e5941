"""An engine and its agents on one thread: the same boundary as the host's, with time going on as the clock's kind asks.

At each boundary the agents act first, then the governor decides and the backend steps. Where nothing worked, time goes
on to what is due next. On a modelled clock a run is a function of its seed.
"""

import math
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from engine.clock import EngineClock
from engine.commands import Commands
from engine.control import Listener, Unblock
from engine.errors import Refused
from engine.events import EventKind
from engine.leap import Leaper
from engine.loop import Ticked
from engine.models.loaded import ServedModel
from engine.serving import Serving
from engine.snapshot import Snapshot
from engine.turn import TurnId, TurnRequest
from engine.workload.player import Player

T = TypeVar("T")

SHORTEST_WAIT_S = 1e-6


class Desk:
    """An AgentControl at a token boundary, on the thread that owns the engine: what is asked is done at once."""

    def __init__(self, serving: Serving, clock: EngineClock, snapshot: Callable[[], Snapshot]) -> None:
        self._serving = serving
        self._clock = clock
        self._snapshot = snapshot

    @property
    def snapshot(self) -> Snapshot:
        return self._snapshot()

    @property
    def model(self) -> ServedModel | None:
        return self._serving.core.model

    def submit(self, request: TurnRequest, listener: Listener | None = None, author: str = "api") -> "Future[TurnId]":
        return self._now(lambda c: c.submit(request, listener, author, self._clock.now()))

    def unblock(self, result: Unblock, author: str = "api") -> "Future[str]":
        return self._now(lambda c: c.unblock(result, author, self._clock.now()))

    def cancel(self, turn: TurnId, author: str = "api") -> "Future[str]":
        return self._now(lambda c: c.cancel(turn, author))

    def note(self, text: str, author: str = "api", kind: EventKind = EventKind.SWARM) -> "Future[None]":
        return self._now(lambda c: c.note(text, author, kind))

    def _now(self, act: Callable[[Commands], T]) -> "Future[T]":
        future: Future[T] = Future()
        try:
            future.set_result(act(self._serving.commands))
        except Refused as refusal:
            future.set_exception(refusal)
        return future


class Driver:
    """`wait_until(at)`: lets the clock come to `at`. `leaper`: of a modelled engine whose quiet boundaries are to be
    skipped. `leapt`: how many were."""

    def __init__(
        self,
        serving: Serving,
        clock: EngineClock,
        player: Player,
        wait_until: Callable[[float], None],
        leaper: Leaper | None = None,
    ) -> None:
        self._serving = serving
        self._clock = clock
        self._player = player
        self._wait_until = wait_until
        self._leaper = leaper
        self._due = -math.inf
        self.leapt = 0

    def run(self, end: float = math.inf) -> None:
        """Until `end`, or until no agent is left. Raises Refused when those who are left wait for what never comes."""
        while self._clock.now() < end:
            ticked = self._serving.boundary(self._agents)
            if ticked.worked:
                if self._leaper is not None:
                    self._leap(self._leaper, end)
            elif self._player.idle:
                return
            elif not self._player.posted:
                self._pass_time(ticked, end)

    def _agents(self) -> None:
        now = self._clock.now()
        while self._player.posted or now >= self._due:
            due = self._player.advance(now)
            self._due = math.inf if due is None else due

    def _leap(self, leaper: Leaper, end: float) -> None:
        if not self._player.posted:
            self.leapt += leaper.over(self._serving.follow, min(self._due, end), _by_nobody)

    def _pass_time(self, ticked: Ticked, end: float) -> None:
        wake = math.inf if ticked.wake_at is None else ticked.wake_at
        at = min(wake, self._due, end)
        if at == math.inf:
            raise Refused(ticked.stalled or "the agents that are left wait for something that never comes")
        self._wait_until(max(at, self._clock.now() + SHORTEST_WAIT_S))


def _by_nobody() -> bool:
    """Agents hear of what ends a turn alone, which ends a leap."""
    return False
