"""What the browser tests share."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, WebError, expect

from tests.browser.driver import browser

# A machine that runs the tests may be busy; what holds at once is not waited for.
expect.set_options(timeout=30_000)


@pytest.fixture(scope="module")
def thrown() -> list[str]:
    """What Parkdeck's own scripts have thrown on any page of the module's browser."""
    return []


@pytest.fixture(scope="module")
def chrome(thrown: list[str]) -> Iterator[Browser]:
    with browser() as launched, pytest.MonkeyPatch.context() as patch:
        opened = launched.new_context

        def note(told: WebError) -> None:
            if "/assets/" in (told.error.stack or ""):
                thrown.append(told.error.stack or "")

        def watched(**options: object) -> BrowserContext:
            context = opened(**options)  # type: ignore[arg-type]
            context.on("weberror", note)
            return context

        patch.setattr(launched, "new_context", watched)
        yield launched


@pytest.fixture(autouse=True)
def scripts_throw_nothing(thrown: list[str]) -> Iterator[None]:
    yield
    assert not thrown
