"""What Streamlit runs for each tab: the Live page over the one deck."""

import streamlit as st

from app.pages import live
from app.shelf import DECK, taken
from panels.components import ASSETS

ICON = ASSETS / "theme" / "icon.svg"

st.set_page_config(page_title="Parkdeck", page_icon=str(ICON), layout="wide", initial_sidebar_state=280)
deck = taken(DECK)
if deck is None:
    st.error("No engine runs behind this page. Start it with `streamlit run app` or `parkdeck up`.")
else:
    live.page(deck)  # type: ignore[arg-type]
