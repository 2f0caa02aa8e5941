"""What panels read: one frozen Snapshot, published after each step by swapping a reference."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from engine.backends.base import DeviceMemory
from engine.blocked import Blocked
from engine.costs import Costs
from engine.events import Event
from engine.geometry import KVDtype
from engine.history import Paid, Span
from engine.knobs import Knobs
from engine.turn import AVERAGE_TURN_TOKENS, Phase, Priority, Tier, TurnId
from engine.waits import WaitRow


class HostState(StrEnum):
    STARTING = "starting"
    RUNNING = "running"
    IDLE = "idle"
    STALLED = "stalled"
    FAILED = "failed"
    STOPPED = "stopped"

    @property
    def serving(self) -> bool:
        """The engine takes turns and commands."""
        return self in (HostState.RUNNING, HostState.IDLE, HostState.STALLED)


@dataclass(frozen=True, slots=True)
class Startup:
    """Progress of the start: stage is download, check, convert, load, compile or calibrate; fraction None: unknown."""

    stage: str
    fraction: float | None
    note: str


class TurnRow(NamedTuple):
    """One live turn as the table shows it. Bytes are of this machine. A named tuple: one is made for each turn at each
    publishing, and a frozen dataclass takes seven times as long."""

    id: TurnId
    agent: str
    priority: Priority
    phase: Phase
    tier: Tier
    tool: str | None
    held: bool
    context_tokens: int
    generated_tokens: int
    kv_tokens: int
    kv_bytes: int
    host_bytes: int
    in_phase_s: float
    queued_s: float
    preemptions: int
    swaps: int
    recomputed_tokens: int


@dataclass(frozen=True, slots=True)
class TurnDetail:
    """Immutable, made at a token boundary. Times are epoch seconds, `spans` too, oldest first, the last one open until
    `at_utc` while the turn lives. `queued_s`, `blocked_s`: over its whole life. `prompt_end` and `text_end`: the last
    token ids of the prompt, and of all that came after it (`text_tokens` in all), tools' results included. `ended`: how
    it ended, one sentence; empty while it lives."""

    row: TurnRow
    at_utc: float
    arrived_utc: float
    phase_since_utc: float
    tier_since_utc: float
    queued_s: float
    blocked_s: float
    spans: tuple[Span, ...]
    swapped_out: Paid
    swapped_in: Paid
    recomputed: Paid
    prompt_tokens: int
    prompt_end: tuple[int, ...]
    text_tokens: int
    text_end: tuple[int, ...]
    ended: str


@dataclass(frozen=True, slots=True)
class BandTurns:
    """How many turns the bytes of a band belong to."""

    running: int
    paused: int
    blocked: int
    forced: int


@dataclass(frozen=True, slots=True)
class Bands:
    """The stack, bytes of this machine: sums over the real block table. `paused_kv`: preempted turns, and turns back
    from a tool that wait for a slot; `blocked_kv`: waiting on a tool; `forced`: KV bytes (at the present precision) of
    turns that had to leave the device and have not come back; `other`: device reading minus what is accounted
    (None: no sensor); `at_other_dtype`: running + paused + blocked KV if the precision were the other one; `turns`:
    whose bytes they are."""

    weights: int
    runtime: int
    running_kv: int
    paused_kv: int
    blocked_kv: int
    forced: int
    other: int | None
    arena: int
    at_other_dtype: int
    turns: BandTurns

    @property
    def ceiling(self) -> int:
        """Usable bytes: weights, runtime and the whole arena."""
        return self.weights + self.runtime + self.arena

    @property
    def used(self) -> int:
        return self.weights + self.runtime + self.running_kv + self.paused_kv + self.blocked_kv

    @property
    def headroom(self) -> int:
        return self.ceiling - self.used


@dataclass(frozen=True, slots=True)
class CardScale:
    """How this machine's bytes become the card's: KV bytes x `factor`, weights and runtime from the card's profile,
    the line at `ceiling_bytes`. factor = the card's KV budget / this arena."""

    card: str
    factor: float
    weights_bytes: int
    runtime_bytes: int
    ceiling_bytes: int


