"""The reading of the machine: this one for real, control groups from fake files."""

from pathlib import Path

import psutil

from engine.telemetry.gpu import GpuReader
from engine.telemetry.hardware import HardwareReader
from engine.telemetry.memory import host_memory
from tests.engine.telemetry.fake_amdsmi import GIB, FakeAmdsmi

MIB = 1 << 20


def group(root: Path, path: str, **files: str) -> None:
    folder = root / "sys/fs/cgroup" / path
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text + "\n")


def process_in(root: Path, line: str) -> None:
    (root / "proc/self").mkdir(parents=True, exist_ok=True)
    (root / "proc/self/cgroup").write_text(line + "\n")


def test_a_real_sample_of_this_machine() -> None:
    reader = HardwareReader(GpuReader(lambda: FakeAmdsmi({})))
    assert reader.latest is None
    first = reader.sample()
    assert first.cpu_percent is None
    assert first.process_percent is None
    second = reader.sample()
    assert reader.latest is second
    assert second.cpu_percent is not None
    assert second.at >= first.at
    assert second.process_rss_bytes is not None
    assert second.process_rss_bytes > MIB
    assert 0 <= second.host_available_bytes <= second.host_total_bytes <= psutil.virtual_memory().total
    assert second.gpu_reason == "No AMD GPU was found on this machine."
    reader.close()


def test_no_control_group(tmp_path: Path) -> None:
    memory = host_memory(tmp_path)
    assert memory.total == psutil.virtual_memory().total
    assert not memory.limited


def test_limit_of_a_group_above_and_reclaimable_cache(tmp_path: Path) -> None:
    process_in(tmp_path, "0::/user/app")
    group(
        tmp_path,
        "user",
        memory__max=str(GIB),
        memory__current=str(900 * MIB),
        memory__stat=f"inactive_file {400 * MIB}",
    )
    group(tmp_path, "user/app", memory__max="max", memory__current=str(100 * MIB))
    memory = host_memory(tmp_path)
    assert (memory.total, memory.limited) == (GIB, True)
    assert memory.available == GIB - 500 * MIB


def test_the_smaller_of_two_limits_counts_and_nothing_is_negative(tmp_path: Path) -> None:
    process_in(tmp_path, "0::/a/b")
    group(tmp_path, "a", memory__max=str(GIB), memory__current=str(10 * MIB))
    group(tmp_path, "a/b", memory__max=str(512 * MIB), memory__current=str(600 * MIB))
    memory = host_memory(tmp_path)
    assert (memory.total, memory.available) == (512 * MIB, 0)


def test_version_one_groups(tmp_path: Path) -> None:
    process_in(tmp_path, "7:memory:/docker/x\n3:cpu,cpuacct:/docker/x")
    group(
        tmp_path,
        "memory/docker/x",
        memory__limit_in_bytes=str(2 * GIB),
        memory__usage_in_bytes=str(GIB),
        memory__stat=f"cache 5\ntotal_inactive_file {GIB // 2}",
    )
    group(tmp_path, "memory", memory__limit_in_bytes=str(0x7FFFFFFFFFFFF000))
    memory = host_memory(tmp_path)
    assert (memory.total, memory.available, memory.limited) == (2 * GIB, 3 * GIB // 2, True)
