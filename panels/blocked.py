"""The blocked fraction on a page of its own: figures, where the agents' time goes, tools, agents."""

from collections.abc import Hashable
from dataclasses import asdict

import streamlit as st

from engine.blocked import Blocked
from engine.snapshot import Snapshot
from panels import chart, components, pulse
from panels.blocked_charts import agents_spec, agents_words, life_spec, tools_spec
from panels.blocked_words import COUNTS, spans, tiles, verdict
from panels.deck_view import NO_ENGINE, DeckView
from panels.palette import ThemeName, palette
from panels.plain import plain

KEY = "blocked"
REFRESH_S = 2.0
EMPTY = "Nothing has run yet. Start the swarm on the Live page; b is there as soon as an agent's first turn is."


def shown(deck: DeckView | None) -> Hashable | None:
    """What the fragment draws from."""
    snapshot = deck.control.snapshot if deck else None
    return snapshot and (snapshot.session, snapshot.blocked and snapshot.blocked.at, snapshot.knobs.max_running)


@st.fragment(key=KEY)
def render(deck: DeckView | None, theme: ThemeName) -> None:
    """Each part in a place of its own, containers where the Live page has some: a beat of it that comes late finds
    them."""
    seen = shown(deck)
    snapshot = deck.control.snapshot if deck else None
    found = snapshot.blocked if snapshot else None
    source = "modelled" if snapshot and snapshot.twin else "measured"
    slots = snapshot.knobs.max_running if snapshot else 0
    head, figures, below = st.container(gap=None), st.container(), st.container(gap="xsmall")
    with head:
        st.markdown(f"## Blocked &nbsp; :gray-badge[{source}]")
        st.caption(plain(_head(snapshot, found)))
    row = {"tiles": [asdict(tile) for tile in tiles(found, slots, source)]}
    with figures:
        components.tiles(row | {"colours": components.colours(palette(theme))}, key="blocked_figures")
    with below:
        charts = st.container(gap="xsmall")
    if snapshot is None or found is None:
        below.info(EMPTY if deck else NO_ENGINE, icon=":material/hourglass_empty:")
    else:
        with charts:
            _charts(snapshot, found, slots, source, theme)
    pulse.drawn(KEY, seen)


def _head(snapshot: Snapshot | None, found: Blocked | None) -> str:
    what = "How much of their life agents wait on tools, and how many agents a slot can carry for it."
    return f"{what} Session {snapshot.session}, {spans(found)}." if snapshot and found else what


def _charts(snapshot: Snapshot, found: Blocked, slots: int, source: str, theme: ThemeName) -> None:
    about = f"session {snapshot.session} · {source}"

    def files(name: str, heading: str) -> dict[str, object]:
        return chart.files("blocked", name, snapshot.session, f"{heading}, {source}", about)

    st.markdown(plain(verdict(found, slots)))
    with st.container():
        components.live_plot(life_spec(found, theme) | files("life", "Where the agents' time goes"), key="blocked_life")
    left, right = st.columns(2, gap="xsmall")
    with left:
        components.live_plot(tools_spec(found, theme) | files("tools", "Blocked on which tools"), key="blocked_tools")
    with right:
        components.live_plot(agents_spec(found, theme) | files("agents", "b of each agent"), key="blocked_agents")
    st.caption(plain(agents_words(found)))
    with st.expander("What counts", icon=":material/info:"):
        st.markdown(COUNTS)
