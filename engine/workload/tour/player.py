"""One tour from its start to its end, with everything put back. No thread and no clock of its own: `Tour` runs it on a
thread, a test on any clock."""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from engine.control import Control
from engine.errors import ParkdeckError
from engine.knob_words import change
from engine.snapshot import HostState
from engine.words import counted
from engine.workload.tour.cast import AUTHOR
from engine.workload.tour.stage import NotSeen, Stage, Waiting
from engine.workload.tour.state import Phase, Status, StepView, TourState
from engine.workload.tour.steps import STEPS

PUT_BACK_WITHIN_S = 20.0
LEFT = "The tour was left."
DONE = "That was the tour."


class Player:
    """Drive it from one thread: `advance` does what is due. `state` may be read from any thread. Over when `over` is
    True: nothing of the tour lives any more, and its knobs are back where the engine lets them."""

    def __init__(
        self,
        control: Control,
        stop_swarm: Callable[[], bool],
        clock: Callable[[], float],
        wake: Callable[[], None],
        owner: str = "",
    ) -> None:
        self._control = control
        self._stage = Stage(control, stop_swarm, clock, wake)
        self._playing: Waiting[str] | None = None
        self._ending: Waiting[None] | None = None
        self.over = False
        steps = tuple(StepView(s.title, s.button, s.does, s.watch, s.colour) for s in STEPS)
        first = replace(steps[0], status=Status.READY)
        utc = control.snapshot.utc
        self.state = TourState(Phase.RUNNING, (first, *steps[1:]), owner=owner, since_utc=utc)

    # -- what the visitor asks --------------------------------------------------------------------------------------

    def act(self) -> None:
        """Have the present step done, or tried again."""
        if self.state.phase is not Phase.RUNNING or self._playing is not None or self._status is Status.SEEN:
            return
        self._stage.begin()
        self._playing = STEPS[self.state.step].play(self._stage)
        self._say(Status.WORKING, "")

    def next(self) -> None:
        """To the step after one that was seen, or was not seen and is passed; after the last one to the end."""
        if self.state.phase is not Phase.RUNNING or self._status not in (Status.SEEN, Status.UNSEEN):
            return
        if self.state.step + 1 == len(STEPS):
            self.end(DONE)
            return
        self.state = replace(self.state, step=self.state.step + 1)
        self._say(Status.READY, "")

    def end(self, why: str = LEFT) -> None:
        """Cancel its turns and put the knobs back; nothing happens when it is ending already."""
        if self.state.phase is not Phase.RUNNING:
            return
        self._playing = None
        self.state = replace(self.state, phase=Phase.ENDING, note=why)
        self._ending = self._put_back(why)

    def fail(self, why: str) -> None:
        """After a fault of its own: end as well as may be; a second one ends it as it is."""
        if self.state.phase is Phase.RUNNING:
            self.end(why)
        else:
            self.over = True
            self.state = replace(self.state, phase=Phase.OVER)

    def own(self, owner: str) -> None:
        self.state = replace(self.state, owner=owner)

    # -- rounds -----------------------------------------------------------------------------------------------------

    def advance(self) -> None:
        if self.over:
            return
        self._stage.look()
        if self.state.phase is Phase.RUNNING:
            self._watch_engine()
        if self._ending is not None:
            self._go_on_ending()
        elif self._playing is not None:
            self._go_on()

    def _watch_engine(self) -> None:
        snapshot = self._stage.snapshot
        place = f"in step {self.state.step + 1} of the tour, which ends here"
        if snapshot.session != self._stage.session:
            self.end(f"The engine was started anew {place}.")
        elif not snapshot.state.serving:
            failed = snapshot.state is HostState.FAILED
            self.end(f"The engine {'failed' if failed else 'was stopped'} {place}.")

    def _go_on(self) -> None:
        assert self._playing is not None
        try:
            next(self._playing)
        except StopIteration as seen:
            self._rest(Status.SEEN, seen.value)
        except (NotSeen, ParkdeckError) as reason:
            self._rest(Status.UNSEEN, _sentence(str(reason)))

    def _rest(self, status: Status, said: str) -> None:
        self._playing = None
        self._stage.rest()
        self._say(status, said)

    def _go_on_ending(self) -> None:
        assert self._ending is not None
        try:
            next(self._ending)
        except StopIteration:
            self.over = True

    def _put_back(self, why: str) -> Waiting[None]:
        stage = self._stage
        count = 0
        if stage.cast is not None:
            count = len(stage.cast.turns())
            yield from self._settled(stage.cast.cancel_all())
            # Only a snapshot without them is newer than all that was asked before.
            yield from self._within(lambda: not stage.cast or not stage.cast.rows(stage.snapshot))
        ended = f"{counted(count, 'turn')} cancelled." if count and self._alive else ""
        self.state = replace(self.state, note=" ".join(filter(None, (why, ended))))
        while stage.to_put_back(stage.snapshot.knobs) and not self._serving:
            # A new engine keeps the knobs, so they are put back as soon as there is one.
            self.state = replace(self.state, phase=Phase.OVER, swarm_ran=stage.swarm_ran)
            yield
        back = yield from self._knobs_back()
        note = " ".join(filter(None, (why, ended, back)))
        self.state = replace(self.state, phase=Phase.OVER, note=note, swarm_ran=stage.swarm_ran)

    @property
    def _alive(self) -> bool:
        return self._serving and self._stage.snapshot.session == self._stage.session

    @property
    def _serving(self) -> bool:
        return self._stage.snapshot.state.serving

    def _knobs_back(self) -> Waiting[str]:
        stage = self._stage
        changes = stage.to_put_back(stage.snapshot.knobs)
        if not changes:
            return "The knobs are as they were."
        before = stage.snapshot.knobs
        future = self._control.set_knobs(changes, AUTHOR)
        yield from self._settled([future])
        if not future.done():
            return "The knobs are put back as soon as the engine answers."
        error = future.exception()
        if error is not None:
            return f"The knobs could not be put back: {error}."
        after = future.result()
        told = (change(name, getattr(before, name), getattr(after, name)) for name in changes)
        return f"Put back: {'; '.join(told)}."

    def _settled(self, futures: "list[Future[Any]]") -> Waiting[None]:
        yield from self._within(lambda: all(future.done() for future in futures))

    def _within(self, true: Callable[[], bool]) -> Waiting[None]:
        deadline = self._stage.now + PUT_BACK_WITHIN_S
        while not true() and self._stage.now < deadline:
            yield

    # -- what is shown ----------------------------------------------------------------------------------------------

    @property
    def _status(self) -> Status:
        return self.state.steps[self.state.step].status

    def _say(self, status: Status, said: str) -> None:
        steps = list(self.state.steps)
        steps[self.state.step] = replace(steps[self.state.step], status=status, said=said)
        self.state = replace(self.state, steps=tuple(steps))


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}".rstrip(".") + "."
