"""One line on this machine: CPU, memory, GPU. A missing sensor is 'n/a', never 0."""

import streamlit as st

from panels.deck_view import HardwareState
from panels.units import MISSING, size


def line(state: HardwareState | None) -> str:
    """What the sensors read, measured each second."""
    if state is None:
        return f"CPU {MISSING} · memory {MISSING} · GPU {MISSING}"
    parts = [
        f"CPU {_percent(state.cpu)}",
        f"memory {size(state.memory_used)} of {size(state.memory_total)}",
        f"this process {size(state.process_memory)}",
        _gpu(state),
    ]
    if state.note:
        parts.append(state.note)
    return " · ".join(parts)


def render(state: HardwareState | None) -> None:
    st.caption(f"Measured on this machine each second: {line(state)}")


def _gpu(state: HardwareState) -> str:
    if state.gpu_name is None:
        return f"GPU {MISSING}"
    parts = [f"{state.gpu_name} {_percent(state.gpu_busy)}"]
    parts.append(f"VRAM {size(state.gpu_memory_used)} of {size(state.gpu_memory_total)}")
    parts.append(f"{state.gpu_power_w:.0f} W" if state.gpu_power_w is not None else f"power {MISSING}")
    if state.gpu_temperature_c is not None:
        parts.append(f"{state.gpu_temperature_c:.0f} °C")
    return ", ".join(parts)


def _percent(value: float | None) -> str:
    return MISSING if value is None else f"{value:.0%}"
