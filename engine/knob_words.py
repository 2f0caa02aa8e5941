"""Knobs by name and in words: the fields of Knobs, and POLICY.NAME for what a tier policy declares."""

from dataclasses import fields

from engine.errors import BadKnob
from engine.knobs import LABELS, UNITS, Knobs, figure
from engine.policies import known_parameter, parameters


def names() -> tuple[str, ...]:
    """All knobs, in the order in which changes of several are told."""
    return (*(field.name for field in fields(Knobs) if field.name != "parameters"), *parameters())


def value_of(knobs: Knobs, name: str) -> object:
    """A parameter that no loaded policy has is n/a."""
    if "." not in name:
        return getattr(knobs, name)
    found = known_parameter(name)
    return dict(knobs.parameters).get(name, found.default if found else "n/a")


def differing(old: Knobs, new: Knobs) -> tuple[str, ...]:
    return tuple(name for name in names() if value_of(old, name) != value_of(new, name))


def label(name: str) -> str:
    """'High watermark', 'Margin of swap-on-block'."""
    found = known_parameter(name)
    return f"{found.label} of {name.partition('.')[0]}" if found else LABELS.get(name, name)


def unit(name: str) -> str:
    """Empty where it has none."""
    found = known_parameter(name)
    return found.unit if found else UNITS.get(name, "")


def parsed(name: str, text: str) -> object:
    """The value that an event tells as `text`. Raises BadKnob for what no such knob has."""
    kind = float if "." in name else type(getattr(Knobs(), name))
    try:
        return {"True": True, "False": False}[text] if kind is bool else kind(text)
    except (ValueError, KeyError):
        raise BadKnob(f"{label(name)} cannot be {text!r}") from None


def change(name: str, old: object, new: object) -> str:
    """'High watermark 95 → 90 %'."""
    return f"{label(name)} {figure(name, old)} → {figure(name, new)} {unit(name)}".rstrip()
