"""Engine and swarm in a terminal: a live table while they run, a summary at the end."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from app.deck import Deck, DeckConfig
from app.interrupt import interruptible
from engine.errors import Refused
from engine.snapshot import HostState, Snapshot
from engine.turn import Priority
from engine.words import counted, percent
from panels.figures import tiles
from panels.scale import scale_for
from panels.units import seconds as duration
from panels.units import size

REDRAW_S = 0.5
LINE_EVERY_S = 5.0
SHOWN_TURNS = 16
GONE = (HostState.FAILED, HostState.STOPPED)


def run_swarm(config: DeckConfig, seconds: float | None, console: Console | None = None) -> None:
    """Until `seconds` after the engine is ready, or Ctrl-C. Raises Refused with the engine's own sentence when it does
    not start or stops on a fault."""
    console = console or Console()
    if seconds is not None and not 0 < seconds < float("inf"):
        raise Refused(f"--seconds {seconds:g} is not a time to run; give more than 0")
    deck = Deck(config)
    with interruptible() as ending:
        deck.start()
        try:
            last = _watch(deck, seconds, ending, console)
        finally:
            deck.stop()
    if last.state == HostState.FAILED:
        raise Refused(last.error or "the engine stopped on a fault")
    status = deck.status
    console.print(summary(last, deck.recorder.session if deck.recorder.stored else "", ending_words(deck)))
    if status.problem and status.blocked_fraction is None and last.bands is not None:
        raise Refused(f"no turn ran: {status.problem}")


def _watch(deck: Deck, seconds: float | None, ending: threading.Event, console: Console) -> Snapshot:
    """The last snapshot of the running engine, or the one that says why it stopped."""
    last = snapshot = deck.control.snapshot
    ready_at: float | None = None
    lined_at = float("-inf")
    live = Live(console=console, refresh_per_second=4, screen=False, transient=True)
    with live if console.is_terminal else _nothing():
        while not ending.is_set():
            snapshot = deck.control.snapshot
            if snapshot.state in GONE:
                return snapshot
            if snapshot.bands is not None:
                last = snapshot
                ready_at = ready_at or time.monotonic()
            if console.is_terminal:
                live.update(Group(screen(snapshot), *map(Text, troubles(deck))))
            elif time.monotonic() - lined_at >= LINE_EVERY_S:
                lined_at = time.monotonic()
                console.print(
                    "; ".join([line(snapshot), *troubles(deck)]), markup=False, highlight=False, soft_wrap=True
                )
            if seconds is not None and ready_at is not None and time.monotonic() - ready_at >= seconds:
                break
            ending.wait(REDRAW_S)
    return last


def troubles(deck: Deck) -> list[str]:
    """What is wrong now, one sentence each: the swarm has no turn for a reason, or records are not stored."""
    status = deck.status
    return [one for one in (None if status.live else status.problem, deck.recorder.problem) if one]


def ending_words(deck: Deck) -> list[str]:
    """What went wrong on the whole, one sentence each."""
    status = deck.status
    counts = f"{counted(status.refused, 'turn')} refused, {status.failed} failed; the latest: "
    told = counts if status.refused or status.failed else ""
    return [one for one in (status.problem and told + status.problem, deck.recorder.loss) if one]


def line(snapshot: Snapshot) -> str:
    """One line on how it stands, for logs."""
    if snapshot.bands is None:
        startup = snapshot.startup
        stage = f" {startup.stage}: {startup.note}" if startup else ""
        share = f" {percent(startup.fraction)}" if startup and startup.fraction is not None else ""
        return f"{snapshot.state}{stage}{share}"
    figures = {tile.key: f"{tile.label.lower()} {tile.value}" for tile in tiles(snapshot, scale_for(snapshot, None))}
    state = [] if snapshot.state == HostState.RUNNING else [str(snapshot.state)]
    return ", ".join([*state, *(figures[k] for k in ("turns", "decode", "headroom", "paused_fit", "swapped"))])


def screen(snapshot: Snapshot) -> RenderableType:
    """Figures and turns, as the page has them."""
    if snapshot.bands is None:
        return Text(line(snapshot))
    scale = scale_for(snapshot, None)
    figures = Table.grid(padding=(0, 3))
    shown = tiles(snapshot, scale)
    for half in (shown[:5], shown[5:]):
        figures.add_row(*(Text(tile.label, style="dim") for tile in half))
        figures.add_row(*(Text(tile.value, style="bold") for tile in half))
        figures.add_row(*(Text(tile.sub, style="dim") for tile in half))
    turns = Table("agent", "priority", "phase", "tier", "context, tok", "KV", "in phase", box=None, header_style="dim")
    for row in snapshot.turns[:SHOWN_TURNS]:
        phase = f"{row.phase}: {row.tool}" if row.tool else str(row.phase)
        kv = size(scale.kv(row.kv_bytes or row.host_bytes))
        turns.add_row(
            Text(row.agent), Priority(row.priority).label, Text(phase), str(row.tier), f"{row.context_tokens:,}", kv,
            duration(row.in_phase_s),
        )  # fmt: skip
    hidden = len(snapshot.turns) - SHOWN_TURNS
    more = Text(f"and {hidden} more" if hidden > 0 else "", style="dim")
    head = Text(f"{snapshot.model}, {snapshot.state}, {scale.short}, step {snapshot.step:,}")
    return Group(head, figures, turns, more)


def summary(snapshot: Snapshot, session: str, troubles: Sequence[str] = ()) -> RenderableType:
    """What the run came to. `session`: the one that can be exported, '' when nothing of it is stored."""
    if snapshot.bands is None:
        return Group(Text("Stopped before the engine was ready."), *map(Text, troubles))
    table = Table("figure", "value", "", title=f"{snapshot.model}, session {snapshot.session}", title_justify="left")
    for tile in tiles(snapshot, scale_for(snapshot, None)):
        table.add_row(tile.label, tile.value, tile.sub)
    csv = [f"CSV: parkdeck export --session {session}"] if session else []
    return Group(table, *map(Text, (*troubles, *csv)))


@contextmanager
def _nothing() -> Iterator[None]:
    yield
