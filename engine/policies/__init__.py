"""Tier policies by name: each in its own file, with its source. A new one is a file and a line here, or a package of
its own (WRITING.md)."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from types import MappingProxyType

from engine.errors import BadKnob
from engine.knobs import Knobs
from engine.policies.base import Parameter, TierPolicy
from engine.policies.min_waste import MinWaste
from engine.policies.own import Own, load_own
from engine.policies.recompute_only import RecomputeOnly
from engine.policies.resident_only import ResidentOnly
from engine.policies.swap_on_block import SwapOnBlock
from engine.policies.ttl import Ttl
from engine.policies.walk_down import WalkDown

DEFAULT = Knobs().policy
BUILT_IN: tuple[TierPolicy, ...] = (WalkDown(), SwapOnBlock(), MinWaste(), Ttl(), RecomputeOnly(), ResidentOnly())


@cache
def policies() -> Mapping[str, TierPolicy]:
    """All policies, by the name that the knob takes: the default one first, one's own last."""
    return MappingProxyType({policy.name: policy for policy in (*BUILT_IN, *_own().policies)})


def refused_policies() -> tuple[str, ...]:
    """Why a policy that was found in an installed package is left out; a sentence each."""
    return _own().refused


def policy_named(name: str) -> TierPolicy:
    """Raises BadKnob, naming the choices."""
    found = policies().get(name)
    if found is None:
        left_out = "".join(f" ({sentence})" for sentence in refused_policies())
        raise BadKnob(f"policy {name!r} is not known; choose {', '.join(policies())}{left_out}")
    return found


@cache
def parameters() -> Mapping[str, Parameter]:
    """All policies' parameters, each by its knob POLICY.NAME."""
    return MappingProxyType({f"{one.name}.{each.name}": each for one in policies().values() for each in one.parameters})


def known_parameter(knob: str) -> Parameter | None:
    return parameters().get(knob) if "." in knob else None


def checked(knobs: Knobs) -> Knobs:
    """`knobs` with nothing said of a parameter that has its default. Raises BadKnob for a policy or a parameter that
    there is none of, and for a value out of range."""
    policy_named(knobs.policy)
    if not knobs.parameters:
        return knobs
    kept = []
    for knob, value in knobs.parameters:
        parameter = known_parameter(knob)
        if parameter is None:
            raise BadKnob(f"there is no knob {knob!r}; the policies' own are {', '.join(parameters())}")
        if parameter.checked(knob.partition(".")[0], value) != parameter.default:
            kept.append((knob, value))
    return replace(knobs, parameters=tuple(kept))


@cache
def _own() -> Own:
    """Once: what is installed while the engine runs waits for its next start."""
    return load_own({policy.name for policy in BUILT_IN})
