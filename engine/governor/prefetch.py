"""Who comes back from the host pool ahead of its slot. Rule 10 of the package."""

from engine.governor.board import Board
from engine.governor.timing import TIER_DWELL_S, place
from engine.turn import Tier
from engine.view import TurnView


def bring_ahead(board: Board, head: TurnView | None) -> None:
    """In the order of the line. Who lacks room keeps what there is from those behind; for `head`, who lacks room now,
    all of it gathers. A dwell's end is named whatever the room: between two decisions that only falls."""
    room = board.spare - (board.total - board.knobs.low_watermark * board.total)
    for turn in _next_in_line(board):
        room -= board.wants(turn)
        if turn.tier is not Tier.HOST or turn.id in board.touched:
            continue
        settled = turn.tier_since + TIER_DWELL_S
        if board.now < settled:
            board.wake(settled)
        elif room >= 0 and head is None:
            board.bring_ahead(turn)


def _next_in_line(board: Board) -> list[TurnView]:
    """As many as half of the slots, by priority and place: waiting turns, once no slot is free for them, then those
    whose result is due by the time that their copy takes."""
    most = max(1, board.knobs.max_running // 2)
    if board.waiting and board.slots > 0:
        return []
    line = sorted(board.waiting.values(), key=lambda turn: (turn.priority, place(turn)))[:most]
    return line + _due(board)[: most - len(line)]


def _due(board: Board) -> list[TurnView]:
    """The first due first. Instants to come are named. One whose result is late is no longer due: it would come and go
    for as long as it is."""
    found: list[tuple[float, TurnView]] = []
    for turn in board.blocked:
        due = board.waits.due_s(turn.tool) if turn.tier is Tier.HOST and not turn.held else None
        if due is None:
            continue
        first, last = (turn.phase_since + seconds for seconds in due)
        starts = first - _copy_s(board, turn)
        if starts <= board.now < last:
            found.append((first, turn))
        else:
            board.wake(starts)
    return [turn for _, turn in sorted(found, key=lambda one: (one[0], one[1].id))]


def _copy_s(board: Board, turn: TurnView) -> float:
    blocks = -(-turn.kv_tokens // board.block_size)
    return blocks * board.memory.block_bytes / board.costs.swap_in_bytes_per_s
