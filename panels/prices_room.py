"""How many tokens the card and the host's pinned memory hold, to scale. `spec` is pure; `render` puts it on a page."""

from typing import Any

import streamlit as st

from engine.paper.prices import Prices
from engine.words import counted
from panels import chart, components
from panels.marks import bar
from panels.palette import ThemeName, palette
from panels.prices_axes import around, titled
from panels.prices_text import decimal_size, source, times

HEIGHT = 316
MARGIN = {"l": 22, "r": 26, "t": 46, "b": 48}
CARD, HOST = 1.0, 0.0
WIDTH = 0.36


def lines(listed: Prices) -> tuple[str, str]:
    """Card and host in words: tokens, bytes, turns of the chosen context."""
    rooms = ((listed.card_tokens, listed.card_bytes, listed.card_turns),
             (listed.host_tokens, listed.host_bytes, listed.host_turns))  # fmt: skip
    card, host = (
        f"{tokens:,} tokens · {decimal_size(nbytes)}<br>{counted(turns, 'turn')} of {listed.context:,}"
        for tokens, nbytes, turns in rooms
    )
    return card, host


def spec(listed: Prices, theme: ThemeName) -> dict[str, Any]:
    """Two bars whose lengths are in proportion."""
    colours = palette(theme)
    rooms = (("card", CARD, listed.card_tokens, colours.running_kv), ("host", HOST, listed.host_tokens, colours.host))
    bars = [
        bar(
            orientation="h", x=[tokens], y=[at], width=WIDTH, marker={"color": ink}, name=name,
            hovertemplate=f"{tokens:,} tokens<extra></extra>",
        )
        for name, at, tokens, ink in rooms
    ]  # fmt: skip
    named = zip(("On the card", "Pinned on the host"), (CARD, HOST), lines(listed), strict=True)
    labels = [
        {
            "x": 0, "y": at + WIDTH / 2, "xanchor": "left", "yanchor": "bottom", "showarrow": False, "align": "left",
            "text": f"<b>{name}</b><br>{line}", "font": {"size": 12.5, "color": colours.text},
        }
        for name, at, line in named
    ]  # fmt: skip
    layout = around(colours, HEIGHT, MARGIN, "Tokens that fit, to scale") | {
        "xaxis": titled(colours, "tokens")
        | {
            "range": [0, 1.02 * max(listed.card_tokens, listed.host_tokens, 1)],
            "tickformat": ",d",
            "nticks": 4,
            "tickangle": 0,
        },
        "yaxis": {"range": [-0.3, 1.9], "visible": False, "fixedrange": True},
        "showlegend": False,
        "annotations": labels,
        "uirevision": "room",
    }
    return {"data": bars, "layout": layout, "alt": sentence(listed), "table": _table(listed)}


def sentence(listed: Prices) -> str:
    """How the two compare, in words."""
    card, host = listed.card_tokens, listed.host_tokens
    if listed.host_bytes <= 0:
        return f"The card holds {card:,} tokens. No host memory is pinned: it holds 0 tokens, nothing can be swapped."
    if not card:
        return f"The card holds not one token of such a turn; the pinned host memory holds {host:,} tokens."
    return (
        f"The card holds {card:,} tokens in {decimal_size(listed.card_bytes)}; the pinned host memory holds "
        f"{host:,} in {decimal_size(listed.host_bytes)}, {times(host / card)} times as many."
    )


def render(listed: Prices, card: str, theme: ThemeName) -> None:
    files = chart.files("prices", "tokens", card, "Room for KV", source(listed, card))
    components.live_plot(spec(listed, theme) | files, key="prices_room")
    st.caption(sentence(listed))


def _table(listed: Prices) -> dict[str, Any]:
    rooms = (
        ("on the card", listed.card_bytes, listed.card_turns),
        ("pinned on the host", listed.host_bytes, listed.host_turns),
    )
    head = ("where", "room (tokens)", "room (bytes)", f"turns of {listed.context:,} tokens")
    blocks = (
        [chart.same(where), chart.part(index, "x"), chart.same(nbytes), chart.same(turns)]
        for index, (where, nbytes, turns) in enumerate(rooms)
    )
    return chart.table(head, *blocks)
