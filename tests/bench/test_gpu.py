"""The GPU's bench at tiny sizes, interpreted: its cases run, agree, and tell a failure as a row."""

import pytest
import torch

from engine.backends.torch.kernel_checks import Heads
from engine.geometry import KVGeometry
from tests.bench import gpu
from tests.engine.kernels.gpu.lab import DEVICE

TINY = gpu.Sizes(
    heads=Heads(2, 1, 64, 16),
    contexts=(20,),
    weights=((40, 64),),
    blocks=((KVGeometry(2, 1, 16), 3),),
    model=gpu.llama(1, 32, 48, Heads(2, 1, 16, 16), 64),
    context=17,
    turns=2,
)


def test_every_case_is_right_and_timed() -> None:
    lines = list(gpu.table(TINY, DEVICE))
    assert [line for line, right in lines if not right] == []
    rows = [line.strip("| ").split(" | ") for line, _ in lines[2:]]
    assert len(rows) == 2 + 2 + 2 + 6
    assert all(float(row[3]) > 0 and float(row[4]) > 0 for row in rows)
    assert rows[0][0] == "attention, fp16 KV, 2 x 20, 2/1 heads of 64"


def test_a_kernel_that_fails_or_is_wrong_is_a_row_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> gpu.Row:
        raise RuntimeError("out of resource: shared memory\nand much more")

    monkeypatch.setattr(gpu, "attention", broken)
    monkeypatch.setattr(gpu, "product", lambda *_: gpu.Row(0.5, 1e-6, 2e-6))
    lines = list(gpu.table(TINY, DEVICE))[2:]
    assert not any(right for _, right in lines[:4])
    assert "failed: RuntimeError: out of resource: shared memory |" in lines[0][0]
    assert "WRONG by 5.0e-01 | 1 | 2 | 2.00 |" in lines[2][0]
    assert all(right for _, right in lines[4:])


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so_and_exits_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu.main() == 2
    assert capsys.readouterr().out.count("\n") == 1


@pytest.mark.gpu
@pytest.mark.skipif(DEVICE.type != "cuda", reason="needs a CUDA or ROCm device")
def test_a_line_says_which_machine() -> None:
    assert torch.cuda.get_device_name() in gpu.machine(DEVICE)
