"""Where the agents' time goes, on which tools they wait, and how unlike they are. Pure; plain JSON."""

from collections.abc import Sequence
from typing import Any

from engine.blocked import AgentShare, Blocked, Share, ToolShare
from engine.words import counted, percent
from panels import chart
from panels.blocked_words import OTHER_TOOLS, named
from panels.marks import Trace, axis, bar, ink, scatter
from panels.palette import Palette, ThemeName, palette
from panels.prices_axes import around
from panels.units import fraction, seconds

LIFE_HEIGHT, HEIGHT = 200, 420
LIFE_MARGIN = {"l": 92, "r": 30, "t": 44, "b": 34}
TOOLS_MARGIN = {"l": 12, "r": 22, "t": 44, "b": 48}
AGENTS_MARGIN = {"l": 46, "r": 22, "t": 44, "b": 48}
LABELS = 1.5
WRITTEN = 0.045
PARTS = (
    ("blocked", "tool_wait", "blocked_s"),
    ("in a slot", "running_kv", "served_s"),
    ("queued", "muted", "queued_s"),
)
WINDOW, SESSION = "last minute", "session"


def life_spec(found: Blocked, theme: ThemeName) -> dict[str, Any]:
    """Two bars, the last minute's and the session's: blocked, in a slot, queued, as shares of the agents' life."""
    colours = palette(theme)
    rows = ((SESSION, found.session), (WINDOW, found.window))
    traces = [_part(label, meaning, name, rows, colours) for label, meaning, name in PARTS]
    layout = around(colours, LIFE_HEIGHT, LIFE_MARGIN, "Where the agents' time goes") | {
        "barmode": "stack", "bargap": 0.32, "hovermode": "closest",
        "xaxis": _shares(colours, 1.0), "yaxis": axis(colours) | {"showgrid": False, "fixedrange": True},
        "legend": {"orientation": "h", "x": 1, "xanchor": "right", "y": 1.02, "yanchor": "bottom",
                   "traceorder": "normal", "font": {"size": 11.5}},
    }  # fmt: skip
    table = chart.table(
        ("over", *(f"{label} (s)" for label, _, _ in PARTS), "b"),
        (
            chart.values([row for row, _ in rows]),
            *(chart.values([getattr(share, name) for _, share in rows]) for _, _, name in PARTS),
            chart.values([share.b for _, share in rows]),
        ),
    )
    return {"data": traces, "layout": layout, "alt": life_words(found), "table": table}


def life_words(found: Blocked) -> str:
    return " ".join(
        f"{name.capitalize()}: "
        + ", ".join(f"{label} {percent(getattr(share, part) / share.life_s)}" for label, _, part in PARTS)
        + "."
        for name, share in ((WINDOW, found.window), (SESSION, found.session))
        if share.life_s > 0
    )


