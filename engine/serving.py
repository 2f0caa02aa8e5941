"""An engine that is up, whoever drives it: what happens at a token boundary, what is published, who is told, and how it
ends. The host's thread drives it on the machine's clock (run.py), the twin's driver on a modelled one (twin/driver.py).
"""

import random
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from engine.backends.base import StepPlan
from engine.body import Body
from engine.clock import EngineClock
from engine.commands import Commands
from engine.control import Sink
from engine.core import core_over
from engine.events import Event, EventKind, Interval
from engine.knobs import Knobs
from engine.loop import Loop, Ticked
from engine.publish import Publisher
from engine.snapshot import HostState, Sample, Snapshot
from engine.turn import Finish, Phase

PUBLISH_EVERY_S = 0.05


@dataclass(frozen=True, slots=True)
class Session:
    """What a life of the engine begins with. `seed`: of the turns that bring none; `author`: who started it; `numbers`:
    of its turns; `publish_every_s`: so often, on the engine's clock, while it works."""

    name: str
    knobs: Knobs
    average_turn_tokens: int
    seed: int
    author: str
    numbers: Iterator[int]
    publish_every_s: float = PUBLISH_EVERY_S


class Serving:
    """Owned by one thread. `publish` takes each snapshot. Making it tells the sinks that the session has begun."""

    def __init__(
        self,
        session: Session,
        body: Body,
        clock: EngineClock,
        sinks: tuple[Sink, ...],
        publish: Callable[[Snapshot], None],
    ) -> None:
        self._session = session
        self._clock = clock
        self._sinks = sinks
        self._publish_snapshot = publish
        self._published_at = float("-inf")
        self._ticked = Ticked(worked=False, wake_at=None, stalled=None)
        self.core = core_over(body, clock, session.knobs, self._on_event, self._on_interval)
        self.commands = Commands(self.core, random.Random(session.seed), session.numbers)
        self.loop = Loop(self.core)
        self.publisher = Publisher(session.name, self.core, body.card, session.average_turn_tokens, self._on_sample)
        # The sinks do not know the session yet, so a sample would be booked under the one before.
        self._first = self.publisher.snapshot(HostState.IDLE, None, 0, sampling=False)
        self._each_sink(lambda sink: sink.begin(session.name, self._first))

    def begin(self) -> None:
        """Say that it is ready."""
        backend = self.core.backend.name
        self.core.event(EventKind.ENGINE, self._session.author, f"{self._first.model} ready on {backend}")
        self._publish_snapshot(self._first)

    def boundary(self, commands: Callable[[], None]) -> Ticked:
        """Numbered as a turn sees it: 1 commands, 2 governor and step, 3 snapshot."""
        core = self.core
        knobs, card = core.knobs, core.live_card.version if core.live_card else 0
        commands()
        if core.knobs is not knobs or (core.live_card and core.live_card.version != card):
            # Before the governor acts on it: what a change brings about is counted from here.
            self._publish(self._ticked, changed=True)
        self._ticked = self.loop.tick()
        self._publish(self._ticked)
        return self._ticked

    def follow(self, plan: StepPlan) -> None:
        """A boundary at which nobody asks for anything and the governor is known to decide nothing but this plan."""
        self._ticked = self.loop.follow(plan)
        self._publish(self._ticked)

    def end(self, why: str) -> None:
        """No turn is left waiting."""
        core, now = self.core, self._clock.now()
        for turn in list(core.ledger):
            core.end_recompute(turn)
            core.ledger.close_interval(turn, now)
            core.ledger.forget(turn, now, Phase.FAILED)
            core.tell(turn, (), "", Finish.ERROR, why)
        core.event(EventKind.ENGINE, "engine", why)

    def last_words(self, snapshot: Snapshot) -> Snapshot:
        """`snapshot` of an engine that is over, with what it came to."""
        core = self.core
        return replace(
            snapshot,
            counters=core.counters,
            knobs=core.knobs,
            step=core.step,
            events=core.events.latest(60),
            blocked=self.publisher.blocked(snapshot.at, within_s=0.0),
        )

    def _publish(self, ticked: Ticked, changed: bool = False) -> None:
        now = self._clock.now()
        if ticked.worked and not changed and now - self._published_at < self._session.publish_every_s:
            return
        self._published_at = now
        running = any(t.phase.running for t in self.core.ledger)
        state = HostState.STALLED if ticked.stalled else HostState.RUNNING if running else HostState.IDLE
        behind = sum(sink.behind for sink in self._sinks)
        self._publish_snapshot(self.publisher.snapshot(state, ticked.stalled, behind, changed=changed))

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
                self.core.event(EventKind.ENGINE, "engine", f"a recorder failed ({fault!r}) and stores no more")
