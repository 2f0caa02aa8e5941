import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.kernels import threads


def test_cores_are_those_that_the_process_may_use() -> None:
    assert 1 <= threads.physical_cores() <= len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({"cpu.max": "150000 100000\n"}, 1.5),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "400000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 4.0),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
        ({}, None),
    ],
)
def test_the_quota_of_a_control_group_is_read_in_both_versions(
    tmp_path: Path, files: dict[str, str], quota: float | None
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert threads.cpu_quota(tmp_path) == quota


def test_the_environment_is_set_before_torch_and_numba_are_imported(tmp_path: Path) -> None:
    code = (
        "import sys; from engine.kernels.threads import configure_threads; n = configure_threads();"
        "assert 'torch' not in sys.modules and 'numba' not in sys.modules;"
        "import numba, torch; print(n, numba.get_num_threads(), torch.get_num_threads(), numba.config.CACHE_DIR)"
    )
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA_", "OMP_", "GOMP_"))}
    made = subprocess.run(
        [sys.executable, "-c", code], env=kept | {"PARKDECK_CACHE_DIR": str(tmp_path)}, capture_output=True, text=True
    )
    assert made.returncode == 0, made.stderr
    count, numba_count, torch_count, cache = made.stdout.split()
    assert count == numba_count == torch_count == str(threads.physical_cores())
    assert Path(cache).parent == tmp_path / "kernels"


def test_what_the_user_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_NUM_THREADS", "1")
    monkeypatch.setenv("GOMP_SPINCOUNT", "77")
    assert threads.configure_threads() == 1
    assert os.environ["GOMP_SPINCOUNT"] == "77"


@pytest.mark.parametrize(
    ("stated", "wanted"),
    [("abc", None), ("0", None), ("-3", None), ("1.5", None), ("9" * 5000, "most"), ("100000", "most"), ("1,4", "1")],
)
@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "NUMBA_NUM_THREADS"])
def test_thread_counts_that_are_none_are_ignored_and_too_many_are_brought_down(
    monkeypatch: pytest.MonkeyPatch, name: str, stated: str, wanted: str | None
) -> None:
    for variable in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
        monkeypatch.setenv(variable, "")
    monkeypatch.setenv(name, stated)
    count = threads.physical_cores() if wanted is None else (os.cpu_count() or 1) if wanted == "most" else int(wanted)
    assert threads.configure_threads() == count
    assert os.environ["OMP_NUM_THREADS"] == os.environ["NUMBA_NUM_THREADS"] == str(count)


def test_other_sources_have_another_cache(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1")
    before = threads.kernel_cache(tmp_path)
    (tmp_path / "a.py").write_text("x = 2")
    assert threads.kernel_cache(tmp_path) != before
    (tmp_path / "a.py").write_text("x = 1")
    assert threads.kernel_cache(tmp_path) == before
