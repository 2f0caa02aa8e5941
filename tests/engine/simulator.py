"""A body in memory for the governor's tests: it carries decisions out as the host does, on a virtual clock, counts
blocks and host bytes, and checks after every decision that the rules held. No torch, no threads.

`Simulator(...)`, then `submit`, `block`, `unblock`, `cancel`, `pause`, `resume`, `set_knobs`, `set_block_bytes`;
`step()` is one token boundary, `drain()` lets everything end.
"""

from collections import Counter
from dataclasses import dataclass, field, replace

from engine.costs import Costs
from engine.governor import TIER_DWELL_S, decide
from engine.governor.timing import aged_in, in_quantum, place
from engine.knobs import Knobs
from engine.turn import Phase, Priority, Tier, TurnId
from engine.view import Decision, Drop, Fail, MemoryView, Preempt, Reason, Start, SwapIn, SwapOut, TurnView, View
from engine.waits import WaitBook

COSTS = Costs(5e9, 5e9, 1000.0, 0.02, 0.002)
BLOCK = 16
UNIT = 512
URGENT = (Reason.GROWTH, Reason.STALL)


@dataclass(slots=True)
class SimTurn:
    """`left`: tokens to generate until it stops; then it blocks on `tool_next`, or is done."""

    id: TurnId
    priority: Priority
    tokens: int
    left: int
    tool_next: str | None
    arrived_at: float
    phase_since: float
    queued_since: float
    tier_since: float
    phase: Phase = Phase.WAITING
    tier: Tier = Tier.NONE
    kv: int = 0
    blocks: int = 0
    host_bytes: int = 0
    tool: str | None = None
    held: bool = False
    resumed_at: float | None = None
    preemptions: int = 0
    recomputed: int = 0
    computed_once: int = 0
    generated: int = 0
    first_token_at: float | None = None
    error: str | None = None

    @property
    def live(self) -> bool:
        return not self.phase.ended

    def view(self) -> TurnView:
        return TurnView(
            id=self.id,
            priority=self.priority,
            phase=self.phase,
            tier=self.tier,
            tokens=self.tokens,
            kv_tokens=self.kv,
            blocks=self.blocks,
            arrived_at=self.arrived_at,
            phase_since=self.phase_since,
            queued_since=self.queued_since,
            tier_since=self.tier_since,
            resumed_at=self.resumed_at,
            held=self.held,
            tool=self.tool,
            host_bytes=self.host_bytes,
        )


