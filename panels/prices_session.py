"""Prices over context: the card's lines, this machine's measured ones, and every swap and recompute of the session as a
point. `spec` is pure; `render` keeps it up to date."""

import html
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from engine.paper.prices import Prices
from engine.words import counted
from panels import chart, components, prices_here
from panels.deck_view import DeckView
from panels.marks import Trace, axis, scatter
from panels.palette import Palette, ThemeName, palette
from panels.prices_axes import around, time_ticks, titled, token_ticks
from panels.prices_here import Here
from panels.prices_points import Point, Points, described, points, thinned
from panels.prices_text import source
from panels.units import MIB, seconds

KEY = "session_points"
HEIGHT = 500
MARGIN = {"l": 74, "r": 22, "t": 46, "b": 132}
STEPS = 48
SHORTEST, LONGEST = 100, 200_000
SAME = 0.05
PRICES = ("out and back", "way back alone", "recompute")
TRIPS, ONE_WAY, RECOMPUTES = "measured: round trips", "measured: one way", "measured: recomputes"
MARKS = {TRIPS: ("circle", "swap"), ONE_WAY: ("triangle-up-open", "swap"), RECOMPUTES: ("diamond", "recompute")}
HERE_NAMED = "this machine, measured rates"
LONGEST_NAME = 40


@dataclass(frozen=True, slots=True)
class Session:
    """`card`: what the modelled lines are called. `points`: None where no engine runs, or a twin, whose
    moves are not measured."""

    listed: Prices
    card: str
    here: Here | None
    points: Points | None
    twin: bool = False


def contexts(low: int, high: int) -> list[int]:
    """Contexts evenly spaced on a log axis, without repeats."""
    return sorted({round(low * (high / low) ** (step / STEPS)) for step in range(STEPS + 1)})


def reach(session: Session) -> tuple[int, int]:
    """The contexts that the chart must show."""
    found = session.points
    seen = [p.tokens for p in (*found.trips, *found.one_way, *found.recomputes)] if found else []
    seen.append(session.listed.context)
    return min(SHORTEST, *seen), max(LONGEST, *seen)


def spec(session: Session, theme: ThemeName) -> dict[str, Any]:
    """The chart as plain JSON."""
    colours = palette(theme)
    low, high = reach(session)
    at = contexts(low, high)
    listed, now = session.listed, session.here
    lines = _lines(at, session.card, ("solid", "dot", "solid"), colours, *_of_card(listed))
    if now is not None and not same_lines(listed, now, at):
        lines += _lines(at, HERE_NAMED, ("dash", "dashdot", "dash"), colours, now.round_trip_s, now.way_back_s,
                        now.recompute_s)  # fmt: skip
    shown = _shown(session.points) if session.points else ()
    traces = [*lines, *(_cloud(kind, of_kind, colours) for kind, of_kind in shown)]
    times = [value for trace in traces for value in trace["y"]]
    bottom, top = min(times), max(times)
    pad = 0.05 * max(1.0, math.log10(top / bottom))
    layout = around(colours, HEIGHT, MARGIN, "Over context, with what this session measured") | {
        "xaxis": titled(colours, "context, tokens")
        | token_ticks(low, high)
        | {"range": [math.log10(low) - 0.02, math.log10(high) + 0.02]},
        "yaxis": axis(colours) | time_ticks(bottom, top) | {"range": [math.log10(bottom) - pad, math.log10(top) + pad]},
        "hovermode": "closest",
        "legend": {"orientation": "h", "y": -0.17, "x": 0, "yanchor": "top", "font": {"size": 11.5}},
        "uirevision": f"{session.card} {listed.layout.name}",
    }
    layout |= _chosen(listed.context, low, high, colours)
    whose = [session.card] * 3 + [HERE_NAMED] * (len(lines) - 3)
    table = _table([f"{name}: {price}" for name, price in zip(whose, PRICES * 2, strict=False)], shown)
    return {"data": traces, "layout": layout, "alt": sentence(session), "table": table}


def same_lines(listed: Prices, now: Here, at: Sequence[int]) -> bool:
    """Whether the chosen card's lines are this machine's, within a few percent."""
    pairs = (
        pair
        for tokens in (at[0], at[-1])
        for pair in zip(
            (each(tokens) for each in _of_card(listed)),
            (now.round_trip_s(tokens), now.way_back_s(tokens), now.recompute_s(tokens)),
            strict=True,
        )
    )
    return all(math.isclose(card, here, rel_tol=SAME) for card, here in pairs)


def sentence(session: Session) -> str:
    """What the points are, in words."""
    found = session.points
    if session.twin:
        return "A twin runs: its moves are modelled, so nothing is measured beside the lines."
    if found is None:
        return "No engine runs: the lines are modelled, nothing is measured beside them."
    now = session.here
    rates = (
        f" Its lines count {now.bytes_per_token:,} bytes per token, as the engine keeps KV now."
        if now
        else " This machine's rates are not measured yet."
    )
    if not found.total:
        return f"No swap or recompute yet in this session.{rates}"
    kinds = (("round trip", found.trips), ("copy one way", found.one_way), ("recompute", found.recomputes))
    parts = [_counted(name, of_kind) for name, of_kind in kinds if of_kind]
    last = _last(found)
    return f"Measured in this session, on this machine and its model: {', '.join(parts)}.{last}{rates}"


