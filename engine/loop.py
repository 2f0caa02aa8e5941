"""One token boundary: decide, carry the actions out, step, take in what came. The middle of a turn's way from arrival
to last token; the host calls `tick` until there is nothing to do."""

import math
from dataclasses import dataclass, replace

from engine.backends.base import StepPlan, StepResult, TurnStep
from engine.core import Core
from engine.events import EventKind
from engine.governor import decide
from engine.knob_words import change
from engine.ledger import LiveTurn
from engine.policies import DEFAULT
from engine.policies.own import PolicyFault
from engine.turn import Finish, Phase, Tier
from engine.view import Action, Decision, Drop, Fail, Preempt, Reason, Stall, Start, SwapIn, SwapOut
from engine.words import counted

LANDING_S = 2e-3
"""While nobody runs, copies under way are looked after so often."""


@dataclass(frozen=True, slots=True)
class Ticked:
    """`worked`: a step ran. `wake_at`: otherwise when to ask again (None: when something arrives). `stalled`: a
    sentence while a stall lasts; one that this boundary broke is an event and a count."""

    worked: bool
    wake_at: float | None
    stalled: str | None


class Loop:
    """Over one running engine."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._stall: str | None = None
        self._plan = StepPlan(())
        self._idle_at: float | None = None
        self._next_at: float | None = None

    @property
    def plan(self) -> StepPlan:
        """Of the last boundary."""
        return self._plan

    @property
    def idle_at(self) -> float | None:
        """When the governor was asked last, if it then wanted nothing but a step."""
        return self._idle_at

    @property
    def next_at(self) -> float | None:
        """The first later instant that it named then."""
        return self._next_at

    def tick(self) -> Ticked:
        """A whole boundary and, if anything may run, one step of the backend."""
        core = self._core
        core.land()
        now = core.clock.now()
        decision = self._decided(now)
        core.evicting = decision.evicting
        self._idle_at = None if decision.actions else now
        self._next_at = decision.next_at
        self._note_stall(decision.stalled)
        for action in decision.actions:
            self._carry_out(action, now)
        plan = self._plan = self._still_running(decision.plan)
        if plan.work:
            self._step()
        acted = bool(plan.work or decision.actions)
        wake_at = decision.wake_at
        if core.copying and not plan.work:
            wake_at = min(now + LANDING_S, math.inf if wake_at is None else wake_at)
        return Ticked(acted, wake_at, None if plan.work else self._stall)

    def _decided(self, now: float) -> Decision:
        """A policy that breaks its promises is put out of force, and the default one decides."""
        core = self._core
        try:
            return decide(core.view(), core.knobs, core.costs, now)
        except PolicyFault as fault:
            core.ledger.close_all_intervals(now)
            old, new = core.knobs, replace(core.knobs, policy=DEFAULT)
            core.ledger.knobs = new
            text = f"{change('policy', old.policy, new.policy)}: {fault}"
            core.event(EventKind.KNOB, "engine", text, name="policy", old=old.policy, new=new.policy, seconds=0.0)
        return decide(core.view(), core.knobs, core.costs, now)

    def follow(self, plan: StepPlan) -> Ticked:
        """A boundary at which the governor is known to decide nothing and to plan this."""
        self._plan = plan
        self._step()
        return Ticked(True, None, None)

    def _step(self) -> None:
        result = self._core.backend.step(self._plan)
        self._core.land()
        self._take_in(result)
        self._core.step += 1

    # -- actions ----------------------------------------------------------------------------------------------------

    def _carry_out(self, action: Action, now: float) -> None:
        core = self._core
        turn = core.ledger.turns.get(action.turn)
        if turn is None:
            return
        match action:
            case Preempt(for_turn=for_turn, reason=reason):
                other = core.ledger.turns.get(for_turn) if for_turn is not None else None
                core.preempt(turn, now, f"for {other.agent}" if other else f"({reason})")
            case SwapOut(reason=reason):
                if not core.swap_out(turn, now, reason):
                    core.drop(turn, now, Reason.HOST_FULL)
            case Drop(reason=reason):
                core.drop(turn, now, reason)
                if reason is Reason.ABANDONED:
                    core.count(abandoned=1)
            case SwapIn(ahead=ahead):
                core.swap_in(turn, now, ahead)
            case Start():
                self._start(turn, now)
            case Fail(message=message):
                core.event(EventKind.FAIL, "governor", f"{turn.agent}: {message}", turn)
                core.end(turn, now, Phase.FAILED, Finish.ERROR, message)

    def _start(self, turn: LiveTurn, now: float) -> None:
        """Give the slot, unless the KV that should be here did not arrive: then the next boundary decides anew."""
        core = self._core
        held = core.backend.holding(turn.id)
        if turn.tier is Tier.HOST or (turn.tier is Tier.DROPPED and held.kv_tokens):
            return
        if turn.phase is Phase.PAUSED and turn.preemptions:
            turn.resumed_at = now
            core.event(EventKind.RESUME, "governor", f"{turn.agent} has its slot back", turn)
        core.waits.started(turn.id, now)
        turn.ahead = False
        pending = len(turn.tokens) - held.kv_tokens
        core.ledger.move(turn, now, phase=Phase.DECODE if pending == 1 else Phase.PREFILL)

    def _still_running(self, plan: StepPlan) -> StepPlan:
        turns = self._core.ledger.turns
        return StepPlan(tuple(w for w in plan.work if w.turn in turns and turns[w.turn].phase.running))

    def _note_stall(self, stall: Stall | None) -> None:
        sentence = self._stall_sentence(stall) if stall else None
        if stall and sentence and sentence != self._stall:
            self._core.count(stalls=int(bool(stall.left)))
            self._core.event(EventKind.STALL, "governor", sentence, self._core.ledger.find(stall.turn))
        self._stall = sentence

    def _stall_sentence(self, stall: Stall) -> str:
        find = self._core.ledger.find
        agent, room = find(stall.turn).agent, counted(stall.blocks, "block")
        room += f" ({self._core.mib(stall.blocks * self._core.backend.memory().block_bytes)})"
        if not stall.left:
            return f"{agent} lacks {room} and no parked turn holds any; nobody can run"
        first = find(stall.left[0]).agent
        who = first if len(stall.left) == 1 else f"{first} and {len(stall.left) - 1} more"
        return f"{agent} lacked {room} and nobody could run; {who} left the arena for it"

    # -- results ----------------------------------------------------------------------------------------------------

    def _take_in(self, result: StepResult) -> None:
        core = self._core
        now = core.clock.now()
        core.stats.tokens(now, result.prefill_tokens, result.decode_tokens)
        core.count(generated_tokens=sum(done.sampled is not None for done in result.turns))
        longest = self.longest()
        for turn_id in result.preempted:
            turn = core.ledger.find(turn_id)
            core.preempt(turn, now, "by the backend itself", author=core.backend.name)
            core.end_recompute(turn)
            core.move_tier(turn, now, Tier.DROPPED)
        for done in result.turns:
            turn = core.ledger.find(done.turn)
            if done.error:
                core.event(EventKind.FAIL, "engine", f"{turn.agent}: {done.error}", turn)
                core.end(turn, now, Phase.FAILED, Finish.ERROR, done.error)
            else:
                self._advance(turn, done, now, result.seconds, longest)

    def longest(self) -> int:
        """Tokens of a turn that neither the model's context nor the whole arena can take one more of."""
        backend = self._core.backend
        return min(backend.max_context, backend.memory().blocks_total * backend.block_size)

    def _advance(self, turn: LiveTurn, done: TurnStep, now: float, seconds: float, longest: int) -> None:
        core = self._core
        kv_tokens = core.backend.holding(turn.id).kv_tokens
        again = max(0, min(turn.computed_once, kv_tokens) - (kv_tokens - done.computed))
        if again:
            core.recompute(turn, again, seconds, whole=kv_tokens >= turn.computed_once)
        turn.computed_once = max(turn.computed_once, kv_tokens)
        if turn.tier is not Tier.RESIDENT and kv_tokens:
            core.move_tier(turn, now, Tier.RESIDENT)
        if done.sampled is None:
            return
        core.ledger.move(turn, now, phase=Phase.DECODE)
        turn.tokens.append(done.sampled)
        turn.generated += 1
        turn.generated_total += 1
        self._time_token(turn, now)
        ended = self._finish_reason(turn, done.sampled, longest)
        text = "" if ended is Finish.STOP and self._is_eos(turn, done.sampled) else turn.output.feed(done.sampled)
        if ended is None and turn.output.stopped:
            ended = Finish.STOP
        core.tell(turn, (done.sampled,), text)
        if ended is not None:
            self._stop(turn, now, ended)

    def _time_token(self, turn: LiveTurn, now: float) -> None:
        stats = self._core.stats
        if turn.asked_at is not None:
            stats.first_token(now - turn.asked_at, turn.priority)
            turn.asked_at = None
        elif turn.last_token_at is not None:
            stats.next_token(now, now - turn.last_token_at)
        turn.last_token_at = now

    def _finish_reason(self, turn: LiveTurn, token: int, longest: int) -> Finish | None:
        if self._is_eos(turn, token):
            return Finish.STOP
        if turn.generated >= turn.max_tokens or len(turn.tokens) >= longest:
            return Finish.LENGTH
        return None

    def _is_eos(self, turn: LiveTurn, token: int) -> bool:
        model = self._core.model
        return not turn.request.ignore_eos and model is not None and token in model.eos_ids

    def _stop(self, turn: LiveTurn, now: float, finish: Finish) -> None:
        core = self._core
        if turn.then_block:
            core.block(turn, now, turn.then_block, "engine")
            return
        core.event(
            EventKind.FINISH, "engine", f"{turn.agent} done: {counted(turn.generated_total, 'token')} ({finish})", turn
        )
        core.end(turn, now, Phase.DONE, finish)
