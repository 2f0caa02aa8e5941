"""Who gets a slot: the queue, preemption of background by foreground, and room for the whole context of whoever starts.
Rules 1, 2 and 4 of the package."""

from collections.abc import Iterator
from enum import IntEnum

from engine.governor.board import Board, freed
from engine.governor.timing import aged_in, in_quantum, place, returns_at, slot_since, starving
from engine.policies.base import Move, Need
from engine.turn import Priority
from engine.view import Reason, TurnView


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
    for turn in sorted((t for t in board.waiting.values() if t.priority is Priority.FOREGROUND), key=place):
        if gate is Gate.CLOSED:
            break
        if gate is Gate.IN_PLACE:
            if not toll and board.slots > 0 and turn.id not in board.touched and _fits_in_place(board, turn, 0):
                board.start(turn)
            continue
        now_here = board.waiting[turn.id]
        outcome = Outcome.NO_ROOM if turn.id in board.touched else _start_foreground(board, now_here, toll)
        if outcome is Outcome.NO_SLOT:
            break
        if outcome is Outcome.NO_ROOM:
            gate, head = _gate_behind(board, turn), now_here
    return gate, head


def _gate_behind(board: Board, turn: TurnView) -> Gate:
    return Gate.CLOSED if starving(turn, board.now) else Gate.IN_PLACE


def _start_foreground(board: Board, turn: TurnView, toll: bool) -> Outcome:
    """With as few victims as it takes, all parked turns leaving first. `toll`: it passes a starving turn and so must
    take the slot and room of a victim."""
    victims = _victims(board)
    fewest = 1 if toll or board.slots <= 0 else 0
    if fewest > len(victims):
        return Outcome.NO_SLOT
    parked = board.parked(settled=False, but=turn.id)
    movable = sum(t.blocks for t in parked)
    for count in range(fewest, len(victims) + 1):
        taken = victims[:count]
        short = board.wants(turn) - board.spare - sum(board.wants(t) for t in taken)
        moves: tuple[Move, ...] = ()
        if short > 0:
            if movable + sum(t.blocks for t in taken) < short:
                continue
            offered = parked + [t for t in taken if t.blocks]
            moves = board.ask(offered, Need(hard=short))
            if freed(moves, offered) < short:
                continue
        for victim in taken:
            board.preempt(victim, turn.id, Reason.ADMISSION)
        board.move(moves)
        board.start(turn)
        return Outcome.STARTED
    return Outcome.NO_ROOM


def _admit_background(board: Board, gate: Gate, head: TurnView | None) -> TurnView | None:
    """In order, while there are slots. A turn that must wait out its dwell keeps its slot and room meanwhile."""
    kept_slots = kept_blocks = 0
    for turn in _background(board):
        if gate is Gate.CLOSED or board.slots <= kept_slots:
            break
        back = returns_at(turn)
        if turn.id in board.touched or (back is not None and board.now < back):
            if back is not None:
                board.wake(back)
            kept_slots += 1
            kept_blocks += board.wants(turn)
            if kept_blocks > board.spare:
                gate = Gate.IN_PLACE
        elif gate is Gate.IN_PLACE:
            if _fits_in_place(board, turn, kept_blocks):
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
        board.move(moves)
    board.start(turn)
    return True


def _fits_in_place(board: Board, turn: TurnView, kept_blocks: int) -> bool:
    """It holds at least half of what it needs and the rest is spare."""
    wants = board.wants(turn)
    return wants <= turn.blocks and wants <= board.spare - kept_blocks


def _background(board: Board) -> Iterator[TurnView]:
    """Starving turns, the longest wait first, then the others in their places; each as it now stands."""
    now = board.now
    waiting = [t for t in board.waiting.values() if t.priority is Priority.BACKGROUND]
    aged = sorted((t for t in waiting if starving(t, now)), key=lambda t: (t.queued_since, t.id))
    for turn in aged + sorted((t for t in waiting if not starving(t, now)), key=place):
        yield board.waiting[turn.id]


def _lifted(board: Board) -> TurnView | None:
    """The starving turn that takes the next free slot ahead of foreground; one at a time."""
    now = board.now
    if _guarded(board) is not None:
        return None
    ready = (
        t
        for t in board.waiting.values()
        if t.priority is Priority.BACKGROUND
        and starving(t, now)
        and t.id not in board.touched
        and now >= (returns_at(t) or now)
    )
    return min(ready, key=lambda t: (t.queued_since, t.id), default=None)


def _guarded(board: Board) -> TurnView | None:
    """The one aged turn that nobody may preempt: the first that got its slot and has not had its share."""
    aged = (t for t in board.running.values() if t.priority is Priority.BACKGROUND and t.id not in board.started)
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
            if t.priority is Priority.BACKGROUND
            and t.id not in board.started
            and (guarded is None or t.id != guarded.id)
            and not in_quantum(t, board.knobs, board.now)
        ),
        key=lambda t: (-t.tokens, t.id),
    )
