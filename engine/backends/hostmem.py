"""How much host memory may be asked for: the smaller of what the machine and the container have left."""

from collections.abc import Iterator
from pathlib import Path

import psutil

SHARE = 0.5
HOST_ARENAS = 6
"""How many arenas a host pool holds where nobody names its size."""


def available_host_bytes(proc: Path = Path("/proc"), cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """min(MemAvailable, limit - used of every control group above this process), in bytes.

    Pages that a group holds only as inactive file cache count as free, as the kernel gives them up first.
    """
    rooms = [limit - used for limit, used in _groups(proc, cgroup)]
    return max(0, min([_machine_available(proc), *rooms]))


def host_pool_limit(available: int) -> int:
    """The rule: a host pool may take half of the memory that is available without it, and no more."""
    return max(0, int(available * SHARE))


def _machine_available(proc: Path) -> int:
    meminfo = proc / "meminfo"
    if meminfo.exists():
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return int(psutil.virtual_memory().available)


def _groups(proc: Path, cgroup: Path) -> Iterator[tuple[int, int]]:
    """(limit, used) of each limited group from this process's own up to the root, cgroup v2 and v1."""
    membership = proc / "self" / "cgroup"
    if not membership.exists():
        return
    for line in membership.read_text().splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0" and not controllers:
            yield from _walk(cgroup, path, "memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            limit, usage = "memory.limit_in_bytes", "memory.usage_in_bytes"
            yield from _walk(cgroup / "memory", path, limit, usage, "total_inactive_file")


def _walk(root: Path, path: str, limit: str, usage: str, cache: str) -> Iterator[tuple[int, int]]:
    parts = [part for part in path.split("/") if part not in ("", "..")]
    for depth in range(len(parts), -1, -1):
        group = root.joinpath(*parts[:depth])
        cap, used = _number(group / limit), _number(group / usage)
        if cap is not None and used is not None:
            yield cap, max(0, used - _stat(group / "memory.stat", cache))


def _number(file: Path) -> int | None:
    """None for a missing file and for `max`."""
    text = file.read_text().strip() if file.exists() else ""
    return int(text) if text.isdigit() else None


def _stat(file: Path, name: str) -> int:
    if not file.exists():
        return 0
    pairs = (line.split() for line in file.read_text().splitlines())
    return next((int(value) for key, value in pairs if key == name), 0)
