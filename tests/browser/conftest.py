"""What the browser tests share."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.driver import browser

# A machine that runs the tests may be busy; what holds at once is not waited for.
expect.set_options(timeout=30_000)


@pytest.fixture(scope="module")
def chrome() -> Iterator[Browser]:
    with browser() as launched:
        yield launched
