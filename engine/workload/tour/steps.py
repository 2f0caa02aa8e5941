"""The six steps: what each does, where to look, and what it has to see in the engine before it says a figure."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from engine.errors import ParkdeckError, Refused
from engine.events import Event, EventKind
from engine.geometry import KVDtype
from engine.turn import Phase, Tier
from engine.words import counted, took
from engine.workload.tour.cast import AUTHOR, Member
from engine.workload.tour.opening import TOOL_TOKENS, block_size_of, fill
from engine.workload.tour.stage import LEAVING, NotSeen, Stage, Waiting

STAY = 2
TOOL = "pytest"
TOOL_S = 5.0
OUT = "swap out"
BACK = "swap in"


@dataclass(frozen=True, slots=True)
class Step:
    """`play` returns the sentence with what was measured, or raises NotSeen."""

    title: str
    button: str
    does: str
    watch: str
    colour: str
    play: Callable[[Stage], Waiting[str]]


# -- 2 and 3 ----------------------------------------------------------------------------------------------------------


def pause_two(stage: Stage) -> Waiting[str]:
    yield from stage.pause(STAY)
    yield from stage.until(lambda: stage.full() and len(stage.parked(Tier.RESIDENT)) >= STAY, "two resident turns")
    parked = stage.parked(Tier.RESIDENT)
    now, before = stage.snapshot.counters, stage.before
    moved = now.swap_out_bytes - before.swap_out_bytes
    again = now.recomputed_tokens - before.recomputed_tokens
    price = f"{stage.mib(moved)} copied, {counted(again, 'token')} recomputed" if moved or again else (
        "0 bytes copied, 0 tokens recomputed"
    )  # fmt: skip
    held = stage.mib(sum(row.kv_bytes for _, row in parked))
    return (
        f"{_names([m for m, _ in parked])} are paused and resident with {held}; "
        f"{stage.playing.running(stage.snapshot)} of {stage.snapshot.knobs.max_running} slots run again. "
        f"Price: {price}."
    )


def pause_third(stage: Stage) -> Waiting[str]:
    yield from stage.pause(STAY + 1, longest=True)
    left = yield from _wait_for(stage, LEAVING, "a turn that leaves", partial(_why_all_stay, stage))
    held = f"{len(stage.parked(Tier.RESIDENT))} paused turns stay resident."
    if left.kind is EventKind.SWAP_OUT:
        stage.figures[OUT] = left.seconds or 0.0
        return (
            f"{left.agent} left: {stage.mib(left.nbytes or 0)} to the host pool in {took(left.seconds or 0.0)}. {held}"
        )
    return f"{left.agent} left: dropped, for the host pool has no room for it; its KV must be recomputed. {held}"


def _why_all_stay(stage: Stage) -> str:
    """'' or why no number of paused turns of the tour fills the arena."""
    memory = stage.snapshot.memory
    if stage.playing.sizes.tight or memory is None:
        return ""
    return (
        f"the arena holds {memory.blocks_total * block_size_of(stage.snapshot):,} tokens and has room for all of the "
        "tour's turns; start with a smaller --ceiling to see one leave"
    )


# -- 4 ----------------------------------------------------------------------------------------------------------------


def flip_q8(stage: Stage) -> Waiting[str]:
    if stage.snapshot.knobs.kv_dtype is KVDtype.Q8:
        raise NotSeen("KV precision was q8 already, so there was nothing to flip; set it to fp16 and try again")
    fit = stage.snapshot.paused_fit
    away = [m for m, row in stage.parked() if row.tier in (Tier.HOST, Tier.DROPPED)]
    try:
        yield from stage.set_knobs({"kv_dtype": KVDtype.Q8})
    except Refused as refusal:
        raise NotSeen(f"{refusal}. What left stays away; the next step does not need it") from None
    switched = next((e for e in stage.events if e.kind is EventKind.KNOB and e.name == "kv_dtype"), None)
    took_s = f" in {took(switched.seconds)}" if switched and switched.seconds else ""
    said = f"Paused that fit {fit or 0} → {stage.snapshot.paused_fit or 0}, KV converted in place{took_s}."
    if not away:
        return f"{said} No turn had left, so none came back."
    yield from stage.resume(away[0])
    yield from stage.pause(STAY + 1, but=away[0])
    back = yield from _wait_for(stage, (EventKind.SWAP_IN, EventKind.RECOMPUTE), f"{away[0].name} back")
    if back.kind is EventKind.SWAP_IN:
        stage.figures[BACK] = back.seconds or 0.0
        came = f"{back.agent} back in {took(back.seconds or 0.0)}, {stage.mib(back.nbytes or 0)}"
    else:
        came = f"{back.agent} back, recomputed in {took(back.seconds or 0.0)}"
    return f"{said} {came}; {len(stage.parked(Tier.RESIDENT))} paused turns stay beside it."


# -- 5 ----------------------------------------------------------------------------------------------------------------


def block_one(stage: Stage) -> Waiting[str]:
    member, began = yield from _block(stage)
    parked = stage.parked(Tier.RESIDENT)
    if parked:
        yield from stage.resume(parked[0][0])
    yield from stage.until(
        lambda: stage.phase_of(member) is Phase.BLOCKED and stage.playing.running(stage.snapshot) >= _slots(stage),
        "a blocked turn beside full slots",
    )
    row = next(row for m, row in stage.playing.rows(stage.snapshot) if m is member)
    taken = _taken_after(stage, member)
    kept = f"{stage.mib(row.kv_bytes)} stayed" if row.tier is Tier.RESIDENT else f"its KV is {row.tier}"
    # A tool takes its time; that is not what is being measured.
    while stage.control.now - began < TOOL_S:
        yield
    sent = stage.control.now
    waited = sent - began
    try:
        yield from stage.answer(stage.control.unblock(stage.playing.tool_result(member, TOOL_TOKENS), AUTHOR))
    except ParkdeckError as refusal:
        raise NotSeen(f"the tool's result was not taken: {refusal}") from None
    yield from stage.until(lambda: member.answered_at is not None, "a token after the tool's result")
    taker = f", {parked[0][0].name} went on" if parked else ""
    later = took(max((member.answered_at or sent) - sent, 0.0))
    again = stage.first((EventKind.RECOMPUTE,), member.name)
    return (
        f"{member.name} waited {took(waited)} on {TOOL}: {kept}, its slot was taken after {took(taken)}{taker}."
        f" The result's {TOOL_TOKENS} tokens were answered {later} later, "
        f"{'its context was' if again else 'nothing was'} recomputed."
    )


def _taken_after(stage: Stage, member: Member) -> float:
    """Seconds from the block until the next turn was in the slot."""
    asked = stage.first((EventKind.BLOCK,), member.name)
    rows = [row for _, row in stage.playing.rows(stage.snapshot) if row.phase.running]
    since = [stage.snapshot.at - row.in_phase_s - asked.at for row in rows] if asked else []
    return min((seconds for seconds in since if seconds >= 0), default=0.0)


def _block(stage: Stage) -> Waiting[tuple[Member, float]]:
    """One running turn blocked on the tool, and when."""
    while True:
        found = list(stage.playing.decoding(stage.snapshot, TOOL_TOKENS // 4))
        if not found:
            yield from stage.until(lambda: any(stage.playing.decoding(stage.snapshot, TOOL_TOKENS // 4)), "a turn")
            continue
        member = found[0][0]
        assert member.turn is not None
        member.blocked, began = True, stage.control.now
        try:
            yield from stage.answer(stage.control.block(member.turn, TOOL, AUTHOR))
        except ParkdeckError:
            member.blocked = False
            yield
            continue
        return member, began


def _slots(stage: Stage) -> int:
    return stage.playing.sizes.slots


# -- 6 ----------------------------------------------------------------------------------------------------------------


def change_policy(stage: Stage) -> Waiting[str]:
    try:
        yield from stage.set_knobs({"policy": "recompute-only"})
        yield from stage.pause(STAY + 1)
        if KVDtype.FP16 in dict(stage.snapshot.paused_fit_by_dtype):
            yield from stage.set_knobs({"kv_dtype": KVDtype.FP16})
    except Refused as refusal:
        raise NotSeen(f"{refusal}") from None
    dropped = yield from _wait_for(stage, (EventKind.DROP,), "a turn that is dropped", partial(_why_all_stay, stage))
    member = stage.playing.named(dropped.turn)
    if member is not None and member.held:
        yield from stage.resume(member)
    again = yield from _wait_for(stage, (EventKind.RECOMPUTE,), f"{dropped.agent} computed again", agent=dropped.agent)
    price = f"{dropped.agent} was dropped and computed again in {took(again.seconds or 0.0)}"
    if OUT in stage.figures and BACK in stage.figures:
        both = stage.figures[OUT] + stage.figures[BACK]
        times = (again.seconds or 0.0) / both if both > 0 else 0.0
        price += f"; by swap it was {took(stage.figures[OUT])} out and {took(stage.figures[BACK])} back"
        price += f", so this took {times:,.0f} times as long" if times >= 2 else ""
    return f"{price}."


def _wait_for(
    stage: Stage,
    kinds: tuple[EventKind, ...],
    what: str,
    why: Callable[[], str] = lambda: "",
    agent: str | None = None,
) -> Waiting[Event]:
    yield from stage.until(lambda: stage.first(kinds, agent) is not None, what, why)
    event = stage.first(kinds, agent)
    assert event is not None
    return event


def _names(members: list[Member]) -> str:
    return " and ".join(member.name for member in members)


STEPS = (
    Step(
        "Fill the slots", "Fill the slots",
        "Agents of the tour take every slot and prefill their context. When a turn ends its agent takes the next, so "
        "the slots stay full while you read.",
        "running KV in the chart, and the turns named tour in the table", "running_kv", fill,
    ),
    Step(
        "Pause two", "Pause two",
        "Two turns lose their slots and newcomers take them. The paused ones' KV stays where it is: that is free as "
        "long as there is room.",
        "paused KV in the chart, on top of running KV", "paused_kv", pause_two,
    ),
    Step(
        "Pause a third", "Pause a third",
        "Resident is not free: a third paused turn does not fit beside full slots and two others. The longest of them "
        "has to leave the card.",
        "what had to leave, hatched above the stack, and the host pool beside the chart", "forced", pause_third,
    ),
    Step(
        "Flip KV precision to q8", "Flip to q8",
        "At q8 the same KV takes about half the bytes. The turn that left gets a slot and comes back, and one that "
        "runs is paused in its place.",
        "Paused that fit, and the dashed line: the same turns at fp16 from now on", "other_precision", flip_q8,
    ),
    Step(
        "Block a turn on a tool", "Block one on a tool",
        "A turn calls a tool and waits. Its slot is free at once for a paused one, its KV stays; then the tool's "
        "result comes and it goes on.",
        "blocked KV in the chart", "blocked_kv", block_one,
    ),
    Step(
        "Change the policy", "Recompute only",
        "Tier policy becomes recompute-only, KV precision fp16 again, and three turns are paused. One has to leave: "
        "this time it is thrown away, and computed again when it comes back.",
        "Recomputed in the figures, and the events", "recompute", change_policy,
    ),
)  # fmt: skip
