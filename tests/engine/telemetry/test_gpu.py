"""GPU sensors over a fake amdsmi: unified memory, no rights, sleep, units, and no library at all."""

import sys
from pathlib import Path
from typing import Any

import pytest

from engine.telemetry.gpu import RETRY_S, GpuReader, GpuSample, GpuState, import_amdsmi, usable_bytes
from tests.engine.telemetry.fake_amdsmi import DDR4, GDDR6, GIB, UNKNOWN, FakeAmdsmi, pci_device

CARD = "0000:03:00.0"
DISCRETE = {"name": "RX 9070 XT", "vram_mib": 16304, "vram_used_mib": 2048, "gtt": 64 * GIB, "type": GDDR6, "gfx": 37,
            "w": 180, "celsius": 52}  # fmt: skip


def read(tmp_path: Path, gpu: dict[str, Any], host: int = 128 * GIB, **errors: int) -> GpuSample:
    pci_device(tmp_path, CARD, "active")
    fake = FakeAmdsmi({CARD: gpu}, errors)
    (sample,), reason = GpuReader(lambda: fake, tmp_path).sample(host)
    assert reason is None
    return sample


def test_discrete_card(tmp_path: Path) -> None:
    sample = read(tmp_path, DISCRETE)
    assert (sample.name, sample.state, sample.unified) == ("RX 9070 XT", GpuState.ACTIVE, False)
    assert sample.vram_used_bytes == 2 * GIB
    assert sample.vram_total_bytes == 16304 << 20
    assert sample.usable_bytes == sample.vram_total_bytes
    assert sample.used_bytes == 2 * GIB
    assert sample.gtt_total_bytes == 64 * GIB
    assert (sample.gfx_percent, sample.power_w, sample.temperature_c) == (37, 180, 52)
    assert sample.memory_percent is None
    assert sample.reason is None


@pytest.mark.parametrize("kind", [DDR4, UNKNOWN, "N/A"])
@pytest.mark.parametrize(("vram_mib", "gtt_gib", "usable"), [(512, 120, 120.5 * GIB), (8192, 124, 128 * GIB)])
def test_unified_memory_is_shown_in_both_parts_and_never_above_the_host(
    tmp_path: Path, kind: object, vram_mib: int, gtt_gib: int, usable: float
) -> None:
    sample = read(
        tmp_path,
        {"vram_mib": vram_mib, "vram_used_mib": 100, "gtt": gtt_gib * GIB, "gtt_used": 3 * GIB, "type": kind},
    )
    assert sample.unified is True
    assert (sample.vram_total_bytes, sample.gtt_total_bytes) == (vram_mib << 20, gtt_gib * GIB)
    assert sample.usable_bytes == usable
    assert sample.used_bytes == (100 << 20) + 3 * GIB
    assert usable_bytes(True, vram_mib << 20, gtt_gib * GIB, 64 * GIB) == 64 * GIB


def test_values_that_are_not_available_are_none(tmp_path: Path) -> None:
    sample = read(tmp_path, {"vram_mib": "N/A", "vram_used_mib": "N/A", "gtt": "N/A", "gtt_used": "N/A", "type": "N/A"})
    assert sample.state is GpuState.ACTIVE
    for value in (sample.name, sample.vram_total_bytes, sample.vram_used_bytes, sample.gtt_total_bytes,
                  sample.usable_bytes, sample.used_bytes, sample.gfx_percent, sample.temperature_c, sample.power_w,
                  sample.unified):  # fmt: skip
        assert value is None


def test_one_sensor_that_fails_leaves_the_others(tmp_path: Path) -> None:
    sample = read(tmp_path, DISCRETE, temperature=2)
    assert sample.temperature_c is None
    assert sample.vram_used_bytes == 2 * GIB
    assert "2 | SOME_STATUS" in str(sample.reason)
    assert "\n" not in str(sample.reason)


def test_no_permission_is_one_line_that_names_the_group(tmp_path: Path) -> None:
    pci_device(tmp_path, CARD, "active")
    fake = FakeAmdsmi({CARD: DISCRETE}, {"init": 10})
    (sample,), reason = GpuReader(lambda: fake, tmp_path).sample(GIB)
    assert "render" in str(reason)
    assert "video" in str(reason)
    assert "\n" not in str(reason)
    assert (sample.state, sample.vram_used_bytes, sample.reason) == (GpuState.UNREADABLE, None, reason)
    later = read(tmp_path, DISCRETE, vram=10)
    assert later.state is GpuState.UNREADABLE
    assert "render" in str(later.reason)


