"""A policy in words: what it does, when it fits and where it is from, as its own module says. Pure."""

import re
import sys
from dataclasses import dataclass

from engine.outcomes import Outcome
from engine.policies.base import TierPolicy
from engine.twin.grid import Grid
from engine.twin_body import chosen_preset
from engine.words import counted
from engine.workload.resize import average_tokens
from panels.units import count, rate, seconds, size

SOURCE = "Source:"


@dataclass(frozen=True, slots=True)
class Described:
    """`fits`: when to choose it, one line, its own or the first sentence of its module; `source`: empty where its
    module names none."""

    title: str
    fits: str
    source: str


def described(policy: TierPolicy) -> Described:
    """A module's text is its name and what it does, then a paragraph that begins with 'Source:'."""
    text = sys.modules[type(policy).__module__].__doc__ or ""
    paragraphs = [" ".join(part.split()) for part in text.split("\n\n")]
    source = next((part.removeprefix(SOURCE).strip() for part in paragraphs if part.startswith(SOURCE)), "")
    does = _first(paragraphs[0].removeprefix(f"{policy.name}:").strip()).partition(";")[0]
    fits = str(getattr(policy, "fits", does))
    return Described(policy.title, fits[:1].upper() + fits[1:], _first(source))


def _first(text: str) -> str:
    """The first sentence."""
    return re.split(r"(?<=[\w)\"])\.\s+(?=[A-Za-z])", text, maxsplit=1)[0].rstrip(".")


def of_what(grid: Grid) -> str:
    """What all policies are compared on."""
    base, knobs = grid.base, grid.base.first_knobs()
    return " · ".join(
        (
            base.card.name,
            f"model shape {chosen_preset(base.card, base.twin.preset).name}",
            f"workload {base.workload.name}, {counted(base.agent_count, 'agent')}",
            f"turns of about {average_tokens(base.workload):,.0f} tokens",
            f"{knobs.kv_dtype}, {counted(knobs.max_running, 'slot')}",
        )
    )


def measured_words(outcome: Outcome | None) -> tuple[str, ...]:
    """What a policy came to in this session, line by line."""
    if outcome is None:
        return ("not in force in this session",)
    in_force = f"in force {seconds(outcome.in_force_s)}"
    if outcome.measured_s <= 0:
        return in_force, "nothing measured yet"
    return (
        f"{in_force} · {rate(outcome.tokens_per_s)}",
        f"TTFT p95 {seconds(outcome.ttft_foreground_p95_s)}",
        f"{counted(outcome.swaps, 'swap')}, {size(outcome.swapped_bytes)}",
        f"{count(outcome.recomputed_tokens)} tok recomputed",
    )
