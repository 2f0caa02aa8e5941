"""Room in the arena: turns that ended unnoticed, growth, stalls, watermarks. Rules 5 to 8 of the package."""

import math

from engine.governor.board import Board, freed
from engine.governor.timing import FAIL_AFTER, STARVE_AFTER_S, TIER_DWELL_S
from engine.policies.base import Need, out_or_drop
from engine.turn import Priority, Tier, TurnId
from engine.view import Reason, Stall, TurnView


def end_the_lost(board: Board) -> None:
    """Abandoned turns lose their KV and later fail; turns larger than the arena fail at once."""
    limit, now, soonest = board.knobs.abandon_after_s, board.now, math.inf
    for turn in board.blocked:
        due = turn.phase_since + limit
        if now >= due:
            due = _abandon(board, turn, limit)
        if due < soonest:
            soonest = due
    board.wake(soonest)
    capacity = board.total * board.block_size
    for turn in [t for t in (*board.waiting.values(), *board.running.values()) if t.tokens > capacity]:
        board.fail(turn, _too_large(turn, capacity))


def _abandon(board: Board, turn: TurnView, limit: float) -> float:
    """Drop or fail a turn blocked for too long; returns when it is due next."""
    fails_at = turn.phase_since + FAIL_AFTER * limit
    if board.now >= fails_at:
        board.fail(
            turn,
            f"turn {turn.id} was blocked on {turn.tool or 'a tool'} for {board.now - turn.phase_since:,.1f} s, "
            f"more than {FAIL_AFTER:g} times abandon_after_s ({limit:g} s), and was ended; start it anew",
        )
        return math.inf
    settles_at = turn.tier_since + TIER_DWELL_S
    if turn.tier is not Tier.RESIDENT and turn.tier is not Tier.HOST:
        return fails_at
    if board.now < settles_at:
        return min(settles_at, fails_at)
    board.drop_abandoned(turn)
    return fails_at


def trim_slots(board: Board) -> None:
    """After max_running was lowered; the operator's word stands above quantum and share."""
    surplus = -board.slots
    for turn in _dispensable(board)[: max(0, surplus)]:
        board.preempt(turn, None, Reason.OPERATOR)


def grow(board: Board) -> None:
    """See that the running turns can take what they cannot do without: parked turns leave, then turns are preempted
    and leave, and the last one alone gets all the arena."""
    while (short := _growth(board) - board.free) > 0:
        if board.resident:
            board.move(board.ask(board.parked(settled=False), Need(hard=short, reason=Reason.GROWTH)))
        if _growth(board) <= board.free:
            return
        victim = _growth_victim(board)
        if victim is not None:
            board.preempt(victim, None, Reason.GROWTH)
            continue
        (last,) = board.running.values()
        short = board.lacks(last) - board.free
        if _spill(board, last, short) < short:
            board.fail(last, _too_large(last, (board.free + last.blocks) * board.block_size))


def break_stall(board: Board, head: TurnView) -> None:
    """Nobody runs and `head` lacks room. If only its dwell keeps a parked turn here, time helps; else the longest
    parked turns leave, whatever the policy says, and `head` starts."""
    if head.id in board.touched:
        board.wake_at = board.now
        return
    short = board.wants(head) - board.spare
    parked = board.parked(settled=False, but=head.id)
    settling = [t.tier_since + TIER_DWELL_S for t in parked if board.now < t.tier_since + TIER_DWELL_S]
    if settling and freed(board.ask(parked, Need(hard=short)), parked) >= short:
        board.wake(min(settling))
        return
    if _spill(board, head, short) >= short:
        board.start(head)
    elif board.stalled is None:
        board.stalled = Stall(head.id, short)


def keep_watermarks(board: Board, evicting: bool) -> bool:
    """Let parked turns leave between the high and the low watermark; returns the new hysteresis state. The policy is
    asked even without pressure."""
    low, high = board.knobs.low_watermark * board.total, board.knobs.high_watermark * board.total
    used = board.total - board.spare
    evicting = used > high or (evicting and used > low)
    over = max(0, math.ceil(used - low))
    parked = board.parked(settled=True)
    board.move(board.ask(parked, Need(soft=over if evicting else 0, long=over)))
    return evicting and board.total - board.spare > low


def name_wakes(board: Board) -> None:
    """Nobody runs: a parked turn may be moved once it has dwelt, a waiting one goes ahead once it starves."""
    for turn in board.resident.values():
        board.wake(turn.tier_since + TIER_DWELL_S)
    for turn in board.waiting.values():
        if turn.priority is Priority.BACKGROUND:
            board.wake(turn.queued_since + STARVE_AFTER_S)


def _growth(board: Board) -> int:
    return sum(board.lacks(turn) for turn in board.running.values())


def _dispensable(board: Board) -> list[TurnView]:
    """Running turns, the first to lose its slot first: background by length, then the latest foreground."""

    def key(turn: TurnView) -> tuple[int, float, int]:
        background = turn.priority is Priority.BACKGROUND
        return (0, -turn.tokens, turn.id) if background else (1, -turn.arrived_at, -turn.id)

    return sorted(board.running.values(), key=key)


def _growth_victim(board: Board) -> TurnView | None:
    """None: only one turn runs. Where the policy keeps parked turns here, only a turn that itself lacks a block may
    go: the others' slots would bring nothing."""
    if len(board.running) <= 1:
        return None
    order = _dispensable(board)
    return next(t for t in order if board.lacks(t)) if board.resident else order[0]


def _spill(board: Board, turn: TurnView, short: int) -> int:
    """Move the longest parked turns out until `short` blocks came free for `turn`; returns how many did."""
    gained = 0
    moved: list[TurnId] = []
    for parked in sorted(board.parked(settled=False, but=turn.id), key=lambda t: (-t.tokens, t.id)):
        if gained >= short:
            break
        board.move((out_or_drop(parked, Reason.STALL, board.memory, board.host_free),), turn)
        gained += parked.blocks
        moved.append(parked.id)
    if moved:
        board.stalled = Stall(turn.id, short, tuple(moved))
    return gained


def _too_large(turn: TurnView, capacity: int) -> str:
    return (
        f"turn {turn.id} has {turn.tokens:,} tokens and the arena holds {capacity:,} for it; "
        "shorten its context, choose q8 or enlarge the arena"
    )
