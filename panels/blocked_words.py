"""The blocked fraction in words: the row of figures and the sentence below it. Pure; engine/blocked.py says what
counts."""

import html

from engine.blocked import WINDOW_S, Blocked, Share
from engine.words import counted, percent
from panels.figures import Tile
from panels.units import MISSING, count, fraction, mean, seconds

LONGEST_NAME = 32
OTHER_TOOLS = "other tools"
BUSY = 0.95
QUEUED = 0.05
COUNTS = (
    "**Blocked**: a turn waits on its tool, also while an operator holds it. **In a slot**: prefill or decode. "
    "**Queued**: it wants a slot and has none. Time that an operator holds a turn counts nowhere, nor does what an "
    "agent does between two turns, which is not known here. b is blocked time over all three; two turns of one agent "
    "at once count as two agents.\n\n"
    "**One slot could carry** (blocked + in a slot) / in a slot: 1/(1-b) of a b with the queue left out, since agents "
    "that wait for a slot do not make a slot carry more. **A busy slot carries** the mean number of live agents over "
    "the mean number of busy slots. What it carries above what it could is queue."
)


def tiles(found: Blocked | None, max_running: int, source: str) -> tuple[Tile, ...]:
    """Six figures of the last minute, each with the session's below. `source`: measured or modelled."""
    window, session = (found.window, found.session) if found else (Share(), Share())
    last = f"{source}, over the last {WINDOW_S:g} s; below over the session"
    return (
        Tile("b", "Blocked fraction b", fraction(window.b), f"session {fraction(session.b)}",
             f"Share of the agents' wall clock spent blocked on tools; {last}."),
        Tile("could", "One slot could carry", agents(window.could_carry), f"session {agents(session.could_carry)}",
             f"1/(1-b) with the queue left out: (blocked + in a slot) / in a slot; {last}."),
        Tile("carries", "A busy slot carries", agents(window.carries), f"session {agents(session.carries)}",
             f"Mean live agents over mean busy slots; what is above what one slot could carry is queue; {last}."),
        Tile("agents", "Live agents", mean(window.agents), f"session {mean(session.agents)}",
             f"Mean number of agents with a live turn, those that an operator holds left out; {last}."),
        Tile("slots", "Busy slots", f"{mean(window.slots)} of {max_running}" if window.slots is not None else MISSING,
             f"session {mean(session.slots)}", f"Mean number of slots in use; {last}."),
        Tile("queued", "Queued", share(window.queued_s, window), f"session {share(session.queued_s, session)}",
             f"Share of the agents' wall clock in which they wanted a slot and had none; {last}."),
    )  # fmt: skip


def verdict(found: Blocked | None, max_running: int) -> str:
    """What the last minute says of the number of agents, in a sentence."""
    window = found.window if found else Share()
    could, carries, live, busy = window.could_carry, window.carries, window.agents, window.slots
    if window.b is None:
        return f"No agent lived in the last {WINDOW_S:g} s."
    if could is None or carries is None or live is None or busy is None:
        return "No slot was busy yet in the last minute: what a slot could carry is not known."
    if window.queued_s > QUEUED * window.life_s:
        return (
            f"A slot could carry {agents(could)}, a busy one carries {mean(carries)}: agents spent "
            f"{percent(window.queued_s / window.life_s)} of their time waiting for one."
        )
    room = could * max_running - live
    if busy < BUSY * max_running and room >= 1:
        return (
            f"{mean(busy)} of {counted(max_running, 'slot')} were busy: by this b about {count(room)} more "
            f"agent{'s' if round(room) != 1 else ''} would fill them."
        )
    return (
        f"{mean(busy)} of {counted(max_running, 'slot')} were busy, with {mean(live)} live agents and next to no queue."
    )


def agents(value: float | None) -> str:
    return MISSING if value is None else f"{value:.1f} agents" if value < 1000 else f"{value:,.0f} agents"


def share(part_s: float, whole: Share) -> str:
    return percent(part_s / whole.life_s) if whole.life_s > 0 else MISSING


def named(name: str | None) -> str:
    """A name from outside as chart text; None: the other tools."""
    text = OTHER_TOOLS if name is None else name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
    return html.escape(text, quote=False).replace("\n", " ")


def spans(found: Blocked) -> str:
    """How long the figures are over."""
    return f"last {found.window.span_s:.0f} s · session {seconds(found.session.span_s)}"
