"""A torch backend over the fake executor, sized in blocks."""

from engine.backends.torch.backend import TorchBackend
from engine.geometry import BlockLayout, KVDtype
from tests.engine.backends.fake_executor import GEOMETRY, FakeExecutor


def layout(dtype: KVDtype) -> BlockLayout:
    return BlockLayout(GEOMETRY, dtype)


def make(
    arena_blocks: int = 64, host_blocks: int = 64, dtype: KVDtype = KVDtype.FP16, executor: FakeExecutor | None = None
) -> TorchBackend:
    """Sizes in fp16 blocks, whatever the precision."""
    size = layout(KVDtype.FP16).nbytes
    return TorchBackend(executor or FakeExecutor(), arena_blocks * size, host_blocks * size, dtype)
