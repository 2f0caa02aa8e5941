"""AMD GPUs through amdsmi, guarded: every failure becomes a sentence, every missing value None.

A sleeping GPU is left asleep: its power state is read from /sys first, and amdsmi is not loaded while all are asleep.
amdsmi gives VRAM in MiB and GTT in bytes; both are bytes here, converted once.
"""

import contextlib
import importlib
import io
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

MIB = 1 << 20
AMD_VENDOR = "0x1002"
NO_PERMISSION = 10
NOT_LOADED = (34, 51)
RETRY_S = 60.0
_UNIFIED_TYPES = (10, 11, 12)
_UNKNOWN_TYPE = 0


class GpuState(StrEnum):
    ACTIVE = "active"
    ASLEEP = "asleep"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class GpuSample:
    """Bytes, percent, degrees Celsius, watts; None: no such sensor, or not read because the GPU sleeps. `unified`: an
    APU, whose VRAM carve-out and GTT are both host memory. `usable_bytes`: VRAM, for an APU VRAM + GTT but never more
    than the host has. `reason`: why values are missing, one sentence."""

    bdf: str
    name: str | None
    state: GpuState
    unified: bool | None = None
    vram_total_bytes: int | None = None
    vram_used_bytes: int | None = None
    gtt_total_bytes: int | None = None
    gtt_used_bytes: int | None = None
    usable_bytes: int | None = None
    gfx_percent: float | None = None
    memory_percent: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    reason: str | None = None

    @property
    def used_bytes(self) -> int | None:
        """Of what `usable_bytes` counts."""
        if not self.unified or self.vram_used_bytes is None or self.gtt_used_bytes is None:
            return self.vram_used_bytes
        return self.vram_used_bytes + self.gtt_used_bytes


