"""What the page says when the engine is not simply running: starting, failed, stopped, stalled."""

import streamlit as st

from engine.control import Control
from engine.snapshot import HostState, Snapshot, Startup
from engine.words import percent
from panels import tab
from panels.plain import plain

STAGES = ("download", "check", "convert", "load", "compile", "calibrate")
WHAT = {
    "download": "Fetching the default model",
    "check": "Checking the file",
    "convert": "Converting the weights, once; they are kept in the cache",
    "load": "Loading weights and tokenizer",
    "compile": "Compiling the kernels",
    "calibrate": "Measuring copy bandwidth, prefill rate and decode step",
}


def next_stages(stage: str) -> str:
    """The stages after `stage`, in words."""
    if stage not in STAGES:
        return ""
    later = STAGES[STAGES.index(stage) + 1 :]
    return f"Then: {', '.join(later)}, and the engine runs." if later else "Then the engine runs."


def overall(startup: Startup | None) -> float:
    """Progress of the whole start from 0 to 1: the stages count alike."""
    if startup is None or startup.stage not in STAGES:
        return 0.0
    done = STAGES.index(startup.stage) + (startup.fraction or 0.0)
    return min(1.0, max(0.0, done / len(STAGES)))


def render(control: Control, snapshot: Snapshot) -> None:
    """Draws nothing when the engine simply runs. Each sentence in a place of its own."""
    if snapshot.state in (HostState.RUNNING, HostState.IDLE) and not snapshot.warning:
        return
    warned, said, below = (st.container() for _ in range(3))
    if snapshot.warning:
        warned.warning(plain(snapshot.warning), icon=":material/warning:")
    match snapshot.state:
        case HostState.STARTING:
            with below:
                _starting(snapshot.startup)
        case HostState.FAILED:
            said.error(_sentence(snapshot.error or "the engine stopped and gave no reason"), icon=":material/error:")
            with below:
                _restart(control, snapshot, "What was recorded so far stays in the CSV files.")
        case HostState.STOPPED:
            said.info("The engine is stopped.", icon=":material/pause_circle:")
            with below:
                _restart(control, snapshot, "Planner and Prices need no engine.", "Start the engine")
        case HostState.STALLED:
            text = _sentence(snapshot.stalled or "no turn can run")
            said.warning(f"**Stalled.** {text}", icon=":material/hourglass_empty:")


def _starting(startup: Startup | None) -> None:
    stage = startup.stage if startup else ""
    # Not as a context manager: leaving that would mark it as done.
    box = st.container().status(WHAT.get(stage, "Starting the engine"), state="running", expanded=True)
    box.progress(overall(startup))
    note = startup.note if startup and startup.note else "importing"
    share = f"{percent(startup.fraction)} of this stage · " if startup and startup.fraction is not None else ""
    box.markdown(f"{share}{plain(note)}")
    box.caption(next_stages(stage) or f"Stages: {', '.join(STAGES)}; what is cached already is skipped.")


def _restart(control: Control, snapshot: Snapshot, note: str, label: str = "Restart the engine") -> None:
    before = snapshot.ran_before
    label = f"Back to {plain(before)}" if before else label
    icon = ":material/play_arrow:" if label.startswith("Start") else ":material/restart_alt:"
    st.container()  # Where the progress of a start stands: a row in its place would be one of its children.
    with st.container(horizontal=True, vertical_alignment="center"):
        by = {"author": tab.author()}
        st.button(label, key="restart", icon=icon, type="primary", on_click=control.restart, kwargs=by)
        if note:
            st.caption(note)


def _sentence(text: str) -> str:
    """Capitalised, unless it begins with a name of something: 'org/model: not on Hugging Face'."""
    if text.partition(" ")[0].endswith(":"):
        return plain(text)
    return plain(text[:1].upper() + text[1:])
