"""What a change of knobs would do at this token boundary, before it is made. Pure: it asks what the change itself would
ask, then the governor with the knobs as they are and as they would be; what would happen anyway is not the change's."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from engine.costs import Costs
from engine.geometry import KVDtype, blocks_for
from engine.governor import decide
from engine.knobs import Knobs
from engine.leaving import dropped, leaving, squeezed_out
from engine.policies.base import Move
from engine.turn import Tier, TurnId
from engine.view import Action, Drop, Fail, Preempt, Start, SwapIn, SwapOut, View


@dataclass(frozen=True, slots=True)
class Sizes:
    """What a view does not say. `blocks`: blocks and bytes of one, for the precisions before and after the change;
    `copies`: bytes in the host pool of each turn there; `converts_per_s`: bytes read and written a second by the last
    switch of precision, None before one."""

    blocks: Mapping[KVDtype, tuple[int, int]]
    copies: Mapping[TurnId, int]
    converts_per_s: float | None


@dataclass(frozen=True, slots=True)
class Leaver:
    """A turn whose KV would go from tier `was` to `to`: `nbytes` of this machine, `tokens` computed."""

    turn: TurnId
    was: Tier
    to: Tier
    nbytes: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Preview:
    """What the change from `old` to `new` would do on top of what happens anyway. `lose_slot`, `get_slot`, `fail`: in
    the order of the acts, `get_slot` with the tier they come from. `copied_bytes`: to the host pool, `brought_bytes`:
    from it, `converted_bytes`: KV in the arena converted in place, as it is before; `recompute_tokens`: of the dropped,
    when they run again. Seconds are estimates from measured rates; `convert_s` None: no switch was measured yet.
    `spare_blocks`: free afterwards beside one growth block for each running turn."""

    old: Knobs
    new: Knobs
    leave: tuple[Leaver, ...]
    lose_slot: tuple[TurnId, ...]
    get_slot: tuple[tuple[TurnId, Tier], ...]
    fail: tuple[TurnId, ...]
    copied_bytes: int
    brought_bytes: int
    converted_bytes: int
    recompute_tokens: int
    copied_s: float
    brought_s: float
    convert_s: float | None
    recompute_s: float
    spare_blocks: int
    block_size: int

    def fits(self, average_tokens: int) -> int:
        """Paused turns of so many tokens that would still fit."""
        return max(0, self.spare_blocks) // blocks_for(average_tokens, self.block_size)


def previewed(view: View, old: Knobs, new: Knobs, sizes: Sizes, costs: Costs, now: float) -> Preview:
    """`view`, `costs` and `now` as the governor gets them at this boundary. `new` is a set that can be taken. Raises
    BadKnob for an unknown policy."""
    anyway = decide(view, old, costs, now).actions
    squeezed, resized = _resize(view, old, new, sizes, now)
    switch = _switch(resized, old, new, sizes, costs, now)
    then = decide(switch.view, new, costs, now).actions
    leavers = (*squeezed, *_leavers(resized, switch.steps), *_leavers(switch.view, then))
    gone_anyway = {act.turn for act in anyway if isinstance(act, SwapOut | Drop)}
    leave = tuple(leaver for leaver in leavers if leaver.turn not in gone_anyway)
    brought = sum(sizes.copies.get(turn, 0) for turn in _more(SwapIn, then, anyway))
    copied = sum(leaver.nbytes for leaver in leave if leaver.to is Tier.HOST)
    again = sum(leaver.tokens for leaver in leave if leaver.to is Tier.DROPPED)
    tiers = {turn.id: turn.tier for turn in switch.view.turns}
    return Preview(
        old=old,
        new=new,
        leave=leave,
        lose_slot=_more(Preempt, (*switch.steps, *then), anyway),
        get_slot=tuple((turn, tiers[turn]) for turn in _more(Start, then, anyway)),
        fail=_more(Fail, then, anyway),
        copied_bytes=copied,
        brought_bytes=brought,
        converted_bytes=switch.nbytes,
        recompute_tokens=again,
        copied_s=copied / costs.swap_out_bytes_per_s,
        brought_s=brought / costs.swap_in_bytes_per_s,
        convert_s=switch.seconds,
        recompute_s=costs.recompute_s(again),
        spare_blocks=_spare(switch.view, then),
        block_size=view.memory.block_size,
    )


@dataclass(frozen=True, slots=True)
class _Switch:
    """A change of precision: who leaves first, the view once it is made, KV bytes converted and the seconds of that."""

    steps: tuple[Preempt | Move, ...]
    view: View
    nbytes: int = 0
    seconds: float | None = 0.0


def _resize(view: View, old: Knobs, new: Knobs, sizes: Sizes, now: float) -> tuple[tuple[Leaver, ...], View]:
    """Who leaves the host pool when its size changes, and the view then."""
    if new.host_pool_bytes == old.host_pool_bytes:
        return (), view
    gone = squeezed_out(view.turns, sizes.copies, new.host_pool_bytes)
    out = {turn.id for turn in gone}
    used = sum(nbytes for turn, nbytes in sizes.copies.items() if turn not in out)
    total = view.memory.host_pool(new.host_pool_bytes)
    memory = replace(view.memory, host_total_bytes=total, host_free_bytes=max(0, total - used))
    turns = tuple(dropped(turn, now) if turn.id in out else turn for turn in view.turns)
    leavers = tuple(Leaver(t.id, Tier.HOST, Tier.DROPPED, sizes.copies[t.id], t.kv_tokens) for t in gone)
    return leavers, replace(view, turns=turns, memory=memory)


def _switch(view: View, old: Knobs, new: Knobs, sizes: Sizes, costs: Costs, now: float) -> _Switch:
    if new.kv_dtype is old.kv_dtype:
        return _Switch((), view)
    total, block_bytes = sizes.blocks[new.kv_dtype]
    # As the command does: the policy that is in force until the switch is made chooses who leaves.
    steps, left = leaving(view, total, old, costs, now)
    held = left.memory.blocks_total - left.memory.blocks_free
    memory = replace(left.memory, block_bytes=block_bytes, blocks_total=total, blocks_free=total - held)
    read_and_written = held * (left.memory.block_bytes + block_bytes)
    rate = sizes.converts_per_s
    seconds = 0.0 if not held else None if rate is None else read_and_written / rate
    return _Switch(steps, replace(left, memory=memory), held * left.memory.block_bytes, seconds)


def _leavers(view: View, acts: Iterable[Action]) -> tuple[Leaver, ...]:
    """Who leaves the arena, or is dropped, by `acts` at `view`."""
    turns = {turn.id: turn for turn in view.turns}
    block_bytes = view.memory.block_bytes
    return tuple(
        Leaver(
            act.turn,
            turns[act.turn].tier,
            Tier.HOST if isinstance(act, SwapOut) else Tier.DROPPED,
            turns[act.turn].host_bytes or turns[act.turn].blocks * block_bytes,
            turns[act.turn].kv_tokens,
        )
        for act in acts
        if isinstance(act, SwapOut | Drop)
    )


def _more(kind: type[Action], acts: Iterable[Action], anyway: Iterable[Action]) -> tuple[TurnId, ...]:
    """Turns with an act of this kind that they would not have anyway."""
    already = {act.turn for act in anyway if isinstance(act, kind)}
    return tuple(act.turn for act in acts if isinstance(act, kind) and act.turn not in already)


def _spare(view: View, acts: Iterable[Action]) -> int:
    """Blocks free after `acts`, less one growth block for each turn that runs then."""
    turns = {turn.id: turn for turn in view.turns}
    free = view.memory.blocks_free
    running = {turn.id for turn in view.turns if turn.phase.running}
    for act in acts:
        turn = turns[act.turn]
        match act:
            case SwapOut() | Drop() | Fail():
                free += turn.blocks
                running.discard(act.turn)
            case SwapIn():
                free -= blocks_for(turn.kv_tokens, view.memory.block_size)
            case Preempt():
                running.discard(act.turn)
            case Start():
                running.add(act.turn)
    return free - len(running)