def tools_spec(found: Blocked, theme: ThemeName) -> dict[str, Any]:
    """A bar for each tool: its share of all blocked time of the session; a mark at its share of the last minute's."""
    colours, tools = palette(theme), found.tools[::-1]
    names = _apart([named(tool.name) for tool in tools])
    whole, recent = found.session.blocked_s, found.window.blocked_s
    shares = [tool.session_s / whole if whole > 0 else 0.0 for tool in tools]
    lately = [tool.window_s / recent if recent > 0 else None for tool in tools]
    top = max([*shares, *(one for one in lately if one is not None), 0.1])
    words = [_tool_words(tool, found) for tool in tools]
    bars = bar(
        x=[100 * one for one in shares], y=names, orientation="h", name=SESSION, marker={"color": colours.tool_wait},
        hoverinfo="text", hovertext=words, width=0.62,
    )  # fmt: skip
    marks = scatter(
        x=[None if one is None else 100 * one for one in lately], y=names, mode="markers", name=WINDOW,
        hoverinfo="text", hovertext=words,
        marker={"symbol": "line-ns", "size": 9, "line": {"width": 2.5, "color": colours.text}},
    )  # fmt: skip
    written = scatter(
        x=[100 * LABELS * top] * len(tools), y=names, mode="text", textposition="middle left", hoverinfo="skip",
        text=[f"{seconds(tool.session_s)} · {percent(one)}" for tool, one in zip(tools, shares, strict=True)],
        textfont={"size": 11.5, "color": colours.muted}, showlegend=False,
    )  # fmt: skip
    layout = around(colours, HEIGHT, TOOLS_MARGIN, "Blocked on which tools") | {
        "xaxis": _shares(colours, LABELS * top)
        | {"title": _titled("share of all blocked time"), "tickvals": _ticks(top)},
        "yaxis": axis(colours) | {"showgrid": False, "fixedrange": True, "automargin": True, "ticksuffix": "  ",
                                  "range": [len(tools) - 6.5 if len(tools) < 6 else -0.6, len(tools) - 0.4]},
        "hovermode": "closest", "legend": _below(),
    }  # fmt: skip
    table = chart.table(
        ("tool", "blocked in the session (s)", "share of the session's", "blocked in the last minute (s)",
         "share of the last minute's"),
        (
            chart.values([OTHER_TOOLS if tool.name is None else tool.name for tool in tools]),
            chart.values([tool.session_s for tool in tools]), chart.values(shares),
            chart.values([tool.window_s for tool in tools]), chart.values(lately),
        ),
    )  # fmt: skip
    return {"data": [bars, marks, written], "layout": layout, "alt": tools_words(found), "table": table}


def tools_words(found: Blocked) -> str:
    if not found.tools:
        return "No agent has waited on a tool yet."
    whole = found.session.blocked_s
    first = ", ".join(
        f"{named(tool.name)} {seconds(tool.session_s)} ({percent(tool.session_s / whole)})" for tool in found.tools[:3]
    )
    return f"Blocked over the session: {first}; {counted(len(found.tools), 'bar')} in all."


def agents_spec(found: Blocked, theme: ThemeName) -> dict[str, Any]:
    """A thin bar for each agent, its b over the session: live ones, then grey those that ended, the most blocked first;
    a line at the swarm's."""
    colours = palette(theme)
    lived = sorted((agent for agent in found.agents if agent.b is not None), key=_rank)
    places = list(range(1, len(lived) + 1))
    traces = [
        bar(
            x=[at for at, agent in zip(places, lived, strict=True) if agent.live is live],
            y=[agent.b for agent in lived if agent.live is live], name=label, width=0.9 if len(lived) <= 60 else 1.0,
            marker={"color": colour, "line": {"width": 0}}, hoverinfo="text",
            hovertext=[_agent_words(agent) for agent in lived if agent.live is live],
        )
        for label, live, colour in (("live", True, colours.tool_wait), ("ended", False, colours.muted))
    ]  # fmt: skip
    edges = [0.5, max(10, len(lived)) + 0.5]
    traces.append(_swarm(found.session, edges, colours))
    layout = around(colours, HEIGHT, AGENTS_MARGIN, "b of each agent") | {
        "barmode": "overlay", "bargap": 0, "hovermode": "closest", "legend": _below(),
        "xaxis": axis(colours) | {
            "title": _titled("agents: live, then ended, the most blocked first"), "range": edges, "showgrid": False,
            "fixedrange": True, "tickformat": ",d", "nticks": 8,
        },
        "yaxis": axis(colours) | {"range": [0, 1.02], "tickvals": [0, 0.25, 0.5, 0.75, 1], "fixedrange": True},
    }  # fmt: skip
    table = chart.table(
        ("agent", "is", "b of its life", "blocked (s)", "life (s)", "b of the last minute"),
        (
            chart.values([agent.name for agent in lived]),
            chart.values(["live" if agent.live else "ended" for agent in lived]),
            chart.values([agent.b for agent in lived]), chart.values([agent.blocked_s for agent in lived]),
            chart.values([agent.life_s for agent in lived]), chart.values([agent.window_b for agent in lived]),
        ),
    )  # fmt: skip
    return {"data": traces, "layout": layout, "alt": agents_words(found), "table": table}


