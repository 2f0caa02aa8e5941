"""The top line: state, model, how old the figures are, and the unit switch."""

import time

import streamlit as st

from engine.snapshot import HostState, Snapshot
from panels.scale import SCALES, Scale, ScaleName, has_card
from panels.units import MISSING, seconds

BADGES = {
    HostState.STARTING: ("starting", "orange"),
    HostState.RUNNING: ("running", "green"),
    HostState.IDLE: ("idle", "gray"),
    HostState.STALLED: ("stalled", "red"),
    HostState.FAILED: ("failed", "red"),
    HostState.STOPPED: ("stopped", "gray"),
}


def age(snapshot: Snapshot, wall: float) -> str:
    """How old the snapshot is; never negative, whatever the wall clock does."""
    past = max(0.0, wall - snapshot.utc)
    if past < 1.5:
        return "now"
    return f"{past:.0f} s ago" if past < 120 else f"{seconds(past)} ago"


def line(snapshot: Snapshot, scale: Scale, wall: float) -> str:
    runs = snapshot.bands is not None
    parts = [
        f"{snapshot.model} on {snapshot.backend}",
        scale.short if runs else f"scale {MISSING}",
        f"step {snapshot.step:,}" if runs else f"step {MISSING}",
    ]
    if snapshot.state != HostState.STARTING and (old := age(snapshot, wall)) != "now":
        parts.append(f"updated {old}")
    if snapshot.recorder_behind > 1000:
        parts.append(f"recorder {snapshot.recorder_behind:,} rows behind")
    return " · ".join(parts)


def warning(problem: str | None) -> str:
    """A second line in Markdown: what keeps the recorder from storing."""
    if problem is None:
        return ""
    plain = "".join("\\" + c if c in "\\`*_[]<>#|$~:" else c for c in problem)
    return f"  \n:orange[{plain}]"


def render(snapshot: Snapshot, recording_problem: str | None = None) -> ScaleName:
    """Draws the line and returns the scale that this tab's switch asks for."""
    word, colour = BADGES[snapshot.state]
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
        st.markdown(f"### Live &nbsp; :{colour}-badge[{word}]", width="content")
        said = st.empty()
        name: ScaleName = "this machine"
        if has_card(snapshot):
            chosen = st.segmented_control(
                "Units", SCALES, default=SCALES[0], key="units", label_visibility="collapsed", required=True
            )
            name = chosen or SCALES[0]
    scale = Scale(None if name == "this machine" else snapshot.card)
    said.caption(line(snapshot, scale, time.time()) + warning(recording_problem), width="content")
    return name
