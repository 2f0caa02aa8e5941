"""Host memory as this process may use it: the machine's, or its control group's where that is less."""

from dataclasses import dataclass
from pathlib import Path

import psutil

NO_LIMIT = 1 << 60


@dataclass(frozen=True, slots=True)
class HostMemory:
    """Bytes. `limited`: the control group's limit, not the machine's memory, is what counts."""

    total: int
    available: int
    limited: bool


def host_memory(root: Path = Path("/")) -> HostMemory:
    """`root` is where /proc and /sys are looked up."""
    machine = psutil.virtual_memory()
    total, available, limited = int(machine.total), int(machine.available), False
    for limit, used in _limits(root):
        if limit < total:
            total, limited = limit, True
        available = min(available, max(limit - used, 0))
    return HostMemory(total, min(available, total), limited)


def _limits(root: Path) -> list[tuple[int, int]]:
    """(limit, bytes used that cannot be reclaimed) of this process's groups and the groups above them."""
    found = []
    for line in _lines(root / "proc/self/cgroup"):
        _, controllers, place = (*line.split(":", 2), "", "")[:3]
        if controllers == "":
            base, limit, used, cache = root / "sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"
        elif "memory" in controllers.split(","):
            base, limit, used = root / "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
            cache = "total_inactive_file"
        else:
            continue
        folder = base / place.strip("/")
        while True:
            most = _number(folder / limit)
            if most is not None and most < NO_LIMIT:
                reclaimable = _entry(folder / "memory.stat", cache)
                found.append((most, max((_number(folder / used) or 0) - reclaimable, 0)))
            if folder == base:
                break
            folder = folder.parent
    return found


def _entry(path: Path, name: str) -> int:
    for line in _lines(path):
        key, _, value = line.partition(" ")
        if key == name and value.strip().isdigit():
            return int(value)
    return 0


def _number(path: Path) -> int | None:
    """None where there is no number: no such file, or "max"."""
    text = "".join(_lines(path)[:1]).strip()
    return int(text) if text.isdigit() else None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []
