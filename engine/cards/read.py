"""Card profiles from TOML. Every mistake is one sentence that names the place in the file."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.cards.fields import FIELDS, checked_figure, checked_known, checked_source, finite, said
from engine.cards.profile import (
    NOTES,
    TEXTS,
    UNITS,
    Calibration,
    CardProfile,
    CopyPoint,
    DecodePoint,
    Figure,
    Known,
    PrefillPoint,
    Preset,
)
from engine.errors import BadField, Refused
from engine.layout import LayerGroup, TurnLayout

LARGEST_COUNT = 1_000_000
LARGEST_STATE = 1 << 40
LARGEST_STATED = 1 << 50
LONGEST_TEXT = 500
LARGEST_FILE = 1 << 18
MOST_DOTS = 100
LONGEST_REASON = 200
_ROUNDED = "rounded_bytes_per_token"
_KV_ROOM = "kv_room"
_WHOLE = frozenset({"block_bytes", "chunk", "turns", "context", "kv_bytes"})


def read_profile(path: Path) -> CardProfile:
    """Raises Refused, which names the file, for one that cannot be read or is no card profile."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise Refused(f"{path.name}: cannot be read as a card profile ({error.strerror or error})") from None
    return profile_from_bytes(content, path.name)


def profile_from_bytes(content: bytes, file: str) -> CardProfile:
    """As `read_profile`; `file` is the name that the sentence carries."""
    if len(content) > LARGEST_FILE:
        raise Refused(f"{file}: larger than {LARGEST_FILE >> 10} KiB and so no card profile; choose the file of one")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Refused(f"{file}: no text in UTF-8 and so no card profile; choose the .toml file of one") from None
    return profile_from_text(text, file)


def profile_from_text(text: str, file: str) -> CardProfile:
    """As `read_profile`; `file` is the name that the sentence carries."""
    # The parser takes memory by the square of the parts of a dotted key.
    if any(line.count(".") > MOST_DOTS for line in text.splitlines()):
        raise Refused(f"{file}: has a line with more than {MOST_DOTS} dots and so is no card profile; shorten it")
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise Refused(f"{file}: cannot be read as a card profile ({str(error)[:LONGEST_REASON]})") from None
    except ValueError:
        raise Refused(f"{file}: holds a number of thousands of digits and so is no card profile; shorten it") from None
    try:
        return profile_from_table(table)
    except Refused as error:
        raise Refused(f"{file}: {error}") from None


def profile_from_table(table: Mapping[str, Any]) -> CardProfile:
    """Raises BadField or Refused for the first thing that cannot be."""
    stated: dict[str, Any] = {name: _text(table, name, required=name in ("id", "name")) for name in TEXTS}
    stated |= {name: _figure(table, name) for name in FIELDS}
    presets = table.get("presets")
    if not isinstance(presets, list) or not presets:
        raise Refused("presets are missing; give at least one [[presets]]")
    calibration = table.get("calibration")
    profile = CardProfile(
        **stated,
        presets=tuple(_preset(one) for one in presets),
        calibration=None if calibration is None else _calibration(_table(calibration, "[calibration]")),
    )
    check_profile(profile)
    return profile


def check_profile(profile: CardProfile) -> None:
    """What no single field can show. Raises BadField."""
    if profile.kv_budget_bytes <= 0:
        raise BadField("usable", "Weights and runtime leave no bytes for KV under usable; check the three figures")
    names = [preset.name for preset in profile.presets]
    for name in names:
        if names.count(name) > 1:
            raise BadField("presets", f"Preset {name!r} is there twice; give each its own name")


def _figure(table: Mapping[str, Any], name: str) -> Figure:
    entry = _table(table.get(name), f"[{name}]")
    try:
        return checked_figure(name, *(entry.get(part) for part in ("value", "unit", "known", "source")))
    except BadField as error:
        raise BadField(name, f"[{name}] {error}") from None


def _preset(entry: object) -> Preset:
    table = _table(entry, "[[presets]]")
    name = _text(table, "name", required=True)
    where = f"preset {name!r}"
    groups = table.get("groups")
    if groups is None:
        shape = [_count(table, part, where) for part in ("layers", "kv_heads", "head_dim")]
        read: tuple[LayerGroup, ...] = (LayerGroup(shape[0], shape[1], (shape[2], shape[2])),)
    elif isinstance(groups, list) and groups:
        read = tuple(_group(_table(group, f"{where} groups"), where) for group in groups)
    else:
        raise BadField("presets", f"{where} groups are no list of layer groups; give [[presets.groups]]")
    state = _count(table, "state_bytes", where, default=0, high=LARGEST_STATE)
    limit = _count(table, "max_context", where, default=0, high=LARGEST_STATE) or None
    layout = TurnLayout(name, read, state, limit, _notes(table, "notes", where))
    known, source = _origin(table, where)
    rounded, room = (_stated(table, part, where) for part in (_ROUNDED, _KV_ROOM))
    plan_notes, prices_notes = (_notes(table, part, where) for part in NOTES)
    return Preset(layout, known, source, rounded, room, plan_notes, prices_notes)


