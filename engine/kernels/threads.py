"""Threads of the kernels: how many, how they wait, where compiled code is kept. Imports neither torch nor numba."""

import hashlib
import os
import platform
from importlib.metadata import version
from pathlib import Path

import platformdirs

SPIN_COUNT = 1000
"""Short spin of waiting OpenMP workers: best alone and beside a busy second process."""


def configure_threads() -> int:
    """Set the environment that torch, OpenMP, numba and Triton read at their import, and return the thread count.

    To be called by each entry before either is imported. What the user has set in the environment stays in force, but
    for thread counts that are none (these count as not set) or beyond the machine's CPUs (these are brought down).
    """
    stated = {name: _stated_threads(name) for name in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS")}
    threads = next((count for count in stated.values() if count), None) or physical_cores()
    for name, count in stated.items():
        os.environ[name] = str(count or threads)
    for name, value in (
        ("GOMP_SPINCOUNT", str(SPIN_COUNT)),
        ("NUMBA_THREADING_LAYER_PRIORITY", "omp tbb workqueue"),
        ("NUMBA_CACHE_DIR", str(kernel_cache())),
        ("TRITON_CACHE_DIR", str(cache_root() / "triton")),
    ):
        os.environ.setdefault(name, value)
    return threads


def _stated_threads(name: str) -> int | None:
    """1 to the machine's CPUs; OpenMP's list for nested levels counts with its first number, as nothing nests here."""
    text = os.environ.get(name, "").split(",")[0].strip()
    if not text.isdecimal() or not text.strip("0"):
        return None
    most = os.cpu_count() or 1
    return most if len(text) > 9 else min(int(text), most)


def cache_root() -> Path:
    """PARKDECK_CACHE_DIR, else the user's cache directory."""
    override = os.environ.get("PARKDECK_CACHE_DIR")
    return Path(override).expanduser() if override else Path(platformdirs.user_cache_dir("parkdeck", appauthor=False))


def kernel_cache(sources: Path = Path(__file__).parent) -> Path:
    """Compiled kernels, in a folder named by what they were compiled from: code of an older source is never met."""
    digest = hashlib.sha256()
    for source in sorted(sources.glob("*.py")):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    for package in ("numba", "llvmlite", "numpy"):
        digest.update(version(package).encode())
    digest.update(platform.python_version().encode())
    return cache_root() / "kernels" / digest.hexdigest()[:16]


def physical_cores() -> int:
    """Cores that this process may use: hyperthreads of one core count once, a control group's CPU quota is kept."""
    allowed = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    cores = {_core(cpu) for cpu in allowed}
    quota = cpu_quota()
    return max(1, len(cores) if quota is None else min(len(cores), int(quota)))


def _core(cpu: int) -> tuple[str, str]:
    topology = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology")
    try:
        return ((topology / "physical_package_id").read_text().strip(), (topology / "core_id").read_text().strip())
    except OSError:
        return ("cpu", str(cpu))


def cpu_quota(root: Path = Path("/sys/fs/cgroup")) -> float | None:
    """CPUs that the control group allows, None without a limit (version 2, then version 1)."""
    try:
        limit, period = (root / "cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            limit = (root / "cpu/cpu.cfs_quota_us").read_text().strip()
            period = (root / "cpu/cpu.cfs_period_us").read_text().strip()
        except OSError:
            return None
    return None if limit == "max" or int(limit) <= 0 else int(limit) / int(period)