@dataclass
class Simulator:
    """`turns`: all that ever were; `active`: those that live. `largest_chunk`: for a body that computes at most this
    many tokens of a turn a step, whatever the plan allows; `yields_every`: for one that itself throws the last planned
    turn out at every so many steps, each at most three times (0: never)."""

    blocks: int = 64
    host_blocks: int = 0
    knobs: Knobs = field(default_factory=lambda: Knobs(max_running=4, prefill_chunk=64))
    block_bytes: int = 1024
    largest_chunk: int = 1 << 20
    yields_every: int = 0
    now: float = 0.0
    steps: int = 0
    evicting: bool = False
    turns: dict[TurnId, SimTurn] = field(default_factory=dict)
    active: dict[TurnId, SimTurn] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    book: WaitBook = field(default_factory=WaitBook)

    def __post_init__(self) -> None:
        self.arena_bytes = self.blocks * self.block_bytes
        self.host_bytes = self.host_blocks * self.block_bytes

    # -- what is there ----------------------------------------------------------------------------------------------

    @property
    def total(self) -> int:
        return self.arena_bytes // self.block_bytes

    @property
    def free(self) -> int:
        return self.total - sum(t.blocks for t in self.active.values())

    @property
    def host_free(self) -> int:
        return self.host_bytes - sum(t.host_bytes for t in self.active.values())

    @property
    def live(self) -> list[SimTurn]:
        return list(self.active.values())

    def in_phase(self, *phases: Phase) -> list[SimTurn]:
        """Live turns in one of these phases, by arrival."""
        return [t for t in self.active.values() if t.phase in phases]

    @property
    def running(self) -> list[SimTurn]:
        return self.in_phase(Phase.PREFILL, Phase.DECODE)

    def view(self) -> View:
        memory = MemoryView(BLOCK, self.block_bytes, self.total, self.free, self.host_bytes, self.host_free, UNIT)
        return View(tuple(t.view() for t in self.live), memory, self.evicting, self.book.waits)

    def need(self, turn: SimTurn) -> int:
        return min(-(-(turn.tokens + 1) // BLOCK) + 1, self.total)

    # -- agents and operators ---------------------------------------------------------------------------------------

    def submit(
        self, prompt: int, generate: int, priority: Priority = Priority.BACKGROUND, tool: str | None = None
    ) -> SimTurn | None:
        """None: refused, it can never fit."""
        if -(-(prompt + 1) // BLOCK) > self.total:
            return None
        turn = SimTurn(
            TurnId(len(self.turns) + 1), priority, prompt, generate, tool, self.now, self.now, self.now, self.now
        )
        self.turns[turn.id] = self.active[turn.id] = turn
        return turn

    def block(self, turn: SimTurn, tool: str = "bash") -> None:
        if turn.live and turn.phase is not Phase.BLOCKED:
            self._phase(turn, Phase.BLOCKED)
            turn.tool = tool
            self.book.began(turn.id, tool, COSTS.round_trip_s(turn.blocks * self.block_bytes))

    def unblock(self, turn: SimTurn, result: int = 0, generate: int = 8, tool: str | None = None) -> None:
        if turn.phase is not Phase.BLOCKED or -(-(turn.tokens + result + 1) // BLOCK) > self.total:
            return
        turn.tokens += result
        turn.left, turn.tool_next, turn.tool = generate, tool, None
        self.book.ended(turn.id, self.now - turn.phase_since, self.now, here=turn.tier is Tier.RESIDENT)
        self._phase(turn, Phase.PAUSED if turn.held else Phase.WAITING)

    def cancel(self, turn: SimTurn) -> None:
        if turn.live:
            self._end(turn, Phase.CANCELLED)

    def pause(self, turn: SimTurn) -> None:
        if turn.live and not turn.held:
            if turn.phase is not Phase.BLOCKED:
                self._phase(turn, Phase.PAUSED)
            turn.held = True

    def resume(self, turn: SimTurn) -> None:
        if turn.held:
            turn.held, turn.queued_since = False, self.now

    def set_knobs(self, **changes: object) -> None:
        self.knobs = self.knobs.changed(changes)

    def set_block_bytes(self, nbytes: int) -> None:
        """The precision switch: what no longer fits leaves first; refused if a live turn could never fit."""
        total = self.arena_bytes // nbytes
        if any(-(-(t.tokens + 1) // BLOCK) > total for t in self.live):
            return
        for turn in sorted(self.live, key=lambda t: (t.phase.running, -t.priority, -t.tokens)):
            if self.total - self.free <= total:
                break
            if turn.blocks:
                if turn.phase.running:
                    self._phase(turn, Phase.PAUSED)
                self._drop(turn)
        self.block_bytes = nbytes

    # -- one boundary -----------------------------------------------------------------------------------------------

    def step(self) -> Decision:
        """One boundary; with an empty plan the clock then goes to `wake_at`."""
        decision = self.boundary()
        if not decision.plan.work and decision.wake_at is not None:
            self.now = max(self.now, decision.wake_at)
        return decision

    def boundary(self) -> Decision:
        """Decide, carry out, check, run the plan; the clock goes on by the step's time alone."""
        view = self.view()
        decision = decide(view, self.knobs, COSTS, self.now)
        assert decision == decide(view, self.knobs, COSTS, self.now), "decide is not deterministic"
        self._carry_out(decision)
        self._check_state(decision)
        self.evicting = decision.evicting
        self.counts["stalls"] += decision.stalled is not None
        if decision.plan.work:
            self._run(decision)
        elif not decision.actions:
            self._check_wake(decision.wake_at)
        return decision

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.step()

    def drain(self, limit: int) -> None:
        """Tools return at once and nothing new comes: every turn must end within `limit` boundaries."""
        for _ in range(limit):
            for turn in self.live:
                self.resume(turn)
                self.unblock(turn, 1, max(1, turn.left))
            if not self.live:
                return
            self.step()
        raise AssertionError(f"{len(self.live)} turns never ended: {self.live}")

    # -- carrying out -----------------------------------------------------------------------------------------------

    def _carry_out(self, decision: Decision) -> None:
        actions = decision.actions
        for at, action in enumerate(actions):
            turn = self.turns[action.turn]
            assert turn.live, f"{action} on a turn that ended"
            match action:
                case Preempt(for_turn=for_turn, reason=reason):
                    self._check_preempt(turn, for_turn, reason)
                    self._phase(turn, Phase.PAUSED)
                    turn.preemptions += 1
                    self.counts["preemptions"] += 1
                case SwapOut(reason=reason):
                    self._check_move(turn, reason, actions[at:])
                    nbytes = -(-turn.blocks * self.block_bytes // UNIT) * UNIT
                    assert nbytes <= self.host_free, "swapped out without room in the host pool"
                    turn.host_bytes, turn.blocks = nbytes, 0
                    self._tier(turn, Tier.HOST)
                    self.counts["swaps_out"] += 1
                case Drop(reason=reason):
                    self._check_move(turn, reason, actions[at:])
                    if reason is Reason.HOST_FULL:
                        self._check_given_up(turn, actions[at:])
                    self._drop(turn)
                    self.counts[f"drops for {reason}"] += 1
                case SwapIn(ahead=ahead):
                    assert turn.tier is Tier.HOST
                    if ahead:
                        self._check_ahead(turn, decision)
                    else:
                        assert actions[at + 1] == Start(turn.id), "a swap-in without its start"
                    self._check_return(turn)
                    turn.blocks, turn.host_bytes = -(-turn.kv // BLOCK), 0
                    self._tier(turn, Tier.RESIDENT)
                case Start():
                    self._start(turn)
                case Fail(message=message):
                    turn.error = message
                    self._end(turn, Phase.FAILED)
            assert self.free >= 0, f"{action} took blocks that are not free"

    def _start(self, turn: SimTurn) -> None:
        assert turn.phase in (Phase.WAITING, Phase.PAUSED)
        assert not turn.held
        assert turn.tier is not Tier.HOST
        if turn.tier is Tier.DROPPED:
            self._check_return(turn)
        if turn.phase is Phase.PAUSED and turn.preemptions:
            turn.resumed_at = self.now
        self.book.started(turn.id, self.now)
        self._phase(turn, Phase.DECODE if turn.tokens - turn.kv == 1 else Phase.PREFILL)

    def _run(self, decision: Decision) -> None:
        self.steps += 1
        work = decision.plan.work
        prefill = sum(w.budget for w in work if w.budget > 1)
        self.now += COSTS.decode_base_s + COSTS.decode_per_turn_s * len(work) + COSTS.recompute_s(prefill)
        for item in work:
            turn = self.turns[item.turn]
            computed = min(item.budget, turn.tokens - turn.kv, self.largest_chunk)
            turn.recomputed += max(0, min(turn.computed_once, turn.kv + computed) - turn.kv)
            turn.kv += computed
            turn.computed_once = max(turn.computed_once, turn.kv)
            turn.blocks = max(turn.blocks, -(-turn.kv // BLOCK))
            assert self.free >= 0, "the plan left no room for its step"
            if turn.tier is not Tier.RESIDENT:
                self._tier(turn, Tier.RESIDENT)
            if turn.kv == turn.tokens:
                self._sample(turn)
        if self.yields_every and self.steps % self.yields_every == 0:
            thrown = self.turns[work[-1].turn]
            if thrown.phase.running and thrown.preemptions < 3:
                self._phase(thrown, Phase.PAUSED)
                thrown.preemptions += 1
                self._drop(thrown)

    def _sample(self, turn: SimTurn) -> None:
        turn.tokens += 1
        turn.generated += 1
        turn.left -= 1
        turn.first_token_at = self.now if turn.first_token_at is None else turn.first_token_at
        if turn.phase is Phase.PREFILL:
            self._phase(turn, Phase.DECODE)
        if -(-(turn.tokens + 1) // BLOCK) > self.total:
            self._end(turn, Phase.DONE)
        elif turn.left <= 0:
            if turn.tool_next:
                self.block(turn, turn.tool_next)
            else:
                self._end(turn, Phase.DONE)

    def _phase(self, turn: SimTurn, phase: Phase) -> None:
        if phase in (Phase.WAITING, Phase.PAUSED) and turn.phase not in (Phase.WAITING, Phase.PAUSED):
            turn.queued_since = self.now
        if phase is not turn.phase:
            turn.phase, turn.phase_since = phase, self.now

    def _tier(self, turn: SimTurn, tier: Tier) -> None:
        turn.tier, turn.tier_since = tier, self.now

    def _drop(self, turn: SimTurn) -> None:
        self._tier(turn, Tier.DROPPED)
        turn.kv = turn.blocks = turn.host_bytes = 0

    def _end(self, turn: SimTurn, phase: Phase) -> None:
        self._phase(turn, phase)
        self.book.over(turn.id)
        del self.active[turn.id]
        turn.tier, turn.kv, turn.blocks, turn.host_bytes = Tier.NONE, 0, 0, 0

    # -- the rules --------------------------------------------------------------------------------------------------

    def _check_preempt(self, turn: SimTurn, for_turn: TurnId | None, reason: Reason) -> None:
        assert turn.phase.running
        if reason is Reason.ADMISSION:
            assert for_turn is not None
            assert self.turns[for_turn].priority < turn.priority, "equals preempt each other"
            assert not in_quantum(turn.view(), self.knobs, self.now), "preempted within its quantum"

    def _check_move(self, turn: SimTurn, reason: Reason, following: tuple[object, ...]) -> None:
        assert not turn.phase.running, "a running turn was moved"
        if reason is Reason.ADMISSION:
            asker = next(a for a in following if isinstance(a, Start))
            urgent = self.turns[asker.turn].priority is Priority.FOREGROUND
        else:
            urgent = reason in URGENT
        assert urgent or self.now >= turn.tier_since + TIER_DWELL_S, f"moved within its dwell for {reason}"

    def _check_given_up(self, turn: SimTurn, following: tuple[object, ...]) -> None:
        assert turn.tier is Tier.HOST, "what is given up for want of room in the host pool is no copy there"
        newcomer = self.turns[next(a for a in following if isinstance(a, SwapOut)).turn]
        assert newcomer.priority <= turn.priority
        assert newcomer.priority < turn.priority or turn.held or turn.phase is Phase.BLOCKED

    def _check_return(self, turn: SimTurn) -> None:
        foreground = turn.priority is Priority.FOREGROUND
        assert foreground or self.now >= turn.tier_since + TIER_DWELL_S, "came back within its dwell"

    def _check_ahead(self, turn: SimTurn, decision: Decision) -> None:
        """It waits for a slot, or its result is due, and provokes nobody's leaving."""
        self.counts["ahead"] += 1
        assert self.now >= turn.tier_since + TIER_DWELL_S, "came back ahead within its dwell"
        assert not decision.evicting
        promised = sum(max(0, self.need(t) - t.blocks) for t in self.running)
        assert self.total - self.free + promised + self.need(turn) <= self.knobs.low_watermark * self.total
        if turn.phase is Phase.BLOCKED:
            due = self.book.waits.due_s(turn.tool)
            assert due is not None
            assert self.now < turn.phase_since + due[1], "its result is late"
            return
        assert not turn.held
        assert len(self.running) == self.knobs.max_running, "ahead of a slot that is free"
        waits = [t for t in self.in_phase(Phase.WAITING, Phase.PAUSED) if not t.held]
        before = [t for t in waits if (t.priority, place(t.view())) < (turn.priority, place(turn.view()))]
        assert len(before) < max(1, self.knobs.max_running // 2), "too far behind in line"

    def _check_state(self, decision: Decision) -> None:
        running = self.running
        assert len(running) <= self.knobs.max_running
        promised = sum(max(0, self.need(t) - t.blocks) for t in running)
        if any(isinstance(a, Start) for a in decision.actions):
            assert promised <= self.free, "started without room for the whole context of all"
        self._check_plan(decision, running)
        self._check_foreground(decision, running)
        waits = [t for t in self.in_phase(Phase.WAITING, Phase.PAUSED) if not t.held]
        if waits and not decision.plan.work:
            assert decision.wake_at is not None, "turns wait and nobody will ask again"
        if decision.stalled:
            assert decision.plan.work, "a stall was not broken"

    def _check_wake(self, wake_at: float | None) -> None:
        """Nothing happens before `wake_at` if nothing comes."""
        assert wake_at is None or wake_at > self.now, "asked to be called again at once for nothing"
        before = (self.now + wake_at) / 2 if wake_at is not None else self.now + 1e6
        if before == wake_at:
            return
        sooner = decide(self.view(), self.knobs, COSTS, before)
        assert not sooner.actions, f"{sooner.actions} was due before wake_at {wake_at}, at {self.now}"
        assert not sooner.plan.work, "somebody could run before wake_at"

    def _check_plan(self, decision: Decision, running: list[SimTurn]) -> None:
        chunk, budgets = self.knobs.prefill_chunk, {w.turn: w.budget for w in decision.plan.work}
        assert len(budgets) == len(decision.plan.work)
        assert set(budgets) <= {t.id for t in running}, "planned without a slot"
        prefill = [t for t in running if t.tokens - t.kv > 1]
        for turn in running:
            if turn not in prefill:
                assert budgets[turn.id] == 1, "a decode turn was left out"
            elif turn.id in budgets:
                assert budgets[turn.id] == min(chunk, turn.tokens - turn.kv), "a chunk was cut"
        assert sum(budgets.get(t.id, 0) for t in prefill) <= chunk
        if prefill:
            assert min(prefill, key=lambda t: (t.priority, t.arrived_at, t.id)).id in budgets

    def _check_foreground(self, decision: Decision, running: list[SimTurn]) -> None:
        """The first waiting foreground turn waits only if the slots or the room of all who may lose theirs do not do,
        or if the policy keeps everything where it is."""
        touched = {a.turn for a in decision.actions}
        waits = [t for t in self.in_phase(Phase.WAITING, Phase.PAUSED) if t.priority is Priority.FOREGROUND]
        waits = [t for t in waits if not t.held]
        if not waits or self.knobs.policy == "resident-only":
            return
        first = min(waits, key=lambda t: place(t.view()))
        stays = [
            t
            for t in running
            if t.priority is Priority.FOREGROUND
            or t.id in touched
            or in_quantum(t.view(), self.knobs, self.now)
            or aged_in(t.view(), self.knobs, self.now)
        ]
        if first.id in touched or len(stays) == len(running):
            return
        room = self.total - sum(max(self.need(t), t.blocks) for t in stays)
        assert self.need(first) > room, f"foreground turn {first.id} waits though background could give way"


def knobs(**changes: object) -> Knobs:
    """Small knobs for tests: 4 slots, chunks of 64."""
    return replace(Knobs(max_running=4, prefill_chunk=64)).changed(changes)


def put(sim: Simulator, tokens: int, priority: Priority, phase: Phase, **state: object) -> SimTurn:
    """A turn in the midst of its life: all but its last token computed and resident unless `state` says otherwise."""
    turn = sim.submit(tokens, 50, priority)
    assert turn is not None
    turn.phase, turn.tier, turn.kv, turn.blocks = phase, Tier.RESIDENT, tokens - 1, -(-(tokens - 1) // BLOCK)
    for name, value in state.items():
        setattr(turn, name, value)
    if phase is Phase.BLOCKED:
        sim.book.began(turn.id, turn.tool or "bash", 0.0)
    return turn
