"""The book of live turns: who they are, their phase and tier, and since when. Kept by the host's thread alone."""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from engine.backends.base import Backend, Holding
from engine.blocked import Blocked
from engine.blocked_book import BlockedBook
from engine.clock import EngineClock
from engine.control import Listener
from engine.errors import UnknownTurn
from engine.events import Interval
from engine.history import History, Span
from engine.knobs import Knobs
from engine.output import TurnOutput
from engine.turn import Phase, Priority, Tier, TurnId, TurnRequest
from engine.view import NO_WAITS, MemoryView, TurnView, View
from engine.waits import Waits

ENDED_KEPT = 4096
LATE_KEPT = 16


@dataclass(slots=True)
class LiveTurn:
    """One live turn. `tokens`: prompt plus generated; `generated`: since the last stop, at most `max_tokens`;
    `asked_at`: when the client last asked (submit or tool result), until the first token answers it; `computed_once`:
    the longest context whose KV was ever computed, to tell recompute from prefill; `again_tokens`, `again_s`: what of
    it the recompute under way has computed so far, and the seconds of those steps; `ahead`: it came back from the host
    pool ahead of its slot and has not had one since; `seen`: how the governor saw it last and what it held then, None:
    it has changed since, or holds a slot; `back`: its KV is in the arena and had left it before; `moved_by_itself`: its
    last change of tier was no operator's."""

    id: TurnId
    request: TurnRequest
    tokens: list[int]
    output: TurnOutput
    listener: Listener | None
    arrived_at: float
    max_tokens: int
    then_block: str | None
    phase: Phase = Phase.WAITING
    tier: Tier = Tier.NONE
    tool: str | None = None
    held: bool = False
    phase_since: float = 0.0
    tier_since: float = 0.0
    queued_since: float = 0.0
    marked_at: float = 0.0
    resumed_at: float | None = None
    asked_at: float | None = None
    last_token_at: float | None = None
    generated: int = 0
    generated_total: int = 0
    computed_once: int = 0
    preemptions: int = 0
    swaps: int = 0
    recomputed: int = 0
    again_tokens: int = 0
    again_s: float = 0.0
    ahead: bool = False
    past: History = field(default_factory=History)
    seen: tuple[TurnView, Holding] | None = None
    back: bool = False
    moved_by_itself: bool = True

    @property
    def agent(self) -> str:
        return self.request.agent

    @property
    def priority(self) -> Priority:
        return self.request.priority

    def span(self, now: float) -> Span:
        """From the last mark until `now`, as the turn is."""
        return Span(self.marked_at, now, self.phase, self.tier, self.tool, self.held)


