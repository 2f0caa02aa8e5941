"""What policies are compared on, and what one came to in this session, in words. Pure."""

from engine.outcomes import Outcome
from engine.twin.grid import Grid
from engine.twin_body import chosen_preset
from engine.words import counted
from engine.workload.resize import average_tokens
from panels.units import count, rate, seconds, size


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
