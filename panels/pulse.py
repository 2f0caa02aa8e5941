"""A beat of the tab: what refreshes the Live page, its fragments that are due in one run, and tells of the theme.

The tab beats, and no timer of the server's: a tab that nobody sees asks for nothing, and a slow one asks for the
next figures only when it has the last ones. A fragment whose figures are seldom others says what it shows, and runs
only when that is not what it has drawn last in this tab.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass

import streamlit as st
from streamlit.errors import StreamlitAPIException

from panels import components

KEY = "beat"
PULSE = "pulse"
HEARD = "beat_heard"
DRAWN = "drawn"
THEME = "drawn_in_theme"
LEAST_S = 0.1
AGAIN_S = 10.0
"""So often a fragment runs though it shows nothing else: its last answer may have been lost with a connection."""


@dataclass(frozen=True, slots=True)
class Part:
    """A fragment that beats refresh, each `every` seconds. `shows`: a small value of all that it draws now, which it
    tells `drawn` when it is drawn; None: it is something else each time."""

    every: float
    shows: Callable[[], Hashable | None] = lambda: None


Parts = Mapping[str, Part]
"""By the fragment's key."""


def due(parts: Parts, beat: int, drawn: Mapping[str, Hashable]) -> list[str]:
    """The fragments of this beat; beats are as far apart as the least `every`. `drawn`: what each has drawn last."""
    least = min((part.every for part in parts.values()), default=1.0)

    def at_turn(seconds: float) -> bool:
        return beat % max(1, round(seconds / least)) == 0

    def another(name: str) -> bool:
        shown = parts[name].shows()
        return shown is None or shown != drawn.get(name)

    return [name for name, part in parts.items() if at_turn(part.every) and (at_turn(AGAIN_S) or another(name))]


def drawn(name: str, shown: Hashable | None) -> None:
    """A fragment has been drawn; `shown` was taken before its figures were read, so that what came since is seen."""
    _drawn()[name] = shown


@st.fragment(key=KEY)
def render(parts: Callable[[], Parts]) -> None:
    """Once on a page, below what it refreshes. `parts`: as they are now; empty for a page that is paused."""
    beat(parts, KEY)


def beat(parts: Callable[[], Parts], inside: str) -> None:
    """The same as the last element of the fragment `inside`, which runs with each beat; with no other in one run."""
    _follow_theme()
    wanted = parts()
    st.session_state.setdefault("beats", 0)
    heard: int = st.session_state.setdefault(HEARD, 0)

    def beaten() -> None:
        # A step to another page can take what the browser had told; then the tab asks again.
        told = st.session_state.get(PULSE)
        if told is not None and isinstance(told.beat, int):
            st.session_state[HEARD] = told.beat
        st.session_state.beats += 1
        others = [name for name in due(parts(), st.session_state.beats, _drawn()) if name != inside]
        if others:
            run([*others, inside])

    period_ms = round(max(LEAST_S, min(part.every for part in wanted.values())) * 1000) if wanted else 0
    components.pulse({"heard": heard, "period_ms": period_ms}, key=PULSE, on_beat=beaten)


def _follow_theme() -> None:
    """The whole page anew where it was drawn in another theme: nothing else redraws what is in no fragment."""
    theme = components.theme()
    if st.session_state.setdefault(THEME, theme) != theme:
        st.session_state[THEME] = theme
        st.rerun()


def run(names: list[str]) -> None:
    """From a callback: these fragments, and not the one that it came from."""
    try:
        st.rerun(names)
    except StreamlitAPIException:
        # The beat of a page that the tab has left meanwhile: what it asks for is gone, and the new page beats itself.
        return


def _drawn() -> dict[str, Hashable]:
    table: dict[str, Hashable] = st.session_state.setdefault(DRAWN, {})
    return table