@dataclass(slots=True)
class Ledger:
    """Live turns by id, in order of arrival. Every change of phase, tier or tool goes through `move`, which closes the
    interval that ends there; what else changes a turn without a slot, or its KV, says so with `changed`. `scale`: card
    bytes per byte of KV on this machine. `late`: the last few that ended. `lives`: the sums of all spans that
    closed."""

    clock: EngineClock
    backend: Backend
    on_interval: Callable[[Interval], None]
    knobs: Knobs
    scale: float = 1.0
    turns: dict[TurnId, LiveTurn] = field(default_factory=dict)
    ended: dict[TurnId, Phase] = field(default_factory=dict)
    late: deque[LiveTurn] = field(default_factory=lambda: deque(maxlen=LATE_KEPT))
    lives: BlockedBook = field(init=False)

    def __post_init__(self) -> None:
        self.lives = BlockedBook(self.clock.now())

    def __iter__(self) -> Iterator[LiveTurn]:
        return iter(self.turns.values())

    def find(self, turn: TurnId) -> LiveTurn:
        """Raises UnknownTurn, saying how the turn ended if it is remembered."""
        live = self.turns.get(turn)
        if live is None:
            how = self.ended.get(turn)
            raise UnknownTurn(f"turn {turn} {f'is over ({how})' if how else 'is not known'}; choose a live turn")
        return live

    def add(self, turn: LiveTurn, now: float) -> None:
        turn.phase_since = turn.tier_since = turn.queued_since = turn.marked_at = now
        self.turns[turn.id] = turn
        self.lives.came(turn.agent)

    def move(
        self,
        turn: LiveTurn,
        now: float,
        *,
        phase: Phase | None = None,
        tier: Tier | None = None,
        tool: str | None = None,
    ) -> None:
        """Change phase or tier at `now`. A tool is kept only while blocked."""
        phase = phase or turn.phase
        tier = tier or turn.tier
        tool = tool if phase is Phase.BLOCKED and tool else (turn.tool if phase is Phase.BLOCKED else None)
        if (phase, tier, tool) == (turn.phase, turn.tier, turn.tool):
            return
        self.close_interval(turn, now)
        self.changed(turn)
        if phase is not turn.phase:
            wanted = turn.phase in (Phase.WAITING, Phase.PAUSED)
            turn.phase, turn.phase_since = phase, now
            if phase in (Phase.WAITING, Phase.PAUSED) and not wanted:
                turn.queued_since = now
        if tier is not turn.tier:
            turn.tier, turn.tier_since = tier, now
        turn.tool = tool

    def changed(self, turn: LiveTurn) -> None:
        """The turn is not as it was seen."""
        turn.seen = None

    def close_interval(self, turn: LiveTurn, now: float) -> None:
        """Write down the span since the last mark, as it was."""
        if now <= turn.marked_at:
            return
        held = self.backend.holding(turn.id)
        nbytes = held.host_bytes if turn.tier is Tier.HOST else held.blocks * self._block_bytes()
        span = turn.span(now)
        self.on_interval(
            Interval(
                start_utc=self.clock.utc(turn.marked_at),
                end_utc=self.clock.utc(now),
                agent=turn.agent,
                turn=turn.id,
                priority=turn.priority,
                phase=turn.phase,
                tier=turn.tier,
                tool=turn.tool,
                context_tokens=len(turn.tokens),
                kv_bytes=nbytes,
                kv_bytes_card_scale=round(nbytes * self.scale),
                kv_dtype=held.host_dtype or self.knobs.kv_dtype,
                policy=self.knobs.policy,
                queued_ms=span.seconds * 1e3 if span.queued else 0.0,
            )
        )
        turn.past.add(span)
        self.lives.add(turn.agent, span)
        turn.marked_at = now

    def close_all_intervals(self, now: float) -> None:
        """Before a knob that the rows carry changes, and at the end of a session."""
        for turn in self:
            self.close_interval(turn, now)

    def forget(self, turn: LiveTurn, now: float, phase: Phase) -> None:
        """End a turn: its last interval, then its place in the book. The backend must not hold it any more after."""
        self.close_interval(turn, now)
        turn.phase, turn.tier, turn.phase_since = phase, Tier.NONE, now
        del self.turns[turn.id]
        self.lives.left(turn.agent)
        self.ended[turn.id] = phase
        self.late.append(turn)
        if len(self.ended) > ENDED_KEPT:
            del self.ended[next(iter(self.ended))]

    def blocked(self, now: float) -> Blocked:
        """How much of their life the agents have waited on tools, up to `now`."""
        return self.lives.read(now, ((turn.agent, turn.span(now)) for turn in self))

    def view(self, evicting: bool, waits: Waits = NO_WAITS) -> View:
        turns = self.turns.values()
        return View(tuple([(t.seen or self._look(t))[0] for t in turns]), self.memory_view(), evicting, waits)

    def holding(self, turn: LiveTurn) -> Holding:
        """What a live turn holds."""
        return (turn.seen or self._look(turn))[1]

    def memory_view(self) -> MemoryView:
        m = self.backend.memory()
        return MemoryView(
            block_size=self.backend.block_size,
            block_bytes=m.block_bytes,
            blocks_total=m.blocks_total,
            blocks_free=m.blocks_free,
            host_total_bytes=m.host_total_bytes,
            host_free_bytes=m.host_total_bytes - m.host_used_bytes,
            host_unit_bytes=m.host_unit_bytes,
        )

    def _look(self, turn: LiveTurn) -> tuple[TurnView, Holding]:
        """Kept until the turn changes; of a turn with a slot, which changes with each step, never kept."""
        held = self.backend.holding(turn.id)
        view = TurnView(
            id=turn.id,
            priority=turn.priority,
            phase=turn.phase,
            tier=turn.tier,
            tokens=len(turn.tokens),
            kv_tokens=held.kv_tokens,
            blocks=held.blocks,
            arrived_at=turn.arrived_at,
            phase_since=turn.phase_since,
            queued_since=turn.queued_since,
            tier_since=turn.tier_since,
            resumed_at=turn.resumed_at,
            held=turn.held,
            tool=turn.tool,
            host_bytes=held.host_bytes,
        )
        if not turn.phase.running:
            turn.seen = view, held
        return view, held

    def _block_bytes(self) -> int:
        return self.backend.block_bytes_at(self.backend.kv_dtype)
