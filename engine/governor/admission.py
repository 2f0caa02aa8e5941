"""Who gets a slot: the queue, preemption of background by foreground, and room for the whole context of whoever starts.
Rules 1, 2 and 4 of the package."""

from collections.abc import Iterator
from enum import IntEnum

from engine.governor.board import Board, freed
from engine.governor.timing import STARVE_AFTER_S, aged_in, in_quantum, place, returns_at, slot_since, starving
from engine.policies.base import Move, Need
from engine.turn import Priority
from engine.view import Reason, TurnView

# As in board.py.
_FOREGROUND, _BACKGROUND = Priority.FOREGROUND, Priority.BACKGROUND


class Gate(IntEnum):
    """Who may still start once a turn ahead lacks room: everybody, only turns that hold their KV and need no more
    than is spare, nobody."""

    OPEN = 0
    IN_PLACE = 1
    CLOSED = 2


class Outcome(IntEnum):
    STARTED = 0
    NO_SLOT = 1
    NO_ROOM = 2


def admit(board: Board) -> TurnView | None:
    """Start whoever may; returns the first turn that lacks room which no passing of time will bring, else None."""
    lifted = _lifted(board) if board.slots > 0 else None
    waits = lifted is not None and not _start_background(board, lifted, 0)
    gate, head = _admit_foreground(board, toll=waits and bool(board.running))
    if waits:
        return head or lifted
    return _admit_background(board, gate, head) if board.slots > 0 else head


def _admit_foreground(board: Board, toll: bool) -> tuple[Gate, TurnView | None]:
    """In order. Waiting for a slot closes no gate: there is no slot then to pass it by."""
    gate, head = Gate.OPEN, None
    order = sorted([t for t in board.waiting.values() if t.priority is _FOREGROUND], key=place)
    victims = _victims(board) if order else []
    for turn in order:
        if gate is Gate.CLOSED:
            break
        if gate is Gate.IN_PLACE:
            if not toll and board.slots > 0 and turn.id not in board.touched and _fits_in_place(board, turn, 0):
                board.start(turn)
            continue
        now_here = board.waiting[turn.id]
        outcome = Outcome.NO_ROOM if turn.id in board.touched else _start_foreground(board, now_here, victims, toll)
        if outcome is Outcome.NO_SLOT:
            break
        if outcome is Outcome.NO_ROOM:
            gate, head = _gate_behind(board, turn), now_here
    return gate, head


def _gate_behind(board: Board, turn: TurnView) -> Gate:
    return Gate.CLOSED if starving(turn, board.now) else Gate.IN_PLACE


def _start_foreground(board: Board, turn: TurnView, victims: list[TurnView], toll: bool) -> Outcome:
    """With as few of the first `victims` as it takes, all parked turns leaving first; those taken leave the list.
    `toll`: it passes a starving turn and so must take the slot and room of a victim."""
    fewest = 1 if toll or board.slots <= 0 else 0
    if fewest > len(victims):
        return Outcome.NO_SLOT
    offered: list[TurnView] = []
    movable = 0
    short = board.wants(turn) - board.spare
    for count in range(len(victims) + 1):
        if count:
            short -= board.wants(victims[count - 1])
        if count < fewest:
            continue
        moves: tuple[Move, ...] = ()
        if short > 0:
            if not offered:
                offered = board.parked(settled=False, but=turn.id) + [v for v in victims[:count] if v.blocks]
                movable = sum([t.blocks for t in offered])
            elif count and victims[count - 1].blocks:
                offered.append(victims[count - 1])
                movable += victims[count - 1].blocks
            if movable < short:
                continue
            moves = board.ask(offered, Need(hard=short))
            if freed(moves, offered) < short:
                continue
        for victim in victims[:count]:
            board.preempt(victim, turn.id, Reason.ADMISSION)
        del victims[:count]
        board.move(moves, turn)
        board.start(turn)
        return Outcome.STARTED
    return Outcome.NO_ROOM


def _admit_background(board: Board, gate: Gate, head: TurnView | None) -> TurnView | None:
    """In order, while there are slots. A turn that must wait out its dwell keeps its slot and room meanwhile."""
    kept_slots = kept_blocks = 0
    now, touched = board.now, board.touched
    in_place, closed = Gate.IN_PLACE, Gate.CLOSED
    for turn in _background(board):
        if gate is closed or board.slots <= kept_slots:
            break
        back = returns_at(turn)
        if turn.id in touched or (back is not None and now < back):
            if back is not None:
                board.wake(back)
            kept_slots += 1
            kept_blocks += board.wants(turn)
            if kept_blocks > board.spare:
                gate = in_place
        elif gate is in_place:
            if turn.blocks and _fits_in_place(board, turn, kept_blocks):
                board.start(turn)
        elif not _start_background(board, turn, kept_blocks):
            gate = _gate_behind(board, turn)
            head = turn if head is None and not kept_slots else head
    return head


def _start_background(board: Board, turn: TurnView, kept_blocks: int) -> bool:
    """Start it in a free slot if the room is spare or settled parked turns can leave it."""
    short = board.wants(turn) - board.spare + kept_blocks
    if short > 0:
        parked = board.parked(settled=True, but=turn.id)
        if sum(t.blocks for t in parked) < short:
            return False
        moves = board.ask(parked, Need(hard=short))
        if freed(moves, parked) < short:
            return False
        board.move(moves, turn)
    board.start(turn)
    return True


def _fits_in_place(board: Board, turn: TurnView, kept_blocks: int) -> bool:
    """It holds at least half of what it needs and the rest is spare."""
    wants = board.wants(turn)
    return wants <= turn.blocks and wants <= board.spare - kept_blocks


def _background(board: Board) -> Iterator[TurnView]:
    """Starving turns, the longest wait first, then the others in their places; each as it now stands."""
    now = board.now
    aged: list[TurnView] = []
    others: list[TurnView] = []
    for turn in board.waiting.values():
        if turn.priority is _BACKGROUND:
            (aged if now >= turn.queued_since + STARVE_AFTER_S else others).append(turn)
    for turn in sorted(aged, key=_longest_wait):
        yield board.waiting[turn.id]
    # Only now, as whoever asks may have had enough.
    for turn in sorted(others, key=place):
        yield board.waiting[turn.id]


def _lifted(board: Board) -> TurnView | None:
    """The starving turn that takes the next free slot ahead of foreground; one at a time."""
    now = board.now
    if _guarded(board) is not None:
        return None
    ready = [
        t
        for t in board.waiting.values()
        if t.priority is _BACKGROUND
        and now >= t.queued_since + STARVE_AFTER_S
        and t.id not in board.touched
        and now >= (returns_at(t) or now)
    ]
    return min(ready, key=_longest_wait, default=None)


def _longest_wait(turn: TurnView) -> tuple[float, int]:
    return (turn.queued_since, turn.id)


def _guarded(board: Board) -> TurnView | None:
    """The one aged turn that nobody may preempt: the first that got its slot and has not had its share."""
    aged = (t for t in board.running.values() if t.priority is _BACKGROUND and t.id not in board.started)
    return min(
        (t for t in aged if aged_in(t, board.knobs, board.now)), key=lambda t: (slot_since(t), t.id), default=None
    )


def _victims(board: Board) -> list[TurnView]:
    """Background turns that may lose their slot now, the longest context first."""
    guarded = _guarded(board)
    return sorted(
        (
            t
            for t in board.running.values()
            if t.priority is _BACKGROUND
            and t.id not in board.started
            and (guarded is None or t.id != guarded.id)
            and not in_quantum(t, board.knobs, board.now)
        ),
        key=lambda t: (-t.tokens, t.id),
    )