def _notes(table: Mapping[str, Any], name: str, where: str) -> tuple[str, ...]:
    notes = table.get(name, [])
    if not isinstance(notes, list) or not all(isinstance(note, str) and len(note) <= LONGEST_TEXT for note in notes):
        raise BadField("presets", f"{where} {name} are no list of texts of at most {LONGEST_TEXT} characters")
    return tuple(notes)


def _group(table: Mapping[str, Any], where: str) -> LayerGroup:
    layers, heads = (_count(table, part, where) for part in ("layers", "heads"))
    widths = table.get("widths")
    if not isinstance(widths, list) or not 1 <= len(widths) <= 2:
        raise BadField("presets", f"{where} widths {said(widths)} are not one or two whole numbers over 0")
    for width in widths:
        _whole(width, "widths", where)
    window = None if table.get("window") is None else _count(table, "window", where, high=LARGEST_STATE)
    return LayerGroup(layers, heads, tuple(widths), window)


def _stated(table: Mapping[str, Any], name: str, where: str) -> Figure | None:
    """A study's own figure in bytes, if it gives one."""
    if table.get(name) is None:
        return None
    entry = _table(table[name], f"{where} {name}")
    value, unit = finite(entry.get("value")), entry.get("unit")
    units = ("B",) if name == _ROUNDED else ("GB", "GiB")
    if value is None or unit not in units or not 1 <= value * UNITS[str(unit)] <= LARGEST_STATED:
        raise BadField("presets", f"{where} {name} is not a number of bytes from 1 on in {' or '.join(units)}")
    return Figure(value, str(unit), *_origin(entry, f"{where} {name}"))


def _calibration(table: Mapping[str, Any]) -> Calibration:
    def rows(name: str, *columns: str) -> list[list[Any]]:
        where, listed, read = f"[[calibration.{name}]]", table.get(name, []), []
        if not isinstance(listed, list):
            raise Refused(f"{where} is no list of tables")
        for row in listed:
            cells = [finite(_table(row, where).get(column)) or 0.0 for column in columns]
            if any(not 0 < cell <= LARGEST_STATED for cell in cells):
                raise Refused(f"{where} needs numbers over 0 for {', '.join(columns)}")
            if any(column in _WHOLE and cell % 1 for column, cell in zip(columns, cells, strict=True)):
                raise Refused(f"{where} needs whole numbers for {', '.join(c for c in columns if c in _WHOLE)}")
            read.append(cells)
        return read

    def error(name: str) -> float:
        value = finite(table.get(name))
        if value is None or value < 0:
            raise Refused(f"[calibration] {name} {said(table.get(name))} is not a number from 0")
        return value

    copies = tuple(
        CopyPoint(int(size), out, back)
        for size, out, back in rows("copies", "block_bytes", "out_bytes_per_s", "back_bytes_per_s")
    )
    own = table.get("block_bytes")
    if own not in [point.block_bytes for point in copies]:
        raise Refused(f"[calibration] block_bytes {said(own)} is none of the sizes in [[calibration.copies]]")
    return Calibration(
        at=_text(table, "at"),
        backend=_text(table, "backend"),
        model=_text(table, "model"),
        block_bytes=int(own),
        copies=copies,
        prefills=tuple(PrefillPoint(int(chunk), rate) for chunk, rate in rows("prefills", "chunk", "tokens_per_s")),
        decodes=tuple(
            DecodePoint(int(turns), int(context), int(kv), s)
            for turns, context, kv, s in rows("decodes", "turns", "context", "kv_bytes", "seconds")
        ),
        decode_error=error("decode_error"),
        decode_worst=error("decode_worst"),
    )


def _count(
    table: Mapping[str, Any], name: str, where: str, default: int | None = None, high: int = LARGEST_COUNT
) -> int:
    value = table.get(name, default)
    return _whole(value, name, where, low=1 if default is None else 0, high=high)


def _whole(value: object, name: str, where: str, low: int = 1, high: int = LARGEST_COUNT) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise BadField("presets", f"{where} {name} {said(value)} is not a whole number from {low} to {high:,}")
    return value


def _origin(entry: Mapping[str, Any], where: str) -> tuple[Known, str]:
    known = checked_known("presets", where, entry.get("known"))
    return known, checked_source("presets", where, entry.get("source"))


def _table(value: object, name: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise Refused(f"{name} is missing or no table")
    return value


def _text(entry: Mapping[str, Any], name: str, required: bool = False) -> str:
    value = entry.get(name, "")
    if not isinstance(value, str) or len(value) > LONGEST_TEXT:
        raise BadField(name, f"{name} is no text of at most {LONGEST_TEXT} characters")
    if required and not value.strip():
        raise BadField(name, f"{name} is empty; give it a text")
    return value.strip()
