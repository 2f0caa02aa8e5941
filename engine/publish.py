"""Builds what panels read: the Snapshot and the charts' samples. Bands are sums over what each turn really holds."""

from collections.abc import Callable
from dataclasses import dataclass

from engine.backends.base import DeviceMemory, Holding
from engine.blocked import Blocked
from engine.core import Core
from engine.geometry import BlockLayout, KVDtype, blocks_for
from engine.ledger import LiveTurn
from engine.policies import policies
from engine.snapshot import Bands, BandTurns, CardScale, HostState, Sample, Snapshot, TurnRow
from engine.thinning import SampleStore
from engine.turn import Phase, Tier

SAMPLE_EVERY_S = 0.25
READ_EVERY_S = 1.0
"""So often the waits of all agents are summed up."""

# As in turn.py: asked for each turn.
_WAITING, _PAUSED, _BLOCKED = Phase.WAITING, Phase.PAUSED, Phase.BLOCKED
_HOST, _DROPPED = Tier.HOST, Tier.DROPPED
_NOTHING = Holding(0, 0)


class Publisher:
    """`card`: the card whose scale the page may show, from the arena's bytes. `average_tokens`: of a paused turn, for
    'how many still fit'. `on_sample`: the recorder's copy."""

    def __init__(
        self,
        session: str,
        core: Core,
        card: CardScale | None,
        average_tokens: int,
        on_sample: Callable[[Sample], None],
    ) -> None:
        self._session = session
        self._core = core
        self._card = card
        self._average_tokens = average_tokens
        self._on_sample = on_sample
        self._sampled_at = float("-inf")
        self._store = SampleStore()
        self._blocked: Blocked | None = None

    @property
    def samples(self) -> tuple[Sample, ...]:
        """Of the charts, thinned; from any thread."""
        return self._store.samples

    def snapshot(
        self, state: HostState, stalled: str | None, behind: int, *, sampling: bool = True, changed: bool = False
    ) -> Snapshot:
        """The engine as it is now; takes a sample too when one is due, or when knobs or card have just been
        `changed`."""
        core = self._core
        at = core.clock.now()
        memory = core.backend.memory()
        bands = _bands(core, memory)
        blocked = self.blocked(at)
        rates = core.stats.rates(at, blocked.window.b if blocked else None)
        warning = core.note_warning(core.backend.warning())
        fit = _paused_fit(core, memory, self._average_tokens)
        snapshot = Snapshot(
            session=self._session,
            state=state,
            at=at,
            utc=core.clock.utc(at),
            step=core.step,
            model=core.model.name if core.model else core.backend.name,
            backend=core.backend.name,
            knobs=core.knobs,
            policies=tuple(policies()),
            turns=tuple(turn_row(core, turn, at, memory.block_bytes) for turn in core.ledger),
            bands=bands,
            memory=memory,
            card=self._card,
            modelled=core.live_card.state() if core.live_card else None,
            counters=core.counters,
            rates=rates,
            blocked=blocked,
            costs=core.costs,
            waits=core.waits.waits.rows,
            average_turn_tokens=self._average_tokens,
            bytes_per_token=core.backend.geometry.bytes_per_token(core.backend.kv_dtype),
            paused_fit=dict(fit)[core.backend.kv_dtype],
            paused_fit_by_dtype=fit,
            events=core.events.latest(60),
            stalled=stalled,
            warning=warning,
            recorder_behind=behind,
        )
        if changed:
            core.stats.cut(at)
        if sampling and (changed or at - self._sampled_at >= SAMPLE_EVERY_S):
            self._sampled_at = at
            self._sample(snapshot, bands, memory)
        return snapshot

    def blocked(self, at: float, within_s: float = READ_EVERY_S) -> Blocked | None:
        """The agents' waits, less than `within_s` old; None before the first turn."""
        last = self._blocked
        if self._core.counters.turns and (last is None or at - last.at >= within_s):
            self._blocked = self._core.ledger.blocked(at)
        return self._blocked

    def _sample(self, snapshot: Snapshot, bands: Bands, memory: DeviceMemory) -> None:
        phases = [t.phase for t in snapshot.turns]
        sample = Sample(
            at=snapshot.at,
            utc=snapshot.utc,
            step=snapshot.step,
            bands=bands,
            kv_dtype=snapshot.knobs.kv_dtype,
            host_used_bytes=memory.host_used_bytes,
            host_total_bytes=memory.host_total_bytes,
            running=sum(p.running for p in phases),
            waiting=phases.count(Phase.WAITING),
            paused=phases.count(Phase.PAUSED),
            blocked=phases.count(Phase.BLOCKED),
            counters=snapshot.counters,
            rates=snapshot.rates,
            itl=self._core.stats.new_latencies(),
            paused_fit=snapshot.paused_fit,
            ttft_counts=self._core.stats.foreground_counts(),
        )
        self._store.add(sample)
        self._on_sample(sample)


