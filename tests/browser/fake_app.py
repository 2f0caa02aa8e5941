"""`streamlit run tests/browser/fake_app.py`: the Live page over the scripted engine."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import streamlit as st  # noqa: E402
from starlette.middleware import Middleware  # noqa: E402

from app.server import HostCheck, routes  # noqa: E402
from tests.panels.fake_deck import CSV  # noqa: E402

app = st.App(
    "fake_page.py",
    routes=routes(lambda: {"state": "running"}, lambda name: iter([CSV])),
    middleware=[Middleware(HostCheck)],
)
