"""The tour as the page uses it: one at a time for all tabs, on a thread of its own, steered from any thread."""

import dataclasses
import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Protocol

from engine.control import Control
from engine.errors import Refused
from engine.workload.tour.cast import AUTHOR
from engine.workload.tour.player import Player
from engine.workload.tour.state import Phase, TourState

ROUND_S = 0.1
ABSENT_S = 5.0
GONE_S = 180.0
CLOSED_WITHIN_S = 2.0
GONE = "Nobody looked at the tour for three minutes, so it ended."

log = logging.getLogger(__name__)


class Stoppable(Protocol):
    """The swarm, as far as the tour knows it."""

    def stop(self, author: str) -> bool: ...


class Tour:
    """Every verb returns at once. A `tab` leads the tour; others watch, and one of them leads when that tab has not
    looked for ABSENT_S, which is how a tab that was loaded again goes on. Verbs of other tabs raise Refused."""

    def __init__(self, control: Control, swarm: Stoppable, clock: Callable[[], float] = time.monotonic) -> None:
        self._control = control
        self._swarm = swarm
        self._clock = clock
        self._starting = threading.Lock()
        self._woken = threading.Event()
        self._asked: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._player: Player | None = None
        self._thread: threading.Thread | None = None
        self._looked_at = clock()
        self._closing = False

    @property
    def running(self) -> bool:
        player = self._player
        return player is not None and player.state.phase in (Phase.RUNNING, Phase.ENDING)

    def look(self, tab: str) -> TourState:
        """The state, for a tab that shows it."""
        player = self._player
        if player is None:
            return TourState()
        state, now = player.state, self._clock()
        if tab == state.owner:
            self._looked_at = now
        elif state.phase is Phase.RUNNING and now - self._looked_at > ABSENT_S:
            self._looked_at = now
            self._ask(partial(player.own, tab))
        return state

    def start(self, tab: str) -> None:
        """Raises Refused while one runs or is being put back, and without a running engine."""
        with self._starting:
            if self.running:
                raise Refused("the tour runs already; watch it, or wait until it has ended")
            if self._player is not None and not self._player.over:
                raise Refused("the last tour still has knobs to put back; start the engine and wait a moment")
            if not self._control.snapshot.state.serving:
                raise Refused("the engine does not run; start it, then take the tour")
            self._looked_at = self._clock()
            player = Player(self._control, partial(self._swarm.stop, AUTHOR), self._clock, self._woken.set, tab)
            self._player = player
            self._thread = threading.Thread(target=self._run, args=(player,), name="parkdeck-tour", daemon=True)
            self._thread.start()
        self._control.note("tour started", AUTHOR)

    def act(self, tab: str) -> None:
        self._ask(self._led(tab).act)

    def next(self, tab: str) -> None:
        self._ask(self._led(tab).next)

    def leave(self, tab: str) -> None:
        self._ask(self._led(tab).end)

    def forget(self) -> None:
        """The end of the last tour is read."""
        player = self._player
        if player is not None and player.state.phase is Phase.OVER:
            player.state = dataclasses.replace(player.state, phase=Phase.OFF)

    def close(self) -> None:
        """End what runs, while the engine is still there."""
        self._closing = True
        if self._player is not None:
            self._ask(self._player.end)
        if self._thread is not None:
            self._thread.join(CLOSED_WITHIN_S)

    def _led(self, tab: str) -> Player:
        player = self._player
        if player is None or player.state.phase is not Phase.RUNNING:
            raise Refused("no tour runs; start one")
        if tab != player.state.owner:
            raise Refused("another tab leads the tour; this one watches")
        return player

    def _ask(self, act: Callable[[], None]) -> None:
        self._asked.put(act)
        self._woken.set()

    def _run(self, player: Player) -> None:
        while not player.over and (self.running or not self._closing):
            try:
                self._round(player)
            except Exception as fault:
                log.exception("a fault of the tour")
                player.fail(f"The tour ended by a fault of its own ({fault}).")
            self._woken.wait(ROUND_S)
            self._woken.clear()

    def _round(self, player: Player) -> None:
        for _ in range(self._asked.qsize()):
            self._asked.get()()
        if self._clock() - self._looked_at > GONE_S:
            player.end(GONE)
        player.advance()
