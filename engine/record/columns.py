"""The tables as data: one list of columns for each, with SQL type and how the value is taken from a record. SQLite and
CSV are both written from these lists. `at_s` is the engine's clock in SQLite, seconds since the session's start in
CSV."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Generic, Literal, TypeVar

from engine.events import Event, Interval
from engine.snapshot import Bands, CardScale, Sample, Snapshot

R = TypeVar("R")
SqlType = Literal["INTEGER", "REAL", "TEXT"]
Value = int | float | str | None
LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Column(Generic[R]):
    """`time`: epoch seconds in SQLite, ISO-8601 in CSV."""

    name: str
    sql: SqlType
    take: Callable[[R], object]
    time: bool = False

    def value(self, record: R) -> Value:
        """A REAL that is not finite is no value. Raises ValueError for an INTEGER that is none, or is too large."""
        found = self.take(record)
        if found is None:
            return None
        if self.sql == "TEXT":
            return clean(str(found.value) if isinstance(found, Enum) else str(found))
        if not isinstance(found, int | float):
            raise ValueError(f"{self.name} {found!r} is no number")
        if self.sql == "REAL":
            return float(found) if math.isfinite(found) else None
        if not abs(found) <= LARGEST:
            raise ValueError(f"{self.name} {found!r} is no number that a table can hold")
        return int(found)


def clean(text: str) -> str:
    """Text that UTF-8 can hold: lone surrogates, which JSON lets in, become a question mark."""
    return text.encode("utf-8", "replace").decode("utf-8")


def row(columns: Sequence[Column[R]], record: R) -> tuple[Value, ...]:
    return tuple(column.value(record) for column in columns)


@dataclass(frozen=True, slots=True)
class SessionStart:
    """What `begin` tells of a session. The card's figures are None on a machine that needs no card scale."""

    id: str
    started_utc: float
    model: str
    backend: str
    policy: str
    kv_dtype: str
    card: CardScale | None

    @classmethod
    def of(cls, session: str, snapshot: Snapshot) -> "SessionStart":
        return cls(
            session,
            snapshot.utc,
            snapshot.model,
            snapshot.backend,
            snapshot.knobs.policy,
            snapshot.knobs.kv_dtype.value,
            snapshot.card,
        )


SESSIONS: tuple[Column[SessionStart], ...] = (
    Column("id", "TEXT", lambda s: s.id),
    Column("started_utc", "REAL", lambda s: s.started_utc, time=True),
    Column("model", "TEXT", lambda s: s.model),
    Column("backend", "TEXT", lambda s: s.backend),
    Column("policy", "TEXT", lambda s: s.policy),
    Column("kv_precision", "TEXT", lambda s: s.kv_dtype),
    Column("card", "TEXT", lambda s: s.card and s.card.card),
    Column("card_factor", "REAL", lambda s: s.card and s.card.factor),
    Column("card_weights_bytes", "INTEGER", lambda s: s.card and s.card.weights_bytes),
    Column("card_runtime_bytes", "INTEGER", lambda s: s.card and s.card.runtime_bytes),
    Column("card_ceiling_bytes", "INTEGER", lambda s: s.card and s.card.ceiling_bytes),
)

INTERVALS: tuple[Column[Interval], ...] = (
    Column("start_utc", "REAL", lambda i: i.start_utc, time=True),
    Column("end_utc", "REAL", lambda i: i.end_utc, time=True),
    Column("agent", "TEXT", lambda i: i.agent),
    Column("turn", "INTEGER", lambda i: i.turn),
    Column("priority", "TEXT", lambda i: i.priority.label),
    Column("phase", "TEXT", lambda i: i.phase),
    Column("tier", "TEXT", lambda i: i.tier),
    Column("tool", "TEXT", lambda i: i.tool),
    Column("context_tokens", "INTEGER", lambda i: i.context_tokens),
    Column("kv_bytes", "INTEGER", lambda i: i.kv_bytes),
    Column("kv_bytes_card_scale", "INTEGER", lambda i: i.kv_bytes_card_scale),
    Column("kv_precision", "TEXT", lambda i: i.kv_dtype),
    Column("policy", "TEXT", lambda i: i.policy),
    Column("queued_ms", "REAL", lambda i: i.queued_ms),
)

