"""Where the kernels' tests run: interpreted on the CPU, compiled on a device where there is one."""

import os

import pytest
import torch

pytest.importorskip("triton", reason="Triton is for Linux alone")

if os.environ.get("TRITON_INTERPRET") != "1" and not torch.cuda.is_available():
    pytest.skip("torch cannot use the device that is here; set TRITON_INTERPRET=1", allow_module_level=True)

DEVICE = torch.device("cpu" if os.environ.get("TRITON_INTERPRET") == "1" else "cuda")


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)
