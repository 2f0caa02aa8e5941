"""The planner in sentences: what the page is about, and what its charts show, for those who do not see them."""

from engine.cards.profile import Preset
from engine.layout import Store, TurnLayout
from engine.paper.ceiling import Plan, load_of
from engine.words import counted
from panels.units import axis_unit, size, size_in, trimmed, unit_name

HEADS = {Store.FP16: "fp16", Store.Q8: "q8 with scales", Store.Q8_HALF: "q8 as exactly half"}


def line(plan: Plan) -> str:
    """One line under the title."""
    return (
        f"{plan.card.name} · model shape {plan.layout.name} · {_ceiling(plan)} usable, the ceiling · "
        "computed from the card's profile; nothing is measured unless it says so"
    )


def states_text(plan: Plan) -> str:
    """What the columns show, in one sentence."""
    fp16, q8 = plan.fits[Store.FP16], plan.fits[Store.Q8]
    long_state = plan.states[-1]
    ends = (
        "fits"
        if long_state.over_bytes == 0
        else f"is {size_in(long_state.over_bytes, axis_unit(plan.card.usable.amount))} over"
    )
    return (
        f"{counted(plan.load.slots, 'running turn')} of {counted(plan.load.mean_context, 'token')} take "
        f"{size(fp16.used_bytes)} of {_ceiling(plan)} at fp16, weights and runtime included; "
        f"{_fit(fp16.paused_fit)}, one paused long turn of {counted(plan.load.long_context, 'token')} {ends}; "
        f"at q8 with its scales {_fit(q8.paused_fit)} ({_peak(plan)})."
    )


def reserve_text(plan: Plan) -> str:
    """What reserving up front takes, and what it would have kept free, in plain words."""
    fp16, q8 = plan.reserves[Store.FP16], plan.reserves[Store.Q8]
    load = plan.load
    told = (
        f"Keeping {counted(load.max_context, 'token')} for each of {counted(load.slots, 'slot')} takes "
        f"{size(fp16.reserved_bytes)} at fp16, so {_admits(fp16.slots, load.slots)} "
        f"({min(q8.slots, load.slots):,} at q8). "
        f"Average turns hold {size(plan.fits[Store.FP16].running_bytes)}."
    )
    if fp16.skipped_bytes == 0:
        return told + " The largest context is no larger than the mean one: overcommitting gains nothing here."
    return (
        told + f" A swarm that overcommits runs all {load.slots:,}; the {size(fp16.skipped_bytes)} between the two, "
        "never reserved, is the headroom that preemption then lacks when turns grow."
    )


def filling(tokens: int | None) -> str:
    """The context that fills the card, in tokens."""
    return "never" if tokens is None else f"{tokens:,} tok"


def _ceiling(plan: Plan) -> str:
    unit = axis_unit(plan.card.usable.amount)
    return f"{trimmed(plan.card.usable.amount / unit)} {unit_name(unit)}"


def _fit(paused: int) -> str:
    return f"{counted(paused, 'average turn')} can stay paused" if paused else "no average turn can stay paused"


def _admits(slots: int, asked: int) -> str:
    if slots >= asked:
        return f"all {asked:,} would fit"
    return f"only {counted(slots, 'slot')} would fit" if slots else "not one slot would fit"


def _peak(plan: Plan) -> str:
    highest = max(state.used_q8_bytes for state in plan.states)
    over = highest - plan.card.usable.amount
    return f"the columns' turns then reach {size(highest)} at most" if over <= 0 else f"they then go {size(over)} over"


def shape_notes(layout: TurnLayout) -> tuple[str, ...]:
    """What the shape says of itself, and what a token adds once its windows are full."""
    if layout.window is None:
        return layout.notes
    tail = layout.tail_bytes_per_token(Store.FP16)
    return (
        *layout.notes,
        f"Bytes per token hold while no window is full; past {layout.window:,} tokens a token adds {tail:,} B at fp16.",
    )


def notes(plan: Plan, preset: Preset) -> tuple[str, ...]:
    """What the model's shape says of itself; what its study prints otherwise, at the study's own load; and where the
    load goes beyond the model's own context."""
    studied = preset.plan_notes if plan.load == load_of(plan.card) else ()
    limit = plan.layout.max_context
    asked = {"Mean": plan.load.mean_context, "Long": plan.load.long_context, "Largest": plan.load.max_context}
    beyond = [
        f"{name} context of {tokens:,} tokens is beyond the {limit:,} that the model itself allows."
        for name, tokens in asked.items()
        if limit is not None and tokens > limit
    ]
    return (*shape_notes(plan.layout), *studied, *beyond)