def test_a_sleeping_gpu_is_left_asleep(tmp_path: Path) -> None:
    pci_device(tmp_path, CARD, "suspended")
    pci_device(tmp_path, "0000:00:1f.3", "active", vendor="0x8086")
    pci_device(tmp_path, "0000:03:00.1", "active", kind="0x040300")
    loads: list[int] = []
    fake = FakeAmdsmi({CARD: DISCRETE})

    def load() -> FakeAmdsmi:
        loads.append(1)
        return fake

    reader = GpuReader(load, tmp_path)
    (sample,), reason = reader.sample(GIB)
    assert (sample.state, sample.gfx_percent, sample.vram_used_bytes, reason) == (GpuState.ASLEEP, None, None, None)
    assert loads == []
    pci_device(tmp_path, CARD, "active")
    assert reader.sample(GIB)[0][0].state is GpuState.ACTIVE
    calls = fake.calls.total()
    pci_device(tmp_path, CARD, "suspended")
    (asleep,), _ = reader.sample(GIB)
    assert (asleep.state, asleep.name) == (GpuState.ASLEEP, "RX 9070 XT")
    assert fake.calls.total() == calls


def test_two_gpus_one_asleep(tmp_path: Path) -> None:
    other = "0000:0a:00.0"
    pci_device(tmp_path, CARD, "active")
    pci_device(tmp_path, other, "suspended")
    fake = FakeAmdsmi({CARD: DISCRETE, other: DISCRETE})
    samples, _ = GpuReader(lambda: fake, tmp_path).sample(GIB)
    assert {sample.bdf: sample.state for sample in samples} == {CARD: GpuState.ACTIVE, other: GpuState.ASLEEP}
    assert fake.calls["vram"] == 1


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (KeyError("libamd_smi.so"), "No AMD driver library"),
        (OSError("cannot open shared object"), "No AMD driver library"),
        (ModuleNotFoundError("No module named 'amdsmi'"), "not installed"),
        (AttributeError("undefined symbol"), "No AMD driver library"),
        (RuntimeError("odd\nthing"), "odd thing"),
    ],
)
def test_a_library_that_does_not_load_is_a_sentence_and_tried_again_later(
    tmp_path: Path, error: Exception, words: str
) -> None:
    now, loads = [0.0], []

    def load() -> Any:
        loads.append(1)
        if len(loads) == 1:
            raise error
        return FakeAmdsmi({CARD: DISCRETE})

    reader = GpuReader(load, tmp_path, clock=lambda: now[0])
    samples, reason = reader.sample(GIB)
    assert samples == ()
    assert words in str(reason)
    assert "\n" not in str(reason)
    now[0] = RETRY_S - 1
    assert reader.sample(GIB) == ((), reason)
    assert len(loads) == 1
    now[0] = RETRY_S + 1
    assert reader.sample(GIB)[0][0].state is GpuState.ACTIVE


def test_driver_not_loaded_and_no_gpu(tmp_path: Path) -> None:
    _, reason = GpuReader(lambda: FakeAmdsmi({}, {"init": 34}), tmp_path).sample(GIB)
    assert reason == "The amdgpu driver is not loaded: GPU sensors are n/a."
    reader = GpuReader(lambda: FakeAmdsmi({}), tmp_path)
    assert reader.sample(GIB) == ((), "No AMD GPU was found on this machine.")
    reader.close()
    reader.close()


def test_what_the_library_prints_on_import_is_swallowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A module that does what amdsmi does without its driver library: prints, then raises KeyError."""
    (tmp_path / "amdsmi.py").write_text("print('Unable to find libamd_smi.so library')\n{}['libamd_smi.so']\n")
    monkeypatch.delitem(sys.modules, "amdsmi", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    _, reason = GpuReader(import_amdsmi, tmp_path).sample(GIB)
    assert reason == "No AMD driver library (libamd_smi.so) on this machine: GPU sensors are n/a."
    assert capfd.readouterr() == ("", "")