EVENTS: tuple[Column[Event], ...] = (
    Column("utc", "REAL", lambda e: e.utc, time=True),
    Column("at_s", "REAL", lambda e: e.at),
    Column("step", "INTEGER", lambda e: e.step),
    Column("kind", "TEXT", lambda e: e.kind),
    Column("author", "TEXT", lambda e: e.author),
    Column("text", "TEXT", lambda e: e.text),
    Column("turn", "INTEGER", lambda e: e.turn),
    Column("agent", "TEXT", lambda e: e.agent),
    Column("name", "TEXT", lambda e: e.name),
    Column("old", "TEXT", lambda e: e.old),
    Column("new", "TEXT", lambda e: e.new),
    Column("moved_bytes", "INTEGER", lambda e: e.nbytes),
    Column("duration_s", "REAL", lambda e: e.seconds),
)


def _band(name: str, take: Callable[[Bands], object]) -> Column[Sample]:
    return Column(name, "INTEGER", lambda s: take(s.bands))


def _counter(name: str, field: str, sql: SqlType = "INTEGER") -> Column[Sample]:
    return Column(name, sql, lambda s: getattr(s.counters, field))


def _rate(name: str, field: str) -> Column[Sample]:
    return Column(name, "REAL", lambda s: getattr(s.rates, field))


COUNTER_NAMES = {
    "turns": "turns_total",
    "finished": "finished_total",
    "failed": "failed_total",
    "cancelled": "cancelled_total",
    "prompt_tokens": "prompt_tokens_total",
    "generated_tokens": "generated_tokens_total",
    "recomputed_tokens": "recomputed_tokens_total",
    "preemptions": "preemptions_total",
    "swaps_out": "swaps_out_total",
    "swaps_in": "swaps_in_total",
    "swap_out_bytes": "swap_out_bytes_total",
    "swap_in_bytes": "swap_in_bytes_total",
    "swap_seconds": "swap_s_total",
    "hidden_seconds": "swap_hidden_s_total",
    "waited_seconds": "swap_waited_s_total",
    "prefetches": "prefetches_total",
    "prefetched_bytes": "prefetched_bytes_total",
    "prefetches_wasted": "prefetches_wasted_total",
    "drops": "drops_total",
    "stalls": "stalls_total",
    "abandoned": "abandoned_total",
    "thrashes": "thrashes_total",
}
RATE_NAMES = {
    "decode_tokens_per_s": "decode_tokens_per_s",
    "prefill_tokens_per_s": "prefill_tokens_per_s",
    "ttft_p50": "ttft_p50_s",
    "ttft_p95": "ttft_p95_s",
    "ttft_foreground_p50": "ttft_foreground_p50_s",
    "ttft_foreground_p95": "ttft_foreground_p95_s",
    "itl_p50": "itl_p50_s",
    "itl_p95": "itl_p95_s",
    "blocked_fraction": "blocked_fraction",
}

SAMPLES: tuple[Column[Sample], ...] = (
    Column("utc", "REAL", lambda s: s.utc, time=True),
    Column("at_s", "REAL", lambda s: s.at),
    Column("step", "INTEGER", lambda s: s.step),
    Column("kv_precision", "TEXT", lambda s: s.kv_dtype),
    _band("weights_bytes", lambda b: b.weights),
    _band("runtime_bytes", lambda b: b.runtime),
    _band("running_kv_bytes", lambda b: b.running_kv),
    _band("paused_kv_bytes", lambda b: b.paused_kv),
    _band("blocked_kv_bytes", lambda b: b.blocked_kv),
    _band("forced_kv_bytes", lambda b: b.forced),
    _band("other_bytes", lambda b: b.other),
    _band("arena_bytes", lambda b: b.arena),
    _band("kv_at_other_precision_bytes", lambda b: b.at_other_dtype),
    _band("used_bytes", lambda b: b.used),
    _band("headroom_bytes", lambda b: b.headroom),
    _band("ceiling_bytes", lambda b: b.ceiling),
    Column("host_used_bytes", "INTEGER", lambda s: s.host_used_bytes),
    Column("host_total_bytes", "INTEGER", lambda s: s.host_total_bytes),
    Column("running_turns", "INTEGER", lambda s: s.running),
    Column("waiting_turns", "INTEGER", lambda s: s.waiting),
    Column("paused_turns", "INTEGER", lambda s: s.paused),
    Column("blocked_turns", "INTEGER", lambda s: s.blocked),
    Column("forced_turns", "INTEGER", lambda s: s.bands.turns.forced),
    *(
        _counter(name, field, "REAL" if field.endswith("_seconds") else "INTEGER")
        for field, name in COUNTER_NAMES.items()
    ),
    *(_rate(name, field) for field, name in RATE_NAMES.items()),
)

SCALED_KV = ("running_kv_bytes", "paused_kv_bytes", "blocked_kv_bytes", "forced_kv_bytes")
