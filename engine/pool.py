"""The live change of the host pool's size, at a token boundary: copies that no longer fit are dropped."""

from engine.core import Core
from engine.leaving import squeezed_out
from engine.turn import Tier, TurnId
from engine.view import Reason


def resize(core: Core, nbytes: int, author: str) -> float:
    """Host copies that no longer fit are dropped; seconds it took. `nbytes` is one that the backend takes."""
    started = core.clock.now()
    view = core.view(evicting=False)
    for turn in squeezed_out(view.turns, host_copies(core), nbytes):
        core.drop(core.ledger.find(turn.id), started, Reason.HOST_FULL, author)
    core.backend.set_host_pool(nbytes)
    return core.clock.now() - started


def host_copies(core: Core) -> dict[TurnId, int]:
    """Bytes of the host pool that each turn there occupies."""
    return {turn.id: core.backend.holding(turn.id).host_bytes for turn in core.ledger if turn.tier is Tier.HOST}
