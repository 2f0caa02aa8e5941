"""The pages over the scripted engine: an ASGI app for pictures. State and moment come from the environment, or from the
address, where `take` names a deck of its own."""

import os

import streamlit as st

from app.pages import site
from app.shelf import shelf
from tests.browser.scenes import NO_ENGINE, SCENES

scene = st.query_params.get("scene", os.environ["PARKDECK_SCENE"])
take = st.query_params.get("take", scene)
site.run(None if scene == NO_ENGINE else shelf(f"{scene} {take}", SCENES[scene]))
