"""Tier policies by name: each in its own file, with its source. A new one is a file and a line here."""

from collections.abc import Mapping
from types import MappingProxyType

from engine.errors import BadKnob
from engine.policies.base import TierPolicy
from engine.policies.recompute_only import RecomputeOnly
from engine.policies.resident_only import ResidentOnly
from engine.policies.walk_down import WalkDown

_ALL: tuple[TierPolicy, ...] = (WalkDown(), RecomputeOnly(), ResidentOnly())
_BY_NAME: Mapping[str, TierPolicy] = MappingProxyType({policy.name: policy for policy in _ALL})


def policies() -> Mapping[str, TierPolicy]:
    """All policies, by the name that the knob takes; the default one first."""
    return _BY_NAME


def policy_named(name: str) -> TierPolicy:
    """Raises BadKnob, naming the choices."""
    if name not in _BY_NAME:
        raise BadKnob(f"policy {name!r} is not known; choose {', '.join(_BY_NAME)}")
    return _BY_NAME[name]
