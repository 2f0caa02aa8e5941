"""Every tier policy on the same agents and knobs, as a grid of one column that the grid's runner runs."""

from dataclasses import dataclass, replace

from engine.cards.profile import CardProfile
from engine.costs import Costs
from engine.knobs import LABELS, Knobs
from engine.layout import Store
from engine.policies import policies
from engine.snapshot import Snapshot
from engine.twin.grid import Axis, Grid, grid_of
from engine.twin.setup import TwinSetup
from engine.twin.simulate import modelled_costs
from engine.twin_body import TwinConfig, chosen_preset
from engine.workload.resize import average_tokens, first_rounds, stretched
from engine.workload.script import Workload

ROUNDS = 6
"""Of each agent at least: a turn or two, so that all policies are there within seconds."""


@dataclass(frozen=True, slots=True)
class Play:
    """Agents as they take turns now. `speed`: of the swarm; `seed` as a swarm has it."""

    workload: Workload
    agents: int
    speed: float = 1.0
    seed: int = 0


def compared(card: CardProfile, preset: str | None, play: Play, live: Snapshot | None) -> Grid:
    """`live`: of the engine that serves, whose knobs, and whose arena's share that a turn takes, hold for the card too;
    None: the card's own knobs, and turns as long as it is made for. Raises Refused for what the twin cannot run."""
    there = modelled_costs(card, TwinConfig(preset))
    short = first_rounds(play.workload, ROUNDS)
    longer, knobs = _in_proportion(card, preset, short, live)
    here: Costs | None = live.costs if live is not None else None
    base = TwinSetup(
        card=card,
        workload=stretched(short, longer, here or there, there),
        twin=TwinConfig(preset),
        knobs=tuple(knobs.items()),
        agents=play.agents,
        speed=play.speed,
        seed=play.seed,
    )
    axes = Axis("kv_dtype", (str(base.first_knobs().kv_dtype),)), Axis("policy", tuple(policies()))
    return grid_of(base, *axes, {})


def _in_proportion(
    card: CardProfile, preset: str | None, workload: Workload, live: Snapshot | None
) -> tuple[float, dict[str, object]]:
    """How many times longer turns become, and the knobs."""
    if live is None or live.bands is None or not live.bytes_per_token:
        return card.mean_context.amount / average_tokens(workload), {}
    dtype = live.knobs.kv_dtype
    layout = chosen_preset(card, preset).layout
    per_token = layout.bytes_per_token(Store.Q8 if dtype == "q8" else Store.FP16)
    longer = card.kv_budget_bytes / per_token / (live.bands.arena / live.bytes_per_token)
    return longer, _knobs(card, live, longer)


def _knobs(card: CardProfile, live: Snapshot, longer: float) -> dict[str, object]:
    """The live engine's: tokens as much longer, host bytes as much more, as the card's KV is beside the live arena."""
    assert live.bands is not None
    knobs = live.knobs
    if not knobs.kv_dtype.switchable:
        knobs = replace(knobs, kv_dtype=Knobs().kv_dtype)
    own = {name: getattr(knobs, name) for name in LABELS}
    host = round(knobs.host_pool_bytes / live.bands.arena * card.kv_budget_bytes)
    long = max(1, round(knobs.long_turn_tokens * longer))
    return own | dict(knobs.parameters) | {"host_pool_bytes": host, "long_turn_tokens": long}
