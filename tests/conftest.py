"""Fixtures that several rooms share."""

from pathlib import Path

import pytest

from engine.models.loaded import LoadedModel
from engine.models.resolve import DEFAULT_MODEL, load_model


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