@st.fragment(key=KEY)
def render(deck: DeckView | None, listed: Prices, card: str, theme: ThemeName) -> None:
    twin = deck is not None and deck.control.snapshot.twin
    found = points(deck.control.moves()) if deck and not twin else None
    session = Session(listed, card, prices_here.of_deck(deck), found, twin)
    measured = deck is not None and deck.recorded() and not twin
    of_session = f"session {deck.recorded()}, measured" if deck and measured else "nothing measured"
    files = chart.files("prices", "context", card, "Prices over context", f"{source(listed, card)} · {of_session}")
    components.live_plot(spec(session, theme) | files, key="prices_session")
    st.caption(sentence(session))


def _of_card(listed: Prices) -> tuple[Callable[[int], float], ...]:
    return (
        lambda tokens: listed.row(tokens).swap_s,
        lambda tokens: listed.row(tokens).restore_s,
        lambda tokens: listed.row(tokens).recompute_s,
    )


def _lines(
    at: Sequence[int], whose: str, dashes: tuple[str, str, str], colours: Palette, *prices: Callable[[int], float]
) -> list[Trace]:
    inks = (colours.swap, colours.swap, colours.recompute)
    # The same price of both stands side by side in the legend.
    first = 2 if whose == HERE_NAMED else 1
    return [
        scatter(
            x=at, y=[price(tokens) for tokens in at], mode="lines", name=f"{_named(whose)}: {name}",
            legendrank=2 * rank + first, line={"color": ink, "dash": dash, "width": 2},
            text=[f"{tokens:,} tokens · {seconds(price(tokens))}" for tokens in at],
            hovertemplate="%{text}<extra>%{fullData.name}</extra>",
        )
        for rank, (name, ink, dash, price) in enumerate(zip(PRICES, inks, dashes, prices, strict=True))
    ]  # fmt: skip


def _shown(found: Points) -> tuple[tuple[str, Sequence[Point]], ...]:
    """The points that are drawn, by what they are."""
    kinds = ((TRIPS, found.trips), (ONE_WAY, found.one_way), (RECOMPUTES, found.recomputes))
    return tuple((kind, thinned(of_kind)) for kind, of_kind in kinds if of_kind)


def _table(lines: Sequence[str], shown: Sequence[tuple[str, Sequence[Point]]]) -> dict[str, Any]:
    """The lines' points, then the session's."""
    head = ("series", "context (tokens)", "time (s)", "agent", "out (MiB)", "back (MiB)")
    blocks = [
        [chart.same(name), chart.part(index, "x"), chart.part(index, "y"), *[chart.same(None)] * 3]
        for index, name in enumerate(lines)
    ]
    blocks += [
        [
            chart.same(kind), chart.part(index, "x"), chart.part(index, "y"), chart.values([p.agent for p in points]),
            chart.values([p.out_bytes / MIB for p in points]), chart.values([p.back_bytes / MIB for p in points]),
        ]
        for index, (kind, points) in enumerate(shown, len(lines))
    ]  # fmt: skip
    return chart.table(head, *blocks)


def _cloud(name: str, shown: Sequence[Point], colours: Palette) -> Trace:
    symbol, meaning = MARKS[name]
    ink: str = getattr(colours, meaning)
    line = {"width": 1.5, "color": ink} if symbol.endswith("-open") else {"width": 1, "color": colours.surface}
    return scatter(
        x=[point.tokens for point in shown], y=[point.seconds for point in shown], mode="markers", name=name,
        marker={"size": 8, "symbol": symbol, "color": ink, "line": line},
        text=[f"{_named(p.agent)}<br>{described(p)} · {seconds(p.seconds)}" for p in shown],
        hovertemplate="%{text}<extra></extra>",
    )  # fmt: skip


def _chosen(context: int, low: int, high: int, colours: Palette) -> dict[str, Any]:
    """The chosen context: a line down the chart, named above it."""
    share = math.log(context / low) / math.log(high / low)
    return {
        "shapes": [
            {
                "type": "line", "x0": context, "x1": context, "y0": 0, "y1": 1, "yref": "paper", "layer": "below",
                "line": {"width": 1, "dash": "dot", "color": colours.muted},
            }
        ],
        "annotations": [
            {
                "x": math.log10(context), "y": 1, "yref": "paper", "yanchor": "bottom", "showarrow": False,
                "xanchor": "left" if share < 0.1 else "right" if share > 0.9 else "center",
                "text": f"{context:,} tokens", "font": {"size": 11, "color": colours.muted},
            }
        ],
    }  # fmt: skip


def _counted(name: str, of_kind: Sequence[Point]) -> str:
    number = {"copy one way": "copies one way"}.get(name)
    said = f"{len(of_kind):,} {number}" if number and len(of_kind) != 1 else counted(len(of_kind), name)
    drawn = len(thinned(of_kind))
    return said if drawn == len(of_kind) else f"{said} ({drawn:,} drawn)"


def _last(found: Points) -> str:
    """The latest round trip and recompute, for those who do not see the points."""
    latest = [
        f"{what} of {point.tokens:,} tokens took {seconds(point.seconds)}"
        for what, of_kind in (("round trip", found.trips), ("recompute", found.recomputes))
        for point in of_kind[-1:]
    ]
    return f" The latest {' and '.join(latest)}." if latest else ""


def _named(name: str) -> str:
    """A name from outside as chart text."""
    return html.escape(name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…", quote=False)
