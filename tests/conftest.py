"""Fixtures that several rooms share."""

import os
from pathlib import Path

from engine.kernels.threads import configure_threads

configure_threads()

# Triton decides at its import whether kernels are compiled or interpreted. Without a device of NVIDIA's or AMD's the
# tests interpret them.
if not any(Path(node).exists() for node in ("/dev/nvidiactl", "/dev/kfd")):
    os.environ.setdefault("TRITON_INTERPRET", "1")

from collections.abc import Iterator  # noqa: E402

import pytest  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402

from engine.models.loaded import LoadedModel  # noqa: E402
from engine.models.resolve import DEFAULT_MODEL, load_model  # noqa: E402

# The same examples in each run, however busy the machine is.
settings.register_profile("parkdeck", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("parkdeck")


@pytest.fixture(scope="session")
def default_model() -> LoadedModel:
    """The real default model, by the product's own way: fetched on first use, then from the user's cache."""
    return load_model(DEFAULT_MODEL)


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache directory for this test alone."""
    cache = tmp_path / "cache"
    monkeypatch.setenv("PARKDECK_CACHE_DIR", str(cache))
    monkeypatch.delenv("PARKDECK_MODEL", raising=False)
    return cache


@pytest.fixture(autouse=True, scope="session")
def _no_own_cards(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The cards that a developer has kept are no part of a test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PARKDECK_CONFIG_DIR", str(tmp_path_factory.mktemp("config")))
        yield


@pytest.fixture
def own_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty config directory for this test alone."""
    config = tmp_path / "config"
    monkeypatch.setenv("PARKDECK_CONFIG_DIR", str(config))
    return config