@dataclass(frozen=True, slots=True)
class ModelledCard:
    """The card that a twin runs. `own`: its profile's figures that can be changed while it runs, by their names in
    engine/cards/fields.py, in bytes, seconds, and these per second; `now`: as they are in force, in the same order.
    `pace`: modelled seconds for each real one, infinite for as fast as it goes; `kept`: what was kept lately."""

    id: str
    name: str
    own: tuple[tuple[str, float], ...]
    now: tuple[tuple[str, float], ...]
    overlap: bool
    pace: float
    kept: float | None = None

    @property
    def changed(self) -> dict[str, float]:
        """The card's own values of figures that are others now."""
        return {name: own for (name, own), (_, now) in zip(self.own, self.now, strict=True) if own != now}


@dataclass(frozen=True, slots=True)
class Counters:
    """Sums since the start; none ever falls. `swap_seconds` of copies: in `waited_seconds` of them the engine stood
    still, `hidden_seconds` went by beside its steps. `prefetches`: copies back ahead of a slot, `prefetches_wasted` of
    which left again before they had one. `thrashes`: moves of KV undone within THRASH_S (engine/thrash.py)."""

    turns: int = 0
    finished: int = 0
    failed: int = 0
    cancelled: int = 0
    prompt_tokens: int = 0
    generated_tokens: int = 0
    recomputed_tokens: int = 0
    preemptions: int = 0
    swaps_out: int = 0
    swaps_in: int = 0
    swap_out_bytes: int = 0
    swap_in_bytes: int = 0
    swap_seconds: float = 0.0
    hidden_seconds: float = 0.0
    waited_seconds: float = 0.0
    prefetches: int = 0
    prefetched_bytes: int = 0
    prefetches_wasted: int = 0
    drops: int = 0
    stalls: int = 0
    abandoned: int = 0
    thrashes: int = 0


@dataclass(frozen=True, slots=True)
class Rates:
    """Over the last window (10 s for rates, the last 256 values for latencies); None: nothing measured yet.
    Latencies in seconds. `blocked_fraction` b: the share of live agents' wall clock spent blocked on tools, over the
    window of engine/blocked.py."""

    decode_tokens_per_s: float | None = None
    prefill_tokens_per_s: float | None = None
    ttft_p50: float | None = None
    ttft_p95: float | None = None
    ttft_foreground_p50: float | None = None
    ttft_foreground_p95: float | None = None
    itl_p50: float | None = None
    itl_p95: float | None = None
    blocked_fraction: float | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """One point of the charts and one row of samples.csv. `itl`: the inter-token latencies since the sample before, as
    Stats counts them; `paused_fit` as in the snapshot; `ttft_counts`: foreground TTFT since the start, by the classes
    of engine/histogram.py."""

    at: float
    utc: float
    step: int
    bands: Bands
    kv_dtype: KVDtype
    host_used_bytes: int
    host_total_bytes: int
    running: int
    waiting: int
    paused: int
    blocked: int
    counters: Counters
    rates: Rates
    itl: tuple[tuple[float, int], ...] = ()
    paused_fit: int | None = None
    ttft_counts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """`at`: engine clock (monotonic s); `utc`: epoch seconds of the same instant on the engine's own wall clock, which
    never runs backwards. `paused_fit`: how many average paused turns still fit, at the present precision and by dtype.
    `blocked`: how much of their life agents wait on tools, None before the first turn. `modelled`: of a running twin;
    one that does not run has `twin` True alone. `waits`: how long tools take, all together first, then the most
    frequent ones. `error`: why the engine failed, one sentence; `ran_before`: the model that a restart goes back to,
    while another one starts or has failed to."""

    session: str
    state: HostState
    at: float
    utc: float
    step: int
    model: str
    backend: str
    knobs: Knobs
    policies: tuple[str, ...]
    turns: tuple[TurnRow, ...] = ()
    bands: Bands | None = None
    memory: DeviceMemory | None = None
    card: CardScale | None = None
    modelled: ModelledCard | None = None
    counters: Counters = field(default_factory=Counters)
    rates: Rates = field(default_factory=Rates)
    blocked: Blocked | None = None
    costs: Costs | None = None
    waits: tuple[WaitRow, ...] = ()
    average_turn_tokens: int = AVERAGE_TURN_TOKENS
    bytes_per_token: int = 0
    paused_fit: int | None = None
    paused_fit_by_dtype: tuple[tuple[KVDtype, int], ...] = ()
    """For each precision that the backend can switch to, and the present one."""
    events: tuple[Event, ...] = ()
    startup: Startup | None = None
    error: str | None = None
    stalled: str | None = None
    warning: str | None = None
    recorder_behind: int = 0
    ran_before: str | None = None

    @property
    def twin(self) -> bool:
        """All its figures are modelled."""
        return self.backend == "twin"
