"""The row of figures above the chart. `tiles` is pure; `render` puts them on a page."""

from dataclasses import asdict, dataclass

from engine.snapshot import Counters, Snapshot
from engine.thrash import THRASH_S
from engine.turn import Phase
from engine.words import counted
from panels import components
from panels.palette import ThemeName, palette
from panels.scale import Scale
from panels.units import MISSING, count, fraction, mean, rate, seconds, share, size


@dataclass(frozen=True, slots=True)
class Tile:
    """`value` is number and unit with a space between, or 'n/a': not measured (yet). `hint` says what the figure is and
    where it comes from. `tone` bad: what it says does not fit. `href`: the page that tells more."""

    key: str
    label: str
    value: str
    sub: str
    hint: str
    tone: str = ""
    href: str = ""


def tiles(snapshot: Snapshot, scale: Scale) -> tuple[Tile, ...]:
    """The ten figures at `scale`; rates are over the last 10 s, latencies over the last 256 values."""
    return (
        _headroom(snapshot, scale),
        _paused_fit(snapshot),
        _turns(snapshot),
        *_speed(snapshot),
        *_moves(snapshot, scale),
        _blocked(snapshot),
    )


def render(snapshot: Snapshot, scale: Scale, theme: ThemeName) -> None:
    colours = components.colours(palette(theme))
    components.tiles({"tiles": [asdict(tile) for tile in tiles(snapshot, scale)], "colours": colours}, key="figures")


def _headroom(snapshot: Snapshot, scale: Scale) -> Tile:
    bands = snapshot.bands
    if bands is None:
        return Tile("headroom", "Headroom", MISSING, "no arena yet", "Ceiling minus what is used.")
    stack = scale.stack(bands)
    return Tile(
        "headroom", "Headroom", scale.size(stack.headroom, bands), f"of {scale.size(stack.ceiling, bands)}",
        f"Ceiling minus what is used; {scale.label}.",
    )  # fmt: skip


def _paused_fit(snapshot: Snapshot) -> Tile:
    other = [f"{dtype}: {fit:,}" for dtype, fit in snapshot.paused_fit_by_dtype if dtype != snapshot.knobs.kv_dtype]
    sub = " · ".join([*other, f"avg {snapshot.average_turn_tokens:,} tok"])
    return Tile(
        "paused_fit", "Paused that fit", count(snapshot.paused_fit), sub,
        f"How many more average turns ({snapshot.average_turn_tokens:,} tokens) can stay paused in the arena at "
        f"{snapshot.knobs.kv_dtype}; computed from the real block table.",
    )  # fmt: skip


def _turns(snapshot: Snapshot) -> Tile:
    running = sum(row.phase.running for row in snapshot.turns)
    paused, waiting, blocked = (
        sum(row.phase == phase for row in snapshot.turns) for phase in (Phase.PAUSED, Phase.WAITING, Phase.BLOCKED)
    )
    return Tile(
        "turns", "Running", f"{running} of {snapshot.knobs.max_running}",
        f"{paused:,} paused · {waiting:,} waiting · {blocked:,} tool",
        "Turns that hold a slot; paused: preempted, or by the operator; waiting: new, or back from a tool, and without "
        "a slot yet; tool: blocked on a tool.",
    )  # fmt: skip


def _speed(snapshot: Snapshot) -> tuple[Tile, Tile, Tile]:
    """Latencies stay as the last ones measured when nothing is live any more; a rate is then none."""
    rates = snapshot.rates
    live = bool(snapshot.turns)
    last = "" if live or rates.itl_p50 is None else "last · "
    return (
        Tile(
            "decode", "Decode", rate(rates.decode_tokens_per_s if live else None),
            f"prefill {rate(rates.prefill_tokens_per_s if live else None)}",
            "Tokens generated per second by all turns together; measured over the last 10 s.",
        ),
        Tile(
            "ttft", "TTFT foreground", seconds(rates.ttft_foreground_p50),
            f"{last}p95 {seconds(rates.ttft_foreground_p95)}",
            "Time to first token of foreground turns, p50; measured over the last 256 turns.",
        ),
        Tile(
            "itl", "ITL", seconds(rates.itl_p50), f"{last}p95 {seconds(rates.itl_p95)}",
            "Time between two tokens of a turn, p50; measured over the last 256 tokens.",
        ),
    )  # fmt: skip


def _moves(snapshot: Snapshot, scale: Scale) -> tuple[Tile, Tile, Tile]:
    sums = snapshot.counters
    return (
        Tile(
            "preemptions", "Preemptions", count(sums.preemptions), f"stalls broken {count(sums.stalls)}",
            "Times a turn lost its slot at a token boundary to another. A stall is broken where no turn could run for "
            f"want of room: parked turns leave, whatever the policy. Since the start; "
            f"{counted(sums.finished, 'turn')} finished.",
        ),
        Tile(
            "swapped", "Swapped out", size(scale.kv(sums.swap_out_bytes)),
            f"in {size(scale.kv(sums.swap_in_bytes))} · thrash {count(sums.thrashes)}",
            f"KV bytes copied to and from the host pool since the start; {scale.label}. {share(share_hidden(sums))} of "
            f"the copies' time, {seconds(sums.swap_seconds or None)}, went by beside steps; for the rest the engine "
            f"waited. {counted(sums.prefetches, 'turn')} came back ahead of a slot, {count(sums.prefetches_wasted)} of "
            f"them left again without one. Thrash: times a turn's KV left the arena within {THRASH_S:g} s of coming "
            f"back, or came back within {THRASH_S:g} s of leaving.",
        ),
        Tile(
            "recomputed", "Recomputed", f"{count(sums.recomputed_tokens)} tok", f"drops {count(sums.drops)}",
            "Tokens whose KV was thrown away and computed again; counted since the start.",
        ),
    )  # fmt: skip


def share_hidden(sums: Counters) -> float | None:
    """Of the time of all copies so far; None: none has run."""
    return sums.hidden_seconds / sums.swap_seconds if sums.swap_seconds else None


def _blocked(snapshot: Snapshot) -> Tile:
    b = snapshot.rates.blocked_fraction if snapshot.turns else None
    could = snapshot.blocked.window.could_carry if snapshot.blocked and snapshot.turns else None
    return Tile(
        "blocked", "Blocked fraction b", fraction(b), MISSING if could is None else f"{mean(could)} agents a slot",
        "Share of the agents' wall clock spent blocked on tools, over the last minute. One slot could then carry "
        "1/(1-b) agents, the time that they queue left out. More on the page Blocked.",
        href="blocked",
    )  # fmt: skip
