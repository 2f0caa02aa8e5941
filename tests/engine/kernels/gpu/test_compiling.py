"""The kernels compile for real cards, though none is here."""

import os
import subprocess
import sys
from pathlib import Path

from tests.engine.kernels.gpu import lab


def test_every_kernel_compiles_for_nvidia_and_amd(tmp_path: Path) -> None:
    """To their matrix instructions where there is a product, and to 16 bytes a thread where blocks are moved."""
    assert lab.DEVICE.type in ("cpu", "cuda")
    environment = os.environ | {"TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "tests.engine.kernels.gpu.compiling"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 4 * 8
