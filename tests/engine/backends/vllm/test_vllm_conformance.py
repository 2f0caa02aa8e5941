"""The conformance suite over real vLLM on CPU with the default model."""

from engine.backends.base import Backend
from engine.geometry import KVDtype
from tests.engine.backends.conformance import BackendConformance
from tests.engine.backends.vllm.conftest import make_backend


class TestVllm(BackendConformance):
    dtypes = (KVDtype.FP32,)
    tokens_per_turn = 8

    def make(self, arena_tokens: int, host_tokens: int, kv_dtype: KVDtype) -> Backend:
        assert kv_dtype is KVDtype.FP32
        return make_backend(arena_tokens, host_tokens)
