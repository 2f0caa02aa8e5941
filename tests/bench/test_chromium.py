"""The browser that the bench drives by itself: it shows the page's chart, its steps go on, and its CPU is counted."""

import time

import pytest

from app.bench.chromium import BLANK, Chromium, chromium
from app.bench.overhead import CHART_SHOWN, LAST_STEP
from engine.errors import Refused
from tests.browser.driver import HOW, running_app

FAKE = "tests/browser/fake_app.py"
pytestmark = [pytest.mark.browser, pytest.mark.skipif(chromium() is None, reason=HOW)]


def test_a_browser_shows_the_page_and_takes_cpu() -> None:
    with running_app(FAKE, {"PARKDECK_SCENE": "ticking"}) as app, Chromium(str(chromium())) as browser:
        before = browser.cpu_seconds()
        browser.open(app.url)
        browser.wait_for(CHART_SHOWN, "chart")
        first = browser.value(LAST_STEP)
        assert first
        deadline = time.monotonic() + 30
        while browser.value(LAST_STEP) == first:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert browser.cpu_seconds() > before
        browser.open(BLANK)
        browser.wait_for("document.body.innerText === ''", "empty page")
        assert not browser.value(CHART_SHOWN)


def test_what_is_no_browser_is_told() -> None:
    with pytest.raises(Refused, match="ended with status"), Chromium("/bin/false"):
        pass
