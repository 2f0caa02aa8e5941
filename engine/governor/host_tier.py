"""Room in the host pool: which copies are dropped for one that is worth more. Rule 11 of the package."""

from collections.abc import Iterable

from engine.governor.timing import TIER_DWELL_S, place, starving
from engine.turn import TurnId
from engine.view import TurnView


def least_needed(turn: TurnView) -> tuple[int, bool, float, int]:
    """The order in which copies are given up: background before foreground, whoever wants no slot before whoever does;
    of those the least recently used, of these the last in line."""
    wants = turn.wants_slot
    return (-turn.priority, wants, -turn.phase_since if wants else turn.phase_since, turn.id)


def next_in_line(waiting: Iterable[TurnView], slots: int, now: float) -> frozenset[TurnId]:
    """Who is about to run: as many of those that want a slot as there are slots, starving ones first."""
    line = sorted(waiting, key=lambda t: (not starving(t, now), t.priority, place(t)))
    return frozenset(turn.id for turn in line[:slots])


def give_way(
    newcomer: TurnView, nbytes: int, copies: Iterable[TurnView], about_to_run: frozenset[TurnId], now: float
) -> tuple[TurnView, ...]:
    """Whose copies are dropped so that `nbytes` come free for the newcomer's; empty if too little would. Only copies
    that are worth less: of background for a foreground turn, and within a priority those of turns that want no slot and
    were used before it."""
    gone: list[TurnView] = []
    freed = 0
    for turn in sorted((t for t in copies if _worth_less(t, newcomer, about_to_run, now)), key=least_needed):
        if freed >= nbytes:
            break
        gone.append(turn)
        freed += turn.host_bytes
    if freed < nbytes:
        return ()
    for turn in reversed(gone[:-1]):
        if freed - turn.host_bytes >= nbytes:
            gone.remove(turn)
            freed -= turn.host_bytes
    return tuple(gone)


def _worth_less(turn: TurnView, newcomer: TurnView, about_to_run: frozenset[TurnId], now: float) -> bool:
    if turn.priority < newcomer.priority or turn.id in about_to_run or now < turn.tier_since + TIER_DWELL_S:
        return False
    if turn.priority > newcomer.priority:
        return True
    return not turn.wants_slot and turn.phase_since < newcomer.phase_since
