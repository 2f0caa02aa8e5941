"""From the Live page's figure of b to the page Blocked, in one tab."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.driver import App, running_app

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def app() -> Iterator[App]:
    with running_app("tests/browser/fake_app.py", {"PARKDECK_SCENE": "running"}) as started:
        yield started


@pytest.mark.parametrize("link", ["a[href$='/blocked']", "[data-tile=blocked] a"])
def test_the_top_line_and_the_tile_of_b_lead_to_the_page_blocked_without_a_reload(
    app: App, chrome: Browser, link: str
) -> None:
    page = chrome.new_page()
    page.set_default_timeout(60_000)
    page.goto(app.url)
    expect(page.locator(".turns .foot")).to_be_visible(timeout=60_000)
    page.evaluate("() => { window.kept = 'as it was'; }")
    page.locator(link).first.click()
    expect(page).to_have_url(re.compile("/blocked"))
    expect(page.locator("[data-tile=could] .value")).to_contain_text("agents", timeout=60_000)
    expect(page.locator(".parkdeck-plot .main-svg").first).to_be_visible()
    assert page.evaluate("() => window.kept") == "as it was"
    page.context.close()
