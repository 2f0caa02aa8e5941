"""One line on this machine: processor, memory, GPUs. A missing sensor is 'n/a', never 0; a sleeping GPU is asleep."""

import re

import streamlit as st

from engine.telemetry.gpu import GpuSample, GpuState
from engine.telemetry.hardware import HardwareSample
from panels.units import MISSING, size

UNIT = re.compile(r"(?<=\d) (?=\D)")
"""The space between a figure and its unit, where no line may break."""


def line(sample: HardwareSample | None) -> str:
    """What the sensors read, measured each second."""
    if sample is None:
        return f"CPU {MISSING} · memory {MISSING} · GPU {MISSING}"
    used = sample.host_total_bytes - sample.host_available_bytes
    limit = " (limit of the container)" if sample.host_limited else ""
    parts = [
        f"CPU {_percent(sample.cpu_percent)}",
        f"memory {size(used)} of {size(sample.host_total_bytes)}{limit}",
        f"this process {size(sample.process_rss_bytes)}",
        *(_gpu(gpu) for gpu in sample.gpus),
    ]
    if not sample.gpus:
        parts.append(f"GPU {MISSING}")
    return " · ".join(parts)


def render(sample: HardwareSample | None) -> None:
    said = UNIT.sub("\u00a0", line(sample))
    st.caption(f"Measured on this machine: {said}", help=sample.gpu_reason if sample else None)


def _gpu(gpu: GpuSample) -> str:
    name = gpu.name or f"GPU {gpu.bdf}"
    if gpu.state == GpuState.ASLEEP:
        return f"{name} asleep"
    if gpu.state == GpuState.UNREADABLE:
        return f"{name} {MISSING}" + (f": {gpu.reason}" if gpu.reason else "")
    kind = "VRAM and GTT" if gpu.unified else "VRAM"
    parts = [
        f"{name} {_percent(gpu.gfx_percent)}",
        f"{kind} {size(gpu.used_bytes)} of {size(gpu.usable_bytes)}",
        f"power {MISSING}" if gpu.power_w is None else f"{gpu.power_w:.0f} W",
        f"temperature {MISSING}" if gpu.temperature_c is None else f"{gpu.temperature_c:.0f} °C",
    ]
    return ", ".join(parts)


def _percent(value: float | None) -> str:
    return MISSING if value is None else f"{value:.0f} %"
