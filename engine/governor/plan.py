"""The step: who runs and how many tokens. Rule 3 of the package."""

from engine.backends.base import StepPlan, Work
from engine.governor.board import Board
from engine.turn import TurnId
from engine.view import TurnView


def step_plan(board: Board) -> StepPlan:
    """Decode turns by id, then prefill chunks, whole or not at all, so that where a turn's chunks end never depends
    on who runs beside it."""
    chunk = board.knobs.prefill_chunk
    decode: list[TurnId] = []
    prefill: list[TurnView] = []
    for turn in board.running.values():
        if turn.pending > 1:
            prefill.append(turn)
        else:
            decode.append(turn.id)
    prefill.sort(key=lambda t: (t.priority, t.arrived_at, t.id))
    work = [Work(turn, 1) for turn in sorted(decode)]
    left = chunk
    for turn in prefill:
        budget = min(chunk, turn.pending)
        if budget <= left:
            work.append(Work(turn.id, budget))
            left -= budget
    return StepPlan(tuple(work))
