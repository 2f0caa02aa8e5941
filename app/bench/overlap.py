"""What copies between arena and host pool cost the turns that run: while the engine stands still for them, and beside
its steps.

One engine decodes. At every fourth boundary one parked turn leaves for the host pool or comes back, by turns. Spans
alternate: no copies, copies beside the steps, no copies, copies that the engine stands still for; each begins with the
same contexts. A ratio is the span's p99 against that of the spans without copies next to it, and the median of a kind's
ratios counts.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from app.bench.report import Bench
from app.bench.rig import AUTHOR, Rig, quiet_body
from app.bench.spans import alternation
from app.bench.swap import MIB, middle
from engine.errors import IntegrityError, Refused
from engine.knobs import Knobs
from engine.stats import quantile
from engine.turn import AVERAGE_TURN_TOKENS, Phase, Tier, TurnId
from engine.view import Reason

RUNNING = 6
PARKED = 2
LONG_TOKENS = 2048
EVERY = 4
"""Boundaries from one copy to the next."""
STAYS = 100_000
NONE, BESIDE, STILL = "none", "beside the steps", "engine stands still"
DEPTHS = {"quick": (40, 2), "default": (120, 6), "full": (200, 15)}
"""Steps of a span, rounds."""
MOST = 1.2


@dataclass(slots=True)
class Seen:
    """Of one span: seconds between the tokens of the running turns, and the copies."""

    kind: str
    gaps: list[float] = field(default_factory=list)
    copies: list[float] = field(default_factory=list)
    waited_s: float = 0.0

    @property
    def p99(self) -> float:
        return quantile(self.gaps, 0.99) or math.nan


class Deck:
    """Six average turns that decode and two parked ones of `tokens` tokens, whose contexts nobody has computed."""

    def __init__(self, rig: Rig, tokens: int) -> None:
        self._rig = rig
        self._running: list[TurnId] = []
        self._parked = [self._open(tokens, f"parked {number}") for number in range(PARKED)]
        for turn in self._parked:
            rig.commands.pause(turn, AUTHOR)

    def span(self, kind: str, steps: int) -> Seen:
        rig, seen = self._rig, Seen(kind)
        core = rig.core
        core.backend.set_overlap(kind == BESIDE)
        for turn in self._running:
            rig.commands.cancel(turn, AUTHOR)
        self._running = [self._open(AVERAGE_TURN_TOKENS, f"runs {number}") for number in range(RUNNING)]
        rig.run_until(lambda: all(rig.phase(turn) is Phase.DECODE for turn in self._running))
        rig.tick()
        before, copied = core.counters, len(core.moves)
        at = [time.perf_counter()]
        for step in range(steps):
            if kind != NONE and step % EVERY == 0:
                self._move(step // EVERY)
            rig.tick()
            at.append(time.perf_counter())
        core.settle()
        seen.gaps = [b - a for a, b in pairwise(at)]
        seen.copies = [move.seconds for move in list(core.moves)[copied:]]
        seen.waited_s = core.counters.waited_seconds - before.waited_seconds
        return seen

    def close(self) -> None:
        for turn in (*self._running, *self._parked):
            self._rig.commands.cancel(turn, AUTHOR)
        if self._rig.leaked() != (0, 0):
            raise IntegrityError("turns that have ended still hold blocks or host memory")

    def _move(self, number: int) -> None:
        """The next of the parked turns goes to where it is not."""
        core = self._rig.core
        turn = core.ledger.find(self._parked[number % PARKED])
        now = core.clock.now()
        moved = core.swap_in(turn, now) if turn.tier is Tier.HOST else core.swap_out(turn, now, Reason.OPERATOR, AUTHOR)
        if not moved:
            raise IntegrityError("the bench's own pool or arena had no room for what it was made for")

    def _open(self, tokens: int, agent: str) -> TurnId:
        rig = self._rig
        turn = rig.submit([1] * tokens, STAYS, agent=agent)
        rig.core.backend.pretend(turn, tokens - 1)
        live = rig.core.ledger.find(turn)
        live.computed_once = tokens - 1
        live.tier = Tier.RESIDENT
        rig.core.ledger.changed(live)
        return turn


def run(bench: Bench) -> None:
    """One row per size of turn and kind of copies; targets on the ratio of the running turns' ITL p99."""
    steps, rounds = DEPTHS[bench.depth]
    arena = RUNNING * (AVERAGE_TURN_TOKENS + steps + 32) + PARKED * (LONG_TOKENS + 64)
    rig = Rig(quiet_body(arena_tokens=arena, backend=bench.backend), Knobs(max_running=RUNNING, long_turn_tokens=10**7))
    if not rig.core.backend.can_overlap:
        rig.close()
        raise Refused("on this backend the engine stands still for its copies; leave --backend out, on a CPU")
    ratios: dict[int, float] = {}
    for tokens in (AVERAGE_TURN_TOKENS, LONG_TOKENS):
        deck = Deck(rig, tokens)
        deck.span(BESIDE, 2 * EVERY)
        spans: list[Seen] = []
        for number, kind in enumerate(alternation((BESIDE, STILL), rounds, NONE)):
            bench.say(f"{tokens:,} tokens, span {number + 1}: {kind}")
            spans.append(deck.span(kind, steps))
        nbytes = max(move.nbytes for move in rig.core.moves)
        deck.close()
        for kind in (NONE, BESIDE, STILL):
            ratio = _row(bench, tokens, nbytes, spans, kind)
            if kind == BESIDE:
                ratios[tokens] = ratio
    rig.close()
    for tokens, ratio in ratios.items():
        bench.target(f"ITL p99, copies of {tokens:,} tokens beside the steps / no copies", ratio, "<=", MOST)
    bench.note(
        f"{RUNNING} turns of {AVERAGE_TURN_TOKENS} tokens decode; one copy at every {EVERY}th boundary. itl: between "
        "two tokens of a turn. copy: from its first byte to its last, rests included."
    )
    bench.note("hidden: the share of the copies' time for which the engine did not stand still.")


def _row(bench: Bench, tokens: int, nbytes: int, spans: Sequence[Seen], kind: str) -> float:
    """The row of one kind; returns its ratio."""
    ours = [one for one in spans if one.kind == kind]
    gaps = [gap for one in ours for gap in one.gaps]
    copies = [seconds for one in ours for seconds in one.copies]
    ratio = middle(found) if (found := _ratios(spans, kind)) else math.nan
    copied_s = sum(copies)
    bench.row(
        copies=kind,
        turn_tokens=tokens,
        mib=round(nbytes / MIB, 1) if copies else None,
        steps=len(gaps),
        number=len(copies),
        copy_p50_ms=_ms(copies, 0.5),
        itl_p50_ms=_ms(gaps, 0.5),
        itl_p99_ms=_ms(gaps, 0.99),
        p99_to_none=round(ratio, 3) if kind != NONE else None,
        hidden_percent=round(100 * (1 - sum(one.waited_s for one in ours) / copied_s), 1) if copied_s else None,
    )
    return ratio


def _ratios(spans: Sequence[Seen], kind: str) -> list[float]:
    """Each span of `kind` against the mean of those without copies on both sides of it."""
    return [
        2 * one.p99 / (spans[place - 1].p99 + spans[place + 1].p99)
        for place, one in enumerate(spans)
        if one.kind == kind and kind != NONE
    ]


def _ms(seconds: Sequence[float], q: float) -> float | None:
    found = quantile(seconds, q)
    return None if found is None else round(found * 1e3, 2)