def import_amdsmi() -> Any:
    """The amdsmi module. Without a driver it prints and raises, even KeyError; the print is swallowed."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return importlib.import_module("amdsmi")


class Failure(Exception):
    """A call of the library failed; its text is the sentence."""


class GpuReader:
    """Not thread-safe; called once a second by one job. `sysfs` is where /sys is; `load` gives the library."""

    def __init__(
        self,
        load: Callable[[], Any] = import_amdsmi,
        sysfs: Path = Path("/sys"),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._load = load
        self._sysfs = sysfs
        self._clock = clock
        self._library: Any = None
        self._handles: dict[str, Any] = {}
        self._names: dict[str, str | None] = {}
        self._failed_at: float | None = None
        self._reason: str | None = None

    def sample(self, host_total_bytes: int) -> tuple[tuple[GpuSample, ...], str | None]:
        """The GPUs, and why there is none or none can be read: one sentence, None when all is well."""
        states = self._power_states()
        if states and all(state == "suspended" for state in states.values()):
            return tuple(self._asleep(bdf) for bdf in states), None
        if not self._ready():
            return tuple(GpuSample(bdf, None, GpuState.UNREADABLE, reason=self._reason) for bdf in states), self._reason
        samples = []
        for bdf, handle in self._handles.items():
            if states.get(bdf) == "suspended":
                samples.append(self._asleep(bdf))
            else:
                samples.append(self._read(bdf, handle, host_total_bytes))
        return tuple(samples), None if samples else "No AMD GPU was found on this machine."

    def close(self) -> None:
        """Lets the library go."""
        if self._library is not None:
            with contextlib.suppress(Failure):
                self._call(self._library.amdsmi_shut_down)
        self._library = None
        self._handles = {}

    def _asleep(self, bdf: str) -> GpuSample:
        return GpuSample(bdf, self._names.get(bdf), GpuState.ASLEEP, reason="The GPU is asleep and is left so.")

    def _power_states(self) -> dict[str, str]:
        """bdf -> runtime power state of each AMD display device."""
        states = {}
        for device in sorted((self._sysfs / "bus/pci/devices").glob("*")):
            if _text(device / "vendor") == AMD_VENDOR and _text(device / "class").startswith("0x03"):
                states[device.name.lower()] = _text(device / "power/runtime_status")
        return states

    def _ready(self) -> bool:
        """Loads and starts the library; after a failure not again for a minute."""
        if self._library is not None:
            return True
        if self._failed_at is not None and self._clock() - self._failed_at < RETRY_S:
            return False
        try:
            library = self._call(self._load, loading=True)
            self._call(library.amdsmi_init)
            handles = self._call(library.amdsmi_get_processor_handles)
            self._handles = {
                str(self._call(lambda: library.amdsmi_get_gpu_device_bdf(handle))).lower(): handle  # noqa: B023
                for handle in handles
            }
        except Failure as failure:
            self._failed_at, self._reason = self._clock(), str(failure)
            return False
        self._library, self._failed_at, self._reason = library, None, None
        return True

    def _read(self, bdf: str, handle: Any, host_total: int) -> GpuSample:
        library = self._library
        reasons: list[str] = []

        def value(read: Callable[[], Any]) -> Any:
            try:
                return self._call(read)
            except Failure as failure:
                reasons.append(str(failure))
                return None

        if bdf not in self._names:
            self._names[bdf] = _named(value(lambda: library.amdsmi_get_gpu_asic_info(handle)))
        vram = value(lambda: library.amdsmi_get_gpu_vram_usage(handle))
        kinds = library.AmdSmiMemoryType
        gtt_total = _bytes(value(lambda: library.amdsmi_get_gpu_memory_total(handle, kinds.GTT)))
        gtt_used = _bytes(value(lambda: library.amdsmi_get_gpu_memory_usage(handle, kinds.GTT)))
        info = value(lambda: library.amdsmi_get_gpu_vram_info(handle))
        activity = value(lambda: library.amdsmi_get_gpu_activity(handle))
        power = value(lambda: library.amdsmi_get_power_info(handle))
        temperature = value(
            lambda: library.amdsmi_get_temp_metric(
                handle, library.AmdSmiTemperatureType.EDGE, library.AmdSmiTemperatureMetric.CURRENT
            )
        )
        vram_total = _bytes(_field(vram, "vram_total"), MIB)
        unified = _is_unified(_field(info, "vram_type"), gtt_total, vram_total)
        return GpuSample(
            bdf,
            self._names[bdf],
            GpuState.ACTIVE if vram is not None else GpuState.UNREADABLE,
            unified,
            vram_total,
            _bytes(_field(vram, "vram_used"), MIB),
            gtt_total,
            gtt_used,
            usable_bytes(unified, vram_total, gtt_total, host_total),
            _number(_field(activity, "gfx_activity")),
            _number(_field(activity, "umc_activity")),
            _number(temperature),
            _first_number(power, "current_socket_power", "average_socket_power", "socket_power"),
            reasons[0] if reasons else None,
        )

    def _call(self, read: Callable[[], Any], loading: bool = False) -> Any:
        """The one place where the library is called: whatever it raises (KeyError on import) is a Failure with a
        sentence."""
        try:
            return read()
        except Exception as error:
            raise Failure(_sentence(error, loading)) from error


def usable_bytes(unified: bool | None, vram_total: int | None, gtt_total: int | None, host_total: int) -> int | None:
    """What a model can use: a discrete card's VRAM; an APU's VRAM + GTT, at most what the host has."""
    if vram_total is None or not unified:
        return vram_total
    return min(vram_total + (gtt_total or 0), host_total)


def _is_unified(vram_type: Any, gtt_total: int | None, vram_total: int | None) -> bool | None:
    """APUs have plain DDR behind their VRAM, or a type that the library does not know and more GTT than VRAM; discrete
    cards have GDDR or HBM."""
    if vram_total is None:
        return None
    kind = _number(vram_type)
    if kind is None or kind == _UNKNOWN_TYPE:
        return gtt_total is not None and gtt_total > vram_total
    return int(kind) in _UNIFIED_TYPES


def _sentence(error: Exception, loading: bool) -> str:
    code = getattr(error, "err_code", None)
    if code == NO_PERMISSION or isinstance(error, PermissionError):
        user = os.environ.get("USER", "$USER")
        return (
            "No permission to read the GPU's sensors: add this user to the groups render and video "
            f"(sudo usermod -aG render,video {user}) and log in again."
        )
    if code in NOT_LOADED:
        return "The amdgpu driver is not loaded: GPU sensors are n/a."
    if isinstance(error, ModuleNotFoundError):
        return "The amdsmi package is not installed: GPU sensors are n/a."
    if loading and isinstance(error, KeyError | OSError | ImportError | AttributeError):
        return "No AMD driver library (libamd_smi.so) on this machine: GPU sensors are n/a."
    text = " ".join(str(error).split()) or type(error).__name__
    return f"The GPU's sensors cannot be read ({text})."


def _named(info: Any) -> str | None:
    name = _field(info, "market_name")
    return name if isinstance(name, str) and name not in ("", "N/A") else None


def _field(table: Any, name: str) -> Any:
    return table.get(name) if isinstance(table, dict) else None


def _number(value: Any) -> float | None:
    """None for "N/A" and everything else that is no number."""
    return None if isinstance(value, bool) or not isinstance(value, int | float) else value


def _first_number(table: Any, *names: str) -> float | None:
    """The first that is measured: a sensor that a card lacks reads 0 or N/A."""
    numbers = (_number(_field(table, name)) for name in names)
    return next((number for number in numbers if number), None)


def _bytes(value: Any, unit: int = 1) -> int | None:
    number = _number(value)
    return None if number is None else int(number * unit)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip().lower()
    except (OSError, UnicodeDecodeError):
        return ""
