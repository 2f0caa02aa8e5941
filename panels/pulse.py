"""What makes a page refresh: a beat of its tab, at which the fragments that are due run again, all in one run.

The tab beats, and no timer of the server's: a tab that nobody sees asks for nothing, and a slow one asks for the
next figures only when it has the last ones.
"""

from collections.abc import Callable, Mapping

import streamlit as st
from streamlit.errors import StreamlitAPIException

from panels import components

KEY = "beat"
LEAST_S = 0.1


def due(every: Mapping[str, float], beat: int) -> list[str]:
    """The fragments of this beat. `every`: seconds between two runs of each; beats are as far apart as the least."""
    least = min(every.values(), default=1.0)
    return [name for name, seconds in every.items() if beat % max(1, round(seconds / least)) == 0]


@st.fragment(key=KEY)
def render(every: Callable[[], Mapping[str, float]]) -> None:
    """Once on a page, below what it refreshes. `every`: by the fragment's key, seconds between two of its runs, as they
    are now; empty for a page that is paused."""
    wanted = every()
    beat = st.session_state.setdefault("beats", 0)

    def beaten() -> None:
        st.session_state.beats += 1
        _run(due(every(), st.session_state.beats))

    period_ms = round(max(LEAST_S, min(wanted.values())) * 1000) if wanted else 0
    components.pulse({"beat": beat, "period_ms": period_ms}, key="pulse", on_beat=beaten)


def _run(names: list[str]) -> None:
    try:
        st.rerun([*names, KEY])
    except StreamlitAPIException:
        # The beat of a page that the tab has left meanwhile: what it asks for is gone, and the new page beats itself.
        return
