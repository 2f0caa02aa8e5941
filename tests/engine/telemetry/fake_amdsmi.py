"""A stand-in for the amdsmi module: the calls that are used, with a count of each."""

from collections import Counter
from enum import IntEnum
from pathlib import Path
from typing import Any

GIB = 1 << 30
DDR4, GDDR6, UNKNOWN = 12, 22, 0


class LibraryError(Exception):
    def __init__(self, code: int) -> None:
        super().__init__(f"Error code:\n\t{code} | SOME_STATUS")
        self.err_code = code


class AmdSmiMemoryType(IntEnum):
    VRAM = 0
    VIS_VRAM = 1
    GTT = 2


class AmdSmiTemperatureType(IntEnum):
    EDGE = 0


class AmdSmiTemperatureMetric(IntEnum):
    CURRENT = 0


class FakeAmdsmi:
    """`gpus`: bdf -> values by call. `errors`: call -> status code that it fails with."""

    AmdSmiMemoryType = AmdSmiMemoryType
    AmdSmiTemperatureType = AmdSmiTemperatureType
    AmdSmiTemperatureMetric = AmdSmiTemperatureMetric

    def __init__(self, gpus: dict[str, dict[str, Any]], errors: dict[str, int] | None = None) -> None:
        self.gpus = gpus
        self.errors = errors or {}
        self.calls: Counter[str] = Counter()

    def _called(self, name: str) -> None:
        self.calls[name] += 1
        if name in self.errors:
            raise LibraryError(self.errors[name])

    def amdsmi_init(self) -> None:
        self._called("init")

    def amdsmi_shut_down(self) -> None:
        self._called("shut_down")

    def amdsmi_get_processor_handles(self) -> list[str]:
        self._called("handles")
        return list(self.gpus)

    def amdsmi_get_gpu_device_bdf(self, handle: str) -> str:
        return handle.upper()

    def amdsmi_get_gpu_asic_info(self, handle: str) -> dict[str, Any]:
        self._called("asic")
        return {"market_name": self.gpus[handle].get("name", "N/A")}

    def amdsmi_get_gpu_vram_usage(self, handle: str) -> dict[str, Any]:
        self._called("vram")
        return {"vram_total": self.gpus[handle]["vram_mib"], "vram_used": self.gpus[handle]["vram_used_mib"]}

    def amdsmi_get_gpu_memory_total(self, handle: str, kind: object) -> Any:
        self._called("memory_total")
        assert kind is AmdSmiMemoryType.GTT
        return self.gpus[handle]["gtt"]

    def amdsmi_get_gpu_memory_usage(self, handle: str, kind: object) -> Any:
        self._called("memory_usage")
        return self.gpus[handle].get("gtt_used", 0)

    def amdsmi_get_gpu_vram_info(self, handle: str) -> dict[str, Any]:
        self._called("vram_info")
        return {"vram_type": self.gpus[handle]["type"]}

    def amdsmi_get_gpu_activity(self, handle: str) -> dict[str, Any]:
        self._called("activity")
        return {"gfx_activity": self.gpus[handle].get("gfx", "N/A"), "umc_activity": "N/A"}

    def amdsmi_get_power_info(self, handle: str) -> dict[str, Any]:
        self._called("power")
        return {"socket_power": 0, "current_socket_power": "N/A", "average_socket_power": self.gpus[handle].get("w", 0)}

    def amdsmi_get_temp_metric(self, handle: str, kind: object, metric: object) -> Any:
        self._called("temperature")
        return self.gpus[handle].get("celsius", "N/A")


def pci_device(sysfs: Path, bdf: str, status: str, vendor: str = "0x1002", kind: str = "0x030000") -> None:
    folder = sysfs / "bus/pci/devices" / bdf
    (folder / "power").mkdir(parents=True, exist_ok=True)
    (folder / "vendor").write_text(vendor + "\n")
    (folder / "class").write_text(kind + "\n")
    (folder / "power/runtime_status").write_text(status + "\n")
