"""A modelled card while its twin runs: the figures that can be changed at a token boundary, and the pace."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from engine.backends.twin.backend import TwinBackend
from engine.backends.twin.times import CardTimes
from engine.cards.fields import FIELDS, checked_number, finite, said
from engine.cards.profile import UNITS, CardProfile
from engine.costs import Costs
from engine.errors import Refused
from engine.events import PACE
from engine.snapshot import ModelledCard
from engine.turn import AVERAGE_TURN_TOKENS
from engine.virtual_clock import FASTEST, PacedClock

FIGURES = ("link_out", "link_back", "prefill", "decode_base", "decode_per_turn", "decode_per_kv_byte", "usable")
OVERLAP = "overlap"
PACES = (1.0, 10.0, 100.0, FASTEST)
LEAST_PACE, MOST_PACE = 0.01, 1000.0

Value = float | bool


@dataclass(frozen=True, slots=True)
class CardChange:
    """One value in its own words: 'Copy to host 50 → 25 GB/s'."""

    name: str
    old: Value
    new: Value
    text: str


class LiveCard:
    """Owned by the engine's thread. Figures are in bytes, seconds and these per second, as `ModelledCard` has them."""

    def __init__(self, card: CardProfile, backend: TwinBackend, clock: PacedClock) -> None:
        self._card = card
        self._backend = backend
        self._clock = clock
        self._own_times = backend.times
        self._own = {name: float(getattr(card, name).amount) for name in FIGURES}
        self._now = dict(self._own)
        self._state = self._stated()
        self.version = 0
        """Another one after each change of a figure."""

    def state(self) -> ModelledCard:
        """The same object while nothing has changed."""
        if (self._state.kept, self._state.overlap) != (self._kept(), self._backend.overlap):
            self._state = self._stated()
        return self._state

    def arena_at(self, usable: float) -> int:
        """Bytes for KV at so much usable memory."""
        return round(usable) - round(self._card.weights.amount) - round(self._card.runtime.amount)

    def asked(self, changes: Mapping[str, object]) -> tuple[CardChange, ...]:
        """What of `changes` is another value than the one in force. Raises Refused for a name that is not there and a
        value out of range."""
        found = [self._change(name, value) for name, value in changes.items()]
        return tuple(one for one in found if one.new != one.old)

    def put(self, change: CardChange) -> None:
        """Raises Refused, with nothing changed, for an arena too small for what is held."""
        name, new = change.name, change.new
        self.version += name != PACE
        if name == PACE:
            self._clock.set_pace(float(new))
        elif name == OVERLAP:
            self._backend.set_overlap(bool(new))
        else:
            if name == "usable":
                self._backend.set_arena(self.arena_at(new))
            self._now[name] = float(new)
            self._backend.times = self._times()
        self._state = self._stated()

    def costs(self, costs: Costs, change: CardChange) -> Costs:
        """What the governor reckons with, after the change: it learns the rest from what it sees."""
        by = float(change.new) - float(change.old)
        match change.name:
            case "link_out":
                return replace(costs, swap_out_bytes_per_s=float(change.new))
            case "link_back":
                return replace(costs, swap_in_bytes_per_s=float(change.new))
            case "prefill":
                return replace(costs, prefill_tokens_per_s=costs.prefill_tokens_per_s * change.new / change.old)
            case "decode_base":
                return replace(costs, decode_base_s=max(0.0, costs.decode_base_s + by))
            case "decode_per_turn":
                return replace(costs, decode_per_turn_s=max(0.0, costs.decode_per_turn_s + by))
            case "decode_per_kv_byte":
                # As the start measures a step: beside a context of average size for each turn.
                held = AVERAGE_TURN_TOKENS * self._backend.geometry.bytes_per_token(self._backend.kv_dtype)
                return replace(costs, decode_per_turn_s=max(0.0, costs.decode_per_turn_s + by * held))
            case _:
                return costs

    def _change(self, name: str, value: object) -> CardChange:
        if name == PACE:
            old = self._clock.pace
            pace = _checked_pace(value)
            return CardChange(name, old, pace, f"Pace {pace_word(old)} → {pace_word(pace)}")
        if name == OVERLAP:
            if not isinstance(value, bool):
                raise Refused(f"overlap {value!r} is neither yes nor no")
            was = self._backend.overlap
            return CardChange(name, was, value, f"Overlap of copies {_on(was)} → {_on(value)}")
        if name not in self._now:
            raise Refused(f"{name!r} of a card cannot be changed while it runs; choose {', '.join(self._now)}")
        field, unit = FIELDS[name], getattr(self._card, name).unit
        number = finite(value)
        given = value if number is None else number / UNITS[unit]
        amount = checked_number(field, given, unit) * UNITS[unit]
        was_now, own = self._now[name], self._own[name]
        # Units and back may cost the last digit.
        new = next((known for known in (was_now, own) if math.isclose(known, amount, rel_tol=1e-9)), amount)
        figures = f"{was_now / UNITS[unit]:,.6g} → {new / UNITS[unit]:,.6g} {unit}"
        return CardChange(name, was_now, new, f"{field.label} {figures}")

    def _times(self) -> CardTimes:
        now, own = self._now, self._own
        slower = own["prefill"] / now["prefill"]
        return replace(
            self._own_times,
            decode_base_s=now["decode_base"],
            decode_per_turn_s=now["decode_per_turn"],
            decode_per_kv_byte_s=now["decode_per_kv_byte"],
            prefill=tuple((chunk, seconds * slower) for chunk, seconds in self._own_times.prefill),
            out_bytes_per_s=now["link_out"],
            back_bytes_per_s=now["link_back"],
        )

    def _stated(self) -> ModelledCard:
        return ModelledCard(
            id=self._card.id,
            name=self._card.name,
            own=tuple(self._own.items()),
            now=tuple(self._now.items()),
            overlap=self._backend.overlap,
            pace=self._clock.pace,
            kept=self._kept(),
        )

    def _kept(self) -> float | None:
        """In two digits, so that it is another value only where people would see it."""
        kept = self._clock.kept
        return None if kept is None else float(f"{kept:.2g}")


def pace_word(pace: float) -> str:
    return "max" if pace == FASTEST else f"{pace:g}x"


def _checked_pace(value: object) -> float:
    if value == FASTEST:
        return FASTEST
    pace = finite(value)
    if pace is None:
        raise Refused(f"a pace of {said(value)} is no number; give 1 for real time")
    if not LEAST_PACE <= pace <= MOST_PACE:
        allowed = f"{LEAST_PACE:g} to {MOST_PACE:,.0f}, or infinity for as fast as it goes"
        raise Refused(f"a twin cannot run at {pace:g}x real time; give {allowed}")
    return pace


def _on(on: bool) -> str:
    return "on" if on else "off"
