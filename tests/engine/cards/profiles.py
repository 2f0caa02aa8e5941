"""Random card profiles: everything that a file can state."""

import string
from dataclasses import replace

from hypothesis import strategies as st

from engine.cards.fields import FIELDS, Field
from engine.cards.profile import (
    KNOWN,
    UNITS,
    Calibration,
    CardProfile,
    CopyPoint,
    DecodePoint,
    Figure,
    PrefillPoint,
    Preset,
)
from engine.layout import LayerGroup, TurnLayout

PLENTY = Figure(2.0**44, "B", "assumed", "all there is")
LITTLE = Figure(0.5, "GB", "published", "hardly any")
letters = st.characters(exclude_categories=["Cs"])
words = st.text(letters, min_size=1, max_size=60).map(lambda text: text.strip() or "word")
odd_words = st.one_of(
    words, st.sampled_from(['"quoted" \\ back', "tab\tand\nline", "[usable]", "# no comment", "é 漢 🚗"])
)
counts = st.integers(1, 1_000_000)
positive = st.floats(1e-9, 1e15, allow_nan=False)


def figures(field: Field) -> st.SearchStrategy[Figure]:
    def in_unit(unit: str) -> st.SearchStrategy[Figure]:
        low, high = field.low / UNITS[unit], field.high / UNITS[unit]
        inside = lambda value: field.low <= value * UNITS[unit] <= field.high  # noqa: E731
        whole = st.integers(int(field.low), int(field.high)).map(float)
        value = whole if field.whole else st.floats(low, high, allow_nan=False).filter(inside)
        return st.builds(Figure, value, st.just(unit), st.sampled_from(KNOWN), odd_words)

    return st.sampled_from(field.units).flatmap(in_unit)


groups = st.builds(
    LayerGroup, counts, counts, st.lists(counts, min_size=1, max_size=2).map(tuple), st.none() | st.integers(1, 1 << 40)
)
notes = st.lists(st.text(letters), max_size=3)
layouts = st.builds(
    TurnLayout, odd_words, st.lists(groups, min_size=1, max_size=3).map(tuple), st.integers(0, 1 << 40),
    st.none() | st.integers(1, 1 << 40), notes.map(tuple),
)  # fmt: skip


def stated(*units: str) -> st.SearchStrategy[Figure | None]:
    def in_unit(unit: str) -> st.SearchStrategy[Figure]:
        sizes = st.floats(2 / UNITS[unit], 2**49 / UNITS[unit])
        return st.builds(Figure, sizes, st.just(unit), st.sampled_from(KNOWN), odd_words)

    return st.none() | st.sampled_from(units).flatmap(in_unit)


presets = st.lists(
    st.builds(Preset, layouts, st.sampled_from(KNOWN), odd_words, stated("B"), stated("GB", "GiB"),
              notes.map(tuple), notes.map(tuple)),
    min_size=1, max_size=3, unique_by=lambda preset: preset.name,
)  # fmt: skip
copies = st.lists(st.builds(CopyPoint, counts, positive, positive), min_size=1, max_size=3).map(tuple)
calibrations = copies.flatmap(lambda points: st.builds(
    Calibration, words, words, odd_words,
    st.sampled_from([point.block_bytes for point in points]), st.just(points),
    st.lists(st.builds(PrefillPoint, counts, positive), max_size=3).map(tuple),
    st.lists(st.builds(DecodePoint, counts, counts, counts, positive), max_size=3).map(tuple),
    st.floats(0, 1e6), st.floats(0, 1e6),
))  # fmt: skip
ids = st.text(string.ascii_lowercase + string.digits, min_size=1, max_size=20)


def _with_room(card: CardProfile) -> CardProfile:
    """No profile is read whose weights and runtime leave nothing."""
    if card.kv_budget_bytes > 0:
        return card
    return replace(card, usable=PLENTY, weights=LITTLE, runtime=LITTLE)


def profiles() -> st.SearchStrategy[CardProfile]:
    parts = {name: figures(field) for name, field in FIELDS.items()}
    return st.builds(
        CardProfile, id=ids, name=odd_words, architecture=st.just("") | odd_words, memory=st.just("") | odd_words,
        model=st.just("") | odd_words, presets=presets.map(tuple), calibration=st.none() | calibrations, **parts,
    ).map(_with_room)  # fmt: skip