def agents_words(found: Blocked) -> str:
    there = [(agent.b, agent.live) for agent in found.agents if agent.b is not None]
    lived = sorted(b for b, _ in there)
    if not lived:
        return "No agent has lived yet."
    quarter, middle, three = (lived[round(q * (len(lived) - 1))] for q in (0.25, 0.5, 0.75))
    live = sum(one for _, one in there)
    unshown = f"; {found.unshown:,} that ended before are in the session's figures alone" if found.unshown else ""
    return (
        f"{counted(len(lived), 'agent')}, {live:,} of them live: the middle one has a b of {fraction(middle)}, half of "
        f"them lie between {fraction(quarter)} and {fraction(three)}{unshown}."
    )


def _part(label: str, meaning: str, name: str, rows: Sequence[tuple[str, Share]], colours: Palette) -> Trace:
    shares = [getattr(share, name) / share.life_s if share.life_s > 0 else 0.0 for _, share in rows]
    colour: str = getattr(colours, meaning)
    return bar(
        x=[100 * one for one in shares], y=[f"{row}  " for row, _ in rows], orientation="h", name=label,
        marker={"color": colour}, textposition="inside", textangle=0,
        text=[percent(one) if one >= WRITTEN else "" for one in shares],
        insidetextanchor="middle", textfont={"color": ink(colour), "size": 12.5}, hoverinfo="text",
        hovertext=[
            f"{row}: {label} {percent(one)}, {seconds(getattr(share, name))} of {seconds(share.life_s)}"
            for one, (row, share) in zip(shares, rows, strict=True)
        ],
    )  # fmt: skip


def _rank(agent: AgentShare) -> tuple[bool, float, str]:
    return (not agent.live, -(agent.b or 0.0), agent.name)


def _swarm(session: Share, edges: list[float], colours: Palette) -> Trace:
    b = session.b
    return scatter(
        x=edges, y=[b, b], mode="lines", name=f"swarm, session: {fraction(b)}", hoverinfo="skip",
        line={"dash": "dash", "width": 1.7, "color": colours.text},
    )  # fmt: skip


def _tool_words(tool: ToolShare, found: Blocked) -> str:
    def said(part: float, whole: float) -> str:
        return f"{seconds(part)}, {percent(part / whole)}" if whole > 0 else seconds(part)

    return (
        f"{named(tool.name)}<br>session: {said(tool.session_s, found.session.blocked_s)}"
        f"<br>last minute: {said(tool.window_s, found.window.blocked_s)}"
    )


def _agent_words(agent: AgentShare) -> str:
    return (
        f"{named(agent.name)}{'' if agent.live else ', ended'}<br>b {fraction(agent.b)}: {seconds(agent.blocked_s)} of "
        f"{seconds(agent.life_s)}<br>last minute: {fraction(agent.window_b)}"
    )


def _apart(names: Sequence[str]) -> list[str]:
    """Names that were cut to the same text would be one bar."""
    seen: dict[str, int] = {}
    made = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        made.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return made


def _shares(colours: Palette, top: float) -> dict[str, Any]:
    return axis(colours) | {"range": [0, 100 * top], "ticksuffix": " %", "fixedrange": True, "nticks": 6}


def _ticks(top: float) -> list[int]:
    """Percents below the bars alone: what is written beside them stays clear of lines."""
    step = next(step for step in (25, 20, 10, 5, 2) if 100 * top >= 2 * step or step == 2)
    return list(range(0, round(100 * top) + 1, step))


def _titled(text: str) -> dict[str, Any]:
    return {"text": text, "standoff": 6, "font": {"size": 12}}


def _below() -> dict[str, Any]:
    return {"orientation": "h", "y": 1.01, "x": 1, "xanchor": "right", "yanchor": "bottom", "font": {"size": 11.5}}
