"""The model box: which model runs on which backend, and others: by path, Hugging Face id, name."""

import streamlit as st

from engine.body import BACKENDS
from engine.control import Control
from engine.errors import ParkdeckError
from engine.snapshot import Snapshot
from panels import tab
from panels.plain import plain


def render(control: Control, snapshot: Snapshot) -> None:
    with st.form("model_form", border=False, enter_to_submit=True):
        # Above the input, whose place it keeps: below the button it would be out of sight on a small screen.
        said = st.container()
        st.text_input(
            "GGUF file, safetensors folder or Hugging Face id",
            key="model_wanted", placeholder=snapshot.ran_before or snapshot.model, autocomplete="off",
            help="'default': SmolLM2-135M-Instruct. Empty: the model that ran last. Loading a model ends all turns; "
            "recorded data stays.",
        )  # fmt: skip
        st.selectbox(
            "Backend", BACKENDS, index=BACKENDS.index(snapshot.backend) if snapshot.backend in BACKENDS else 0,
            key="backend_wanted", help="auto: vLLM where it is installed beside a GPU, else torch.",
        )  # fmt: skip
        st.form_submit_button(
            "Load and restart", icon=":material/restart_alt:", width="stretch", on_click=_restart, args=(control,)
        )
        if refusal := st.session_state.get("model_refused"):
            said.error(plain(refusal))


def _restart(control: Control) -> None:
    """A name that cannot be a model is refused while the present engine runs on."""
    st.session_state.model_refused = None
    try:
        control.restart(
            st.session_state.model_wanted.strip() or None, st.session_state.backend_wanted, author=tab.author()
        )
    except ParkdeckError as refusal:
        st.session_state.model_refused = str(refusal)
