"""What fits under a card's ceiling: running turns, paused ones, one long turn; at fp16, q8, and q8 counted as half.

All sizes are in tokens x bytes, without a block's rounding up to whole blocks. Nothing here is measured.
"""

from dataclasses import dataclass, field

from engine.cards.fields import FIELDS, checked_number
from engine.cards.profile import CardProfile
from engine.layout import Store, TurnLayout

OVER_DRAWN = 2
COLUMNS_DRAWN = 9


@dataclass(frozen=True, slots=True)
class Load:
    """What runs on the card: `slots` turns of `mean_context` tokens, and now and then one of `long_context`. A server
    that reserves up front keeps `max_context` for each slot. Raises BadField for a value out of FIELDS' range."""

    slots: int = 8
    mean_context: int = 6_144
    long_context: int = 16_384
    max_context: int = 32_768

    def __post_init__(self) -> None:
        for name in ("slots", "mean_context", "long_context", "max_context"):
            object.__setattr__(self, name, checked_count(name, getattr(self, name)))


def checked_count(name: str, value: object) -> int:
    """A count of FIELDS as a whole number. Raises BadField."""
    known = FIELDS[name]
    return int(checked_number(known, value, known.units[0]))


def load_of(card: CardProfile) -> Load:
    """The load that the card's profile names."""
    counts = (card.slots, card.mean_context, card.long_context, card.max_context)
    return Load(*(int(figure.amount) for figure in counts))


@dataclass(frozen=True, slots=True)
class Fit:
    """One precision under the ceiling, in bytes. `paused_fit`: average paused turns beside the running ones;
    `long_fits`: one long turn does; `fill_context`: the longest context at which the running turns alone still fit,
    None where they always do. `step_s`: one decode step of the running turns at the mean context."""

    store: Store
    bytes_per_token: int
    turn_bytes: int
    running_bytes: int
    used_bytes: float
    headroom_bytes: float
    paused_fit: int
    long_turn_bytes: int
    long_fits: bool
    fill_context: int | None
    step_s: float


@dataclass(frozen=True, slots=True)
class Reserve:
    """Keeping the largest context for each slot up front, at one precision: how many slots that allows, what a slot
    takes, and the bytes between that and what average turns hold, over all slots of the load: what a swarm that
    overcommits has not reserved."""

    store: Store
    slot_bytes: int
    slots: int
    reserved_bytes: int
    skipped_bytes: int


@dataclass(frozen=True, slots=True)
class State:
    """One column: `running` average turns run, `paused` are paused beside them, or one long turn is. Bytes at fp16;
    `over_bytes` is what lies above the ceiling; `used_q8_bytes` the same turns at q8, scales counted."""

    label: str
    paused: int
    running_bytes: int
    paused_bytes: int
    long_bytes: int
    over_bytes: float
    used_bytes: float
    used_q8_bytes: float


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole answer for one card, one model and one load."""

    card: CardProfile
    layout: TurnLayout
    load: Load
    fits: dict[Store, Fit] = field(hash=False)
    reserves: dict[Store, Reserve] = field(hash=False)
    states: tuple[State, ...] = ()


def plan(card: CardProfile, layout: TurnLayout, load: Load) -> Plan:
    """What fits of `load` on `card` when each turn is laid out as `layout`."""
    return Plan(
        card,
        layout,
        load,
        {store: _fit(card, layout, load, store) for store in Store},
        {store: _reserve(card, layout, load, store) for store in Store},
        _states(card, layout, load),
    )


def _fit(card: CardProfile, layout: TurnLayout, load: Load, store: Store) -> Fit:
    turn = layout.turn_bytes(load.mean_context, store)
    long_turn = layout.turn_bytes(load.long_context, store)
    running = load.slots * turn
    used = _fixed(card) + running
    headroom = card.usable.amount - used
    return Fit(
        store=store,
        bytes_per_token=layout.bytes_per_token(store),
        turn_bytes=turn,
        running_bytes=running,
        used_bytes=used,
        headroom_bytes=headroom,
        paused_fit=_whole(headroom, turn),
        long_turn_bytes=long_turn,
        long_fits=long_turn <= headroom,
        fill_context=layout.context_in(card.kv_budget_bytes / load.slots, store),
        step_s=card.decode_step_s(load.slots, load.slots * layout.kv_bytes(load.mean_context, store)),
    )


def _reserve(card: CardProfile, layout: TurnLayout, load: Load, store: Store) -> Reserve:
    slot = layout.turn_bytes(load.max_context, store)
    return Reserve(
        store=store,
        slot_bytes=slot,
        slots=_whole(card.kv_budget_bytes, slot),
        reserved_bytes=load.slots * slot,
        skipped_bytes=load.slots * max(0, slot - layout.turn_bytes(load.mean_context, store)),
    )


def _states(card: CardProfile, layout: TurnLayout, load: Load) -> tuple[State, ...]:
    turn, turn_q8 = (layout.turn_bytes(load.mean_context, store) for store in (Store.FP16, Store.Q8))
    long_turn, long_q8 = (layout.turn_bytes(load.long_context, store) for store in (Store.FP16, Store.Q8))

    def state(label: str, paused: int, longs: int) -> State:
        used = _fixed(card) + (load.slots + paused) * turn + longs * long_turn
        return State(
            label,
            paused,
            load.slots * turn,
            paused * turn,
            longs * long_turn,
            max(0.0, used - card.usable.amount),
            used,
            _fixed(card) + (load.slots + paused) * turn_q8 + longs * long_q8,
        )

    fit = _whole(card.usable.amount - _fixed(card) - load.slots * turn, turn)
    columns = [state(f"+{paused:,} paused" if paused else "running only", paused, 0) for paused in columns_for(fit)]
    return (*columns, state("+1 long", 0, 1))


def columns_for(fit: int) -> tuple[int, ...]:
    """Numbers of paused turns to draw where `fit` of them fit: none, up to what fits, and what first goes over; every
    number while they are few, else evenly spaced ones."""
    few = COLUMNS_DRAWN - OVER_DRAWN - 1
    steps = range(fit + 1) if fit <= few else [round(fit * step / few) for step in range(few + 1)]
    return (*steps, *range(fit + 1, fit + 1 + OVER_DRAWN))


def _whole(room: float, each: int) -> int:
    """How many of `each` bytes go into `room`."""
    return max(0, int(room // each))


def _fixed(card: CardProfile) -> float:
    return card.weights.amount + card.runtime.amount
