"""The list of events over an engine whose list goes on growing, in a real browser. Tests wait on conditions."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.driver import App, running_app

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]
SOON_MS = 30_000


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    own = str(tmp_path_factory.mktemp("own"))
    env = {"PARKDECK_SCENE": "busy", "PARKDECK_CONFIG_DIR": own, "PARKDECK_DATA_DIR": own}
    with running_app("tests/browser/fake_app.py", env) as started:
        yield started


@pytest.fixture
def page(app: App, chrome: Browser) -> Iterator[Page]:
    context = chrome.new_context(viewport={"width": 1280, "height": 1300})
    context.set_default_timeout(SOON_MS)
    opened = context.new_page()
    opened.goto(app.url)
    opened.wait_for_selector(".events .event")
    yield opened
    context.close()
    assert "Traceback" not in app.text()


def group(page: Page, word: str) -> str:
    """Selector of a group's button."""
    return f".events > .event:has(> button.line .text:text-matches('^{word} ×')) > button.line"


def count(page: Page) -> int:
    return int(page.locator(group(page, "swap out")).locator(".text").inner_text().split("×")[1].split(",")[0])


def grown(page: Page) -> None:
    before = count(page)
    text = group(page, "swap out") + " .text"
    page.locator(text).filter(has_not_text=f"× {before},").wait_for()
    assert count(page) > before


def test_a_group_opens_by_key_and_stays_open_while_it_grows(page: Page) -> None:
    button = page.locator(group(page, "swap out"))
    button.evaluate("(element) => { element.kept = true; }")
    button.press("Enter")
    expect(button).to_have_attribute("aria-expanded", "true")
    members = page.locator(".events .members").first.locator(".event")
    assert members.count() >= 6
    grown(page)
    expect(button).to_have_attribute("aria-expanded", "true")
    expect(button).to_be_focused()
    assert button.evaluate("(element) => element.kept"), "the same element, so that nothing flickers"
    button.click()
    expect(button).to_have_attribute("aria-expanded", "false")
    expect(members.first).to_be_hidden()


def test_what_is_read_stays_where_it_is_while_events_come(page: Page) -> None:
    page.locator(group(page, "swap out")).click()
    page.locator(group(page, "High watermark")).click()
    low = page.locator(".events > .event", has_text="swarm started")
    low.scroll_into_view_if_needed()
    before = low.bounding_box()
    grown(page)
    after = low.bounding_box()
    assert before is not None
    assert after is not None
    assert after["y"] == pytest.approx(before["y"], abs=1.0)


def test_refused_and_failed_turns_stand_out_and_an_author_is_named(page: Page) -> None:
    bad = page.locator(".events > .event.bad")
    expect(bad).to_have_count(2)
    expect(bad.first).to_contain_text("failed: agent 3: the step failed")
    expect(bad.last).to_contain_text("a turn of agent 9 was refused")
    expect(bad.last.locator(".note")).to_have_text("by swarm")


def test_nothing_in_the_list_is_cut_off_in_a_narrow_column(page: Page) -> None:
    wider = "(list) => list.scrollWidth - list.clientWidth"
    assert page.locator(".events").evaluate(wider) == 0


def test_a_scrolled_list_says_that_newer_events_stand_above(page: Page) -> None:
    newer, events = page.get_by_role("button", name="newer"), page.locator(".events")
    expect(newer).to_be_hidden()
    page.locator(group(page, "High watermark")).click()
    page.locator(".events > .event", has_text="swarm started").scroll_into_view_if_needed()
    newer.click()
    expect(newer).to_be_hidden()
    expect(events).to_be_focused()
    assert events.evaluate("(list) => list.scrollTop") == 0