def other_dtype(dtype: KVDtype) -> KVDtype:
    """The precision that an operator could switch to."""
    return KVDtype.FP16 if dtype is KVDtype.Q8 else KVDtype.Q8


def _bands(core: Core, memory: DeviceMemory) -> Bands:
    running, paused, blocked, forced = (_Band() for _ in range(4))
    block_size, holding = core.backend.block_size, core.ledger.holding
    for turn in core.ledger:
        held, phase, tier = holding(turn), turn.phase, turn.tier
        runs, here = phase.running, held.blocks + held.leaving
        if here:
            (running if runs else blocked if phase is _BLOCKED else paused).take(here)
        if (tier is _HOST or tier is _DROPPED) and not runs and not here:
            forced.take(blocks_for(held.kv_tokens or len(turn.tokens), block_size))
    other = other_dtype(core.backend.kv_dtype)
    accounted = memory.weights_bytes + memory.runtime_bytes + memory.arena_bytes
    return Bands(
        weights=memory.weights_bytes,
        runtime=memory.runtime_bytes,
        running_kv=running.blocks * memory.block_bytes,
        paused_kv=paused.blocks * memory.block_bytes,
        blocked_kv=blocked.blocks * memory.block_bytes,
        forced=forced.blocks * memory.block_bytes,
        other=None if memory.device_used is None else max(0, memory.device_used - accounted),
        arena=memory.arena_bytes,
        at_other_dtype=(running.blocks + paused.blocks + blocked.blocks) * _block_bytes(core, other),
        turns=BandTurns(running.turns, paused.turns, blocked.turns, forced.turns),
    )


@dataclass(slots=True)
class _Band:
    """A sum under way."""

    blocks: int = 0
    turns: int = 0

    def take(self, blocks: int) -> None:
        if blocks:
            self.blocks += blocks
            self.turns += 1


def _block_bytes(core: Core, dtype: KVDtype) -> int:
    """What a block would take at a precision that the backend need not offer."""
    return BlockLayout(core.backend.geometry, dtype, core.backend.block_size).nbytes


def _paused_fit(core: Core, memory: DeviceMemory, average_tokens: int) -> tuple[tuple[KVDtype, int], ...]:
    """Average paused turns that still fit beside what is held and one growth block per running turn."""
    backend = core.backend
    growth = sum(1 for t in core.ledger if t.phase.running)
    taken = memory.blocks_total - memory.blocks_free + growth
    each = blocks_for(average_tokens, backend.block_size)
    shown = sorted({backend.kv_dtype, *(dtype for dtype in backend.kv_dtypes if dtype.switchable)})
    return tuple((dtype, max(0, backend.blocks_at(dtype) - taken) // each) for dtype in shown)


def turn_row(core: Core, turn: LiveTurn, at: float, block_bytes: int) -> TurnRow:
    """`at`: engine clock. A turn that has ended holds nothing."""
    phase, since = turn.phase, turn.phase_since
    held = _NOTHING if phase.ended else core.ledger.holding(turn)
    queued = (phase is _WAITING or phase is _PAUSED) and not turn.held
    request = turn.request
    return TurnRow(
        id=turn.id,
        agent=request.agent,
        priority=request.priority,
        phase=phase,
        tier=turn.tier,
        tool=turn.tool,
        held=turn.held,
        context_tokens=len(turn.tokens),
        generated_tokens=turn.generated_total,
        kv_tokens=held.kv_tokens,
        kv_bytes=held.blocks * block_bytes,
        host_bytes=held.host_bytes,
        in_phase_s=at - since,
        queued_s=at - turn.queued_since if queued else 0.0,
        preemptions=turn.preemptions,
        swaps=turn.swaps,
        recomputed_tokens=turn.recomputed,
    )
