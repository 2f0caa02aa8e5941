"""The session as CSV files. Text is made when the button is pressed, never on a refresh."""

from functools import partial

import streamlit as st

from panels.deck_view import TABLES, DeckView

WHAT = {
    "timeline": "one row per turn and interval of phase and tier",
    "samples": "the charts' points: bands, rates and sums",
    "events": "what happened, who asked, how long it took",
}


def render(deck: DeckView, session: str) -> None:
    off = not deck.recorded()
    for table in TABLES:
        st.download_button(
            f"{table}.csv", data=partial(deck.export, table), file_name=f"{session}-{table}.csv", mime="text/csv",
            key=f"download_{table}", icon=":material/download:", on_click="ignore", width="stretch", help=WHAT[table],
            disabled=off,
        )  # fmt: skip
