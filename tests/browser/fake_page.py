"""The Live page over the scripted engine: an ASGI app for pictures. State and moment come from the environment."""

import os

import streamlit as st

from app.pages import live
from app.shelf import shelf
from tests.browser.scenes import SCENES

st.set_page_config(page_title="Parkdeck", layout="wide", initial_sidebar_state=280)
live.page(shelf("scene", lambda: SCENES[os.environ["PARKDECK_SCENE"]]()))
