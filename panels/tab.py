"""The name of a browser tab, by which its changes are signed: numbered by the deck, kept in the tab's session."""

from typing import Protocol

import streamlit as st

KEY = "tab_name"
UNNAMED = "page"


class Numbering(Protocol):
    def next_tab(self) -> str: ...


def open_tab(deck: Numbering) -> str:
    """The tab's name; a tab that is opened gets its own."""
    if KEY not in st.session_state:
        st.session_state[KEY] = deck.next_tab()
    return author()


def author() -> str:
    """Who makes the changes of this tab."""
    name: str = st.session_state.get(KEY, UNNAMED)
    return name


def by(who: str) -> str:
    """'by tab 2', and for this tab's own changes that it was this one."""
    return f"by {who} (this tab)" if who == author() else f"by {who}"
