"""The pages over the one deck, and their names in the top line."""

from functools import partial

import streamlit as st

from app.pages import blocked, live, planner, policies, prices, whatif
from panels.assets import ASSETS
from panels.deck_view import NO_ENGINE, DeckView

ICON = ASSETS / "theme" / "icon.svg"


def _live(deck: DeckView | None) -> None:
    if deck is None:
        st.error(NO_ENGINE)
    else:
        live.page(deck)


def run(deck: DeckView | None) -> None:
    """The page that the address names, with the others one click away."""
    title = "Parkdeck, modelled" if deck and deck.control.snapshot.twin else "Parkdeck"
    st.set_page_config(page_title=title, page_icon=str(ICON), layout="wide", initial_sidebar_state=280)
    pages = [
        st.Page(partial(_live, deck), title="Live", icon=":material/stacked_bar_chart:", url_path="live", default=True),
        st.Page(partial(blocked.page, deck), title="Blocked", icon=":material/hourglass_top:", url_path="blocked"),
        st.Page(partial(planner.page, deck), title="Planner", icon=":material/straighten:", url_path="planner"),
        st.Page(partial(prices.page, deck), title="Prices", icon=":material/payments:", url_path="prices"),
        st.Page(partial(policies.page, deck), title="Policies", icon=":material/compare_arrows:", url_path="policies"),
        st.Page(partial(whatif.page, deck), title="What-if", icon=":material/grid_on:", url_path="what-if"),
    ]
    st.navigation(pages, position="top").run()
