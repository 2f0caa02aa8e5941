"""One turn in full, for who looks at it: its row, its history, what its moves have cost, the end of its text."""

from engine.core import Core
from engine.events import EventKind
from engine.history import Paid, Span
from engine.ledger import LiveTurn
from engine.publish import turn_row
from engine.snapshot import TurnDetail
from engine.turn import TurnId

PROMPT_TOKENS = 160
TEXT_TOKENS = 1_000
ENDS = frozenset({EventKind.FINISH, EventKind.FAIL, EventKind.CANCEL})


def detail_of(core: Core, turn_id: TurnId) -> TurnDetail:
    """Of a live turn, or of one of the last that ended. Raises UnknownTurn for any other."""
    late = (turn for turn in core.ledger.late if turn.id == turn_id)
    turn = core.ledger.turns.get(turn_id) or next(late, None) or core.ledger.find(turn_id)
    now = turn.phase_since if turn.phase.ended else core.clock.now()
    past = turn.past.copy()
    if now > turn.marked_at:
        past.add(turn.span(now))
    if turn.again_tokens:
        past.pay(EventKind.RECOMPUTE, turn.again_tokens, 0, turn.again_s)
    utc, prompt = core.clock.utc, len(turn.request.prompt)
    return TurnDetail(
        row=turn_row(core, turn, now, core.backend.memory().block_bytes),
        at_utc=utc(now),
        arrived_utc=utc(turn.arrived_at),
        phase_since_utc=utc(turn.phase_since),
        tier_since_utc=utc(turn.tier_since),
        queued_s=past.queued_s,
        blocked_s=past.blocked_s,
        spans=tuple(Span(utc(s.start), utc(s.end), s.phase, s.tier, s.tool, s.held) for s in past.spans),
        swapped_out=past.paid.get(EventKind.SWAP_OUT, Paid()),
        swapped_in=past.paid.get(EventKind.SWAP_IN, Paid()),
        recomputed=past.paid.get(EventKind.RECOMPUTE, Paid()),
        prompt_tokens=prompt,
        prompt_end=tuple(turn.tokens[max(0, prompt - PROMPT_TOKENS) : prompt]),
        text_tokens=len(turn.tokens) - prompt,
        text_end=tuple(turn.tokens[max(prompt, len(turn.tokens) - TEXT_TOKENS) :]),
        ended=_how(core, turn) if turn.phase.ended else "",
    )


def _how(core: Core, turn: LiveTurn) -> str:
    """The event of its end; a turn that an engine's end took with it has none of its own."""
    told = (event.text for event in reversed(core.events) if event.turn == turn.id and event.kind in ENDS)
    return next(told, f"{turn.agent}: {turn.phase}")
