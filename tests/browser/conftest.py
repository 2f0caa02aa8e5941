"""What the browser tests share."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.browser.driver import browser


@pytest.fixture(scope="module")
def chrome() -> Iterator[Browser]:
    with browser() as launched:
        yield launched
