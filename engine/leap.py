"""How many boundaries ahead the governor would decide nothing, so that it need not be asked.

Once it has decided nothing, and while the same turns decode, only their lengths and the clock change. Lengths move one
way: turns grow, room falls, what could not start still cannot. So the governor is asked once more, at the state of the
last boundary that may be skipped; if it does nothing there it does nothing before. What the clock changes by itself
ends a leap: the instants that the rules compare it with (`quiet_until`), and those that the decision names, at the
first boundary or at the last: what a policy waits for may come nearer or go away as turns grow.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from engine.backends.base import StepPlan
from engine.backends.twin.backend import TwinBackend
from engine.core import Core
from engine.geometry import blocks_for
from engine.governor import decide, quiet_until
from engine.ledger import LiveTurn
from engine.loop import Loop
from engine.policies.own import PolicyFault
from engine.turn import Phase
from engine.view import Decision, TurnView, View

# Asked for each turn: a name of the module is found sooner than a member of its class.
_DECODE, _PREFILL = Phase.DECODE, Phase.PREFILL

LEAST = 2
"""Asking for one boundary costs what deciding there does."""


@dataclass(frozen=True, slots=True)
class Leap:
    """`plan` so many times in a row, no step of them beginning at or after `until`."""

    steps: int
    until: float
    plan: StepPlan


NONE = Leap(0, -math.inf, StepPlan(()))


class Leaper:
    """Over one running twin, at a boundary right after a step."""

    def __init__(self, core: Core, loop: Loop, backend: TwinBackend) -> None:
        self._core = core
        self._loop = loop
        self._backend = backend

    def over(self, follow: Callable[[StepPlan], None], due: float, interrupted: Callable[[], bool]) -> int:
        """Has the plan followed at each boundary that need not be decided at, before `due` and while nobody is there
        who wants to be heard at the next one. Returns how many these were."""
        leap, clock = self.ahead(due), self._core.clock
        done = 0
        while done < leap.steps and clock.now() < leap.until and not interrupted():
            follow(leap.plan)
            done += 1
        return done

    def ahead(self, due: float) -> Leap:
        """`due`: when somebody else acts next."""
        core = self._core
        now, asked_at = core.clock.now(), self._loop.idle_at
        if asked_at is None or self._backend.copying or now >= due:
            return NONE
        turns = [core.ledger.turns.get(work.turn) for work in self._loop.plan.work]
        rows = [turn for turn in turns if turn is not None and self._decodes(turn)]
        if not rows or len(rows) < len(turns):
            return NONE
        steps = min(self._until_finish(turn) for turn in rows)
        if steps < LEAST:
            return NONE
        view = core.view()
        if len([t for t in view.turns if t.phase is _DECODE or t.phase is _PREFILL]) > len(rows):
            return NONE
        named = self._loop.next_at
        until = min(due, quiet_until(view, core.knobs, asked_at), math.inf if named is None else named)
        steps = min(steps, math.ceil((until - now) / self._step_s(rows))) if until < math.inf else steps
        return self._asked(view, steps, until, asked_at) if steps >= LEAST else NONE

    def _decodes(self, turn: LiveTurn) -> bool:
        """With one token pending. A stop string could end it at any token."""
        return turn.phase is _DECODE and not turn.request.stop and self._never_ends(turn)

    def _never_ends(self, turn: LiveTurn) -> bool:
        model = self._core.model
        return turn.request.ignore_eos or model is None or not model.eos_ids

    def _until_finish(self, turn: LiveTurn) -> int:
        """Steps up to the one that ends its generation, or fills what it may ever hold."""
        return min(turn.max_tokens - turn.generated, self._loop.longest() - len(turn.tokens))

    def _step_s(self, rows: list[LiveTurn]) -> float:
        """A little less than the steps ahead will take."""
        tokens = sum(len(turn.tokens) for turn in rows)
        nbytes = tokens * self._backend.geometry.bytes_per_token(self._backend.kv_dtype)
        return self._backend.times.decode_s(len(rows), nbytes)

    def _asked(self, view: View, steps: int, until: float, at: float) -> Leap:
        """The governor is asked at the last boundary, as of the instant at which it decided nothing; where it would act
        there, at one half as far."""
        while steps >= LEAST:
            after = grown(view, steps - 1)
            if after is not None:
                try:
                    decision = decide(after, self._core.knobs, self._core.costs, at)
                except PolicyFault:
                    return NONE
                if self._changes_nothing(decision, view.evicting):
                    named = math.inf if decision.next_at is None else decision.next_at
                    return Leap(steps, min(until, named), decision.plan)
            steps //= 2
        return NONE

    def _changes_nothing(self, decision: Decision, evicting: bool) -> bool:
        same = {work.turn for work in decision.plan.work} == {work.turn for work in self._loop.plan.work}
        return not decision.actions and decision.evicting is evicting and same


def grown(view: View, steps: int) -> View | None:
    """The view once each running turn has decoded so many tokens more; None where the arena has no room for them."""
    size = view.memory.block_size
    taken = 0
    turns: list[TurnView] = []
    for turn in view.turns:
        if steps and (turn.phase is _DECODE or turn.phase is _PREFILL):
            blocks = blocks_for(turn.kv_tokens + steps, size)
            taken += blocks - turn.blocks
            turn = _longer(turn, steps, blocks)
        turns.append(turn)
    free = view.memory.blocks_free - taken
    if free < 0:
        return None
    return replace(view, turns=tuple(turns), memory=replace(view.memory, blocks_free=free))


def _longer(turn: TurnView, steps: int, blocks: int) -> TurnView:
    return replace(turn, tokens=turn.tokens + steps, kv_tokens=turn.kv_tokens + steps, blocks=blocks)
