"""The governor: who runs and where KV lives. `decide` is a pure function of what it is given.

Rules, numbered as the modules cite them (timing.py holds the constants):

1. Order. Foreground before background. Within a priority a preempted turn stands at its arrival, any other where it
   began to wait. A background turn that has waited STARVE_AFTER_S is starving: it goes ahead of other background, the
   longest wait first, and one at a time takes the next free slot ahead of waiting foreground and is not preempted
   until it has prefilled and then run min_quantum_s, and no less than BACKGROUND_SHARE of its wait and this together:
   its minimum share under foreground without end. If it lacks room,
   foreground passes it only by taking the slot and room of a running background turn.
2. Preemption. A foreground turn without a slot takes that of a background turn at once: the longest context, ties by
   id, never one resumed less than min_quantum_s ago, nor the guarded one of rule 1. Equals never preempt each other.
   When max_running falls, surplus turns lose their slots, background longest first, then the latest foreground.
3. Plan. Every decode turn (at most one pending token), then prefill chunks within a budget of prefill_chunk tokens,
   foreground first, then by arrival; a turn gets its whole next chunk min(prefill_chunk, pending) or nothing. The
   first always gets it. A plan is an upper bound: a backend may do less.
4. Room. A turn starts only if its whole context, the next token and one growth block fit beside what the running turns
   may still take by the same measure. Parked turns are moved for it if the policy does so; a foreground turn may also
   preempt background turns for room. Nobody behind a turn that lacks room starts, save one that holds its KV here (at
   least half of what it needs) and wants no more than is spare, and not past a starving turn. A swap-in reserves as a
   start does and is followed by it.
5. Growth. If the running turns cannot take the blocks of what is pending, parked turns leave, then running ones are
   preempted in rule 2's order of surplus and leave. One alone that the arena cannot hold fails.
6. Watermarks, on held blocks plus what rule 4 promised: above the high one parked turns leave until the low one is
   reached; long ones leave above the low one already. No turn changes tier twice within TIER_DWELL_S, save for room
   that foreground, growth or a stall needs; only background waits this out before it comes back, and its slot and room
   are kept for it meanwhile. The policy is asked even without pressure and may move turns that wait on a tool.
7. Abandoned. Blocked for abandon_after_s a turn is dropped, after FAIL_AFTER times that it fails.
8. Stall. If nobody runs and the first in line lacks room that neither policy nor time will bring, the longest parked
   turns leave and it starts.
9. With an empty plan `wake_at` is the first instant at which the answer may change by time alone.
10. Ahead of its slot. While no slot is free, the first in line, by priority and place and at most half as many as there
   are slots, come back from the host pool ahead of theirs, and with them blocked turns whose result is due by the time
   their copy takes. Only where nobody lacks room and the whole context of each, and of all before it in line, fits
   below the low watermark beside what is promised; not within TIER_DWELL_S of leaving. Such a turn is parked like any
   other and may leave again.

11. Host pool. A turn that the policy would have there, and for whose copy there is no room, takes that of copies worth
   less: background before foreground, then the least recently used. Never that of a turn of a higher priority, of one
   that is among the next max_running in line, or that moved within TIER_DWELL_S; within its own priority only of turns
   that want no slot and were used before it. If all of that is too little, nothing there changes and it is dropped.

Turns held by the operator want no slot and are parked like any other.
"""

from engine.costs import Costs
from engine.governor.admission import admit
from engine.governor.board import Board
from engine.governor.memory import break_stall, end_the_lost, grow, keep_watermarks, name_wakes, trim_slots
from engine.governor.plan import step_plan
from engine.governor.prefetch import bring_ahead
from engine.governor.quiet import quiet_until
from engine.governor.timing import BACKGROUND_SHARE, FAIL_AFTER, STARVE_AFTER_S, TIER_DWELL_S
from engine.knobs import Knobs
from engine.policies import policy_named
from engine.view import Decision, View

__all__ = ["BACKGROUND_SHARE", "FAIL_AFTER", "STARVE_AFTER_S", "TIER_DWELL_S", "decide", "quiet_until"]


def decide(view: View, knobs: Knobs, costs: Costs, now: float) -> Decision:
    """Actions in order, then the step, from this view alone; `now` on the same clock as the view's times, seconds.
    Raises BadKnob if the policy is not known."""
    board = Board(view, knobs, costs, policy_named(knobs.policy), now)
    end_the_lost(board)
    trim_slots(board)
    grow(board)
    head = admit(board)
    if head is not None and not board.running:
        break_stall(board, head)
    evicting = keep_watermarks(board, view.evicting)
    bring_ahead(board, head)
    plan = step_plan(board)
    if not plan.work:
        name_wakes(board)
    return Decision(
        actions=tuple(board.actions),
        plan=plan,
        evicting=evicting,
        wake_at=None if plan.work else board.wake_at,
        stalled=board.stalled,
        next_at=board.wake_at,
    )
