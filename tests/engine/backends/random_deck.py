"""Random verbs over a few turns of any backend, for the conformance suite."""

import random
from collections.abc import Callable, Sequence

from engine.backends.base import Backend, StepPlan, Work
from engine.turn import Sampling, TurnId

GREEDY = Sampling()


class RandomDeck:
    """Random verbs over a few turns of a backend, never more than fit. `said`: what each turn has generated since its
    prompt was last changed."""

    TURNS = 5

    def __init__(self, backend: Backend, prompt: Callable[[int, int], tuple[int, ...]]) -> None:
        self._backend = backend
        self._make_prompt = prompt
        self._rng = random.Random(11)
        self._next = 0
        self._live: list[TurnId] = []
        self.prompts: dict[TurnId, list[int]] = {}
        self.said: dict[TurnId, list[int]] = {}
        self.dropped: set[TurnId] = set()

    def act(self) -> None:
        if len(self._live) < self.TURNS:
            self._open()
        for turn in list(self._live):
            if self._rng.random() < 0.15:
                getattr(self, "_" + self._rng.choice(["swap", "swap", "drop", "extend", "close"]))(turn)
        ready = [t for t in self._live if not self._backend.holding(t).host_bytes and self._rng.random() < 0.7]
        self._step([t for t in ready if len(self.prompts[t]) + len(self.said[t]) < 120])

    def come_back(self) -> None:
        """Every copy comes back and every turn takes two more steps, then all are closed."""
        for turn in self._live:
            if self._backend.holding(turn).host_bytes:
                assert self._backend.swap_in(turn) is not None
        for _ in range(2):
            self._step(self._live)
        for turn in list(self._live):
            self._backend.close(turn)

    def _open(self) -> None:
        turn = TurnId(self._next)
        self._next += 1
        self.prompts[turn], self.said[turn] = list(self._make_prompt(self._rng.randint(3, 60), self._next)), []
        self._backend.open(turn, self.prompts[turn], GREEDY)
        self._live.append(turn)

    def _swap(self, turn: TurnId) -> None:
        holding = self._backend.holding(turn)
        if holding.host_bytes:
            assert self._backend.swap_in(turn) is not None
        elif holding.blocks:
            assert self._backend.swap_out(turn) is not None

    def _drop(self, turn: TurnId) -> None:
        self._backend.drop(turn)
        self.dropped.add(turn)

    def _extend(self, turn: TurnId) -> None:
        context = [*self.prompts[turn], *self.said[turn]]
        keep = self._rng.randint(0, len(context))
        tail = list(self._make_prompt(self._rng.randint(1, 9), self._next + 50))
        if keep + len(tail) > 100:
            keep = 20
        self._backend.extend(turn, keep, tail)
        self.prompts[turn], self.said[turn] = [*context[:keep], *tail], []

    def _close(self, turn: TurnId) -> None:
        self._backend.close(turn)
        self._live.remove(turn)

    def _step(self, turns: Sequence[TurnId]) -> None:
        if not turns:
            return
        result = self._backend.step(StepPlan(tuple(Work(turn, 32) for turn in turns)))
        for step in result.turns:
            assert step.error is None, step.error
            if step.sampled is not None:
                self.said[step.turn].append(step.sampled)
