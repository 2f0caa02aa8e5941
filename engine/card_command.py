"""An operator's change of a modelled card, at a token boundary: all of it or nothing."""

from collections.abc import Mapping
from dataclasses import replace

from engine.core import Core
from engine.errors import Refused
from engine.events import EventKind
from engine.geometry import blocks_for
from engine.live_card import LiveCard
from engine.snapshot import ModelledCard
from engine.words import counted


def set_card(core: Core, changes: Mapping[str, object], author: str) -> ModelledCard:
    """Each value that is another becomes one event, all at one instant. Raises Refused, with nothing changed, for an
    engine that models nothing, a value out of range, and usable memory below what turns hold or will ever need."""
    live = core.live_card
    if live is None:
        raise Refused("this engine runs a real model, no modelled card; start the twin, then change its card")
    asked = live.asked(changes)
    for change in asked:
        if change.name == "usable":
            _check_room(core, live, float(change.new))
    at = core.clock.now()
    for change in asked:
        live.put(change)
        core.land()
        core.ledger.knobs = replace(core.knobs, overlap_copies=core.backend.overlap)
        core.costs = live.costs(core.costs, change)
        core.event(
            EventKind.CARD, author, change.text, name=change.name, old=str(change.old), new=str(change.new), at=at
        )
    return live.state()


def _check_room(core: Core, live: LiveCard, usable: float) -> None:
    backend, memory = core.backend, core.backend.memory()
    fixed = memory.weights_bytes + memory.runtime_bytes
    total = max(0, live.arena_at(usable)) // memory.block_bytes
    held = memory.blocks_total - memory.blocks_free
    if total < max(1, held):
        raise Refused(
            f"Usable memory of {usable / 2**30:,.2f} GiB leaves {max(0.0, usable - fixed) / 2**30:,.2f} GiB beside "
            f"weights and runtime, and turns hold {held * memory.block_bytes / 2**30:,.2f} GiB of KV; give at least "
            f"{(fixed + max(1, held) * memory.block_bytes) / 2**30:,.2f} GiB, or let turns leave first"
        )
    for turn in core.ledger:
        if blocks_for(len(turn.tokens) + 1, backend.block_size) > total:
            raise Refused(
                f"{turn.agent} has {counted(len(turn.tokens), 'token')}, and {total * backend.block_size:,} would fit "
                f"beside weights and runtime at {usable / 2**30:,.2f} GiB; cancel it or give more"
            )
