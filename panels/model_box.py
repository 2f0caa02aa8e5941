"""The model box: which model runs, and another one by path or Hugging Face id."""

import streamlit as st

from engine.control import Control
from engine.snapshot import Snapshot


def render(control: Control, snapshot: Snapshot) -> None:
    with st.form("model_form", border=False, enter_to_submit=True):
        wanted = st.text_input(
            "GGUF file, safetensors folder or Hugging Face id",
            key="model_wanted", placeholder=snapshot.model, autocomplete="off",
            help="Empty: the present one again. Loading a model ends all turns; recorded data stays.",
        )  # fmt: skip
        pressed = st.form_submit_button("Load and restart", icon=":material/restart_alt:", width="stretch")
    if pressed:
        control.restart(wanted.strip() or None)
        st.rerun()
