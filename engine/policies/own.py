"""Tier policies of installed packages, by the entry point group `parkdeck.policies`. One that cannot be used is left
out and named in a sentence. WRITING.md says what one must do."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from engine.costs import Costs
from engine.errors import Refused
from engine.knobs import Knobs
from engine.policies.base import Need, Parameter, Relief, Situation, TierPolicy
from engine.view import Drop, MemoryView, SwapOut

GROUP = "parkdeck.policies"
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
_PARAMETER = re.compile(r"[a-z][a-z0-9_]{0,39}")
_MEMORY = MemoryView(16, 1 << 20, 64, 64, 1 << 26, 1 << 26, 1 << 20)
_NOBODY = Situation((), (), Need(), _MEMORY, Knobs(), Costs(1e9, 1e9, 1e3, 0.02, 0.0), 0.0)


@dataclass(frozen=True, slots=True)
class Own:
    """`refused`: a sentence for each that is left out."""

    policies: tuple[TierPolicy, ...]
    refused: tuple[str, ...]


class PolicyFault(Refused):
    """A policy of somebody's own has raised, or answered what it must not."""


class Held:
    """A policy of somebody's own, held to what `TierPolicy` promises: raises PolicyFault where it is not kept."""

    def __init__(self, policy: TierPolicy) -> None:
        self.name = policy.name
        self.title, self.fits, self.source = policy.title, policy.fits, policy.source
        self.parameters = policy.parameters
        self._policy = policy

    def relieve(self, situation: Situation) -> Relief:
        try:
            found = self._policy.relieve(situation)
        except Exception as fault:
            raise PolicyFault(f"policy {self.name} raised {type(fault).__name__}: {_line(fault)}") from fault
        if (problem := _problem(found, situation)) is not None:
            raise PolicyFault(f"policy {self.name} {problem}")
        return found


def load_own(built_in: Iterable[str], found: Iterable[EntryPoint] | None = None) -> Own:
    """`built_in`: names that are taken. `found` None: what is installed."""
    taken = set(built_in)
    policies: list[TierPolicy] = []
    refused: list[str] = []
    for entry in sorted(entry_points(group=GROUP) if found is None else found, key=lambda one: (one.name, one.value)):
        try:
            policy = _loaded(entry, taken)
        except Refused as refusal:
            refused.append(f"Tier policy {entry.name} ({entry.value}) is left out: {refusal}.")
            continue
        taken.add(policy.name)
        policies.append(policy)
    return Own(tuple(policies), tuple(refused))


def _loaded(entry: EntryPoint, taken: set[str]) -> TierPolicy:
    """Raises Refused with the reason."""
    try:
        found = entry.load()
        policy = found() if isinstance(found, type) else found
        name, parameters = policy.name, tuple(policy.parameters)
        lines = {"title": policy.title, "fits": policy.fits, "source": policy.source}
    except (Exception, SystemExit) as fault:  # noqa: BLE001 -- whatever its import does, the engine starts without it
        raise Refused(f"{type(fault).__name__}: {_line(fault)}") from None
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise Refused(f"its name {name!r} is none; use up to 40 small letters, digits and dashes")
    if name in taken:
        raise Refused(f"the name {name} is taken; choose another")
    for what, line in lines.items():
        if not isinstance(line, str) or not 0 < len(line) <= 120 or not line.isprintable():
            raise Refused(f"its {what} {line!r} is no line of text of up to 120 characters")
    _check_parameters(parameters)
    held = Held(policy)
    held.relieve(_NOBODY)
    return held


def _check_parameters(parameters: tuple[Any, ...]) -> None:
    """Raises Refused."""
    for one in parameters:
        if not isinstance(one, Parameter):
            raise Refused(f"its parameter {one!r} is no Parameter")
        if not _PARAMETER.fullmatch(one.name):
            raise Refused(f"its parameter's name {one.name!r} is none; use small letters, digits and underscores")
        if not one.low <= one.default <= one.high:
            raise Refused(f"the default {one.default!r} of its parameter {one.name} is outside {one.low} to {one.high}")
    if len({one.name for one in parameters}) < len(parameters):
        raise Refused("two of its parameters have one name")


def _problem(found: object, situation: Situation) -> str | None:
    """What is wrong with an answer; None: nothing."""
    if not isinstance(found, Relief):
        return f"answered {type(found).__name__}, no Relief"
    offered = {turn.id: turn for turn in situation.parked}
    room = situation.memory.host_free_bytes
    for move in found.moves:
        if not isinstance(move, SwapOut | Drop):
            return f"answered {_line(move)}, which is neither SwapOut nor Drop"
        turn = offered.pop(move.turn, None)
        if turn is None:
            return f"moves turn {move.turn}, which it was not offered, or moves it twice"
        room -= situation.memory.host_bytes(turn.blocks) if isinstance(move, SwapOut) else 0
        if room < 0:
            return f"moves turn {move.turn} to the host pool, which has no room for it; drop it or let it stay"
    return None


def _line(what: object) -> str:
    text = " ".join(str(what).split())
    return text if len(text) <= 200 else f"{text[:197]}..."
