"""Fixtures that several rooms share."""

from engine.kernels.threads import configure_threads

configure_threads()

from pathlib import Path  # noqa: E402

import pytest  # noqa: E402

from engine.models.loaded import LoadedModel  # noqa: E402
from engine.models.resolve import DEFAULT_MODEL, load_model  # noqa: E402


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
