"""The tour over the real engine and the real model, in a real browser: all six steps, with what they measured."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.driver import App, running_app
from tests.browser.tour_walk import SOON_MS, band, do, next_step, start, walk

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]
READY_MS = 420_000
SAID = (
    r"^8 of 8 slots run and hold \d,\d{3} tokens, \d+\.\d MiB of this machine",
    r"^tour \d+ and tour \d+ are paused and resident with \d+\.\d MiB .* Price: 0 bytes copied, 0 tokens recomputed\.$",
    r"^tour \d+ left: \d+\.\d MiB of this machine to the host pool in [\d.]+ m?s\. 2 paused turns stay resident\.$",
    r"^Paused that fit \d → \d+, KV converted in place in [\d.]+ m?s\. tour \d+ back in [\d.]+ m?s",
    r"^tour \d+ waited \d\.\d s on pytest: \d+\.\d MiB of this machine stayed, .* nothing was recomputed\.$",
    r"^tour \d+ was dropped and computed again in [\d.]+ m?s; by swap it was [\d.]+ m?s out and [\d.]+ m?s back",
)


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    own = str(tmp_path_factory.mktemp("own"))
    mine = {"PARKDECK_AGENTS": "4", "PARKDECK_POLICY": "resident-only"}
    env = {"PARKDECK_DATA_DIR": own, "PARKDECK_CONFIG_DIR": own, **mine}
    with running_app("app", env) as started:
        yield started


@pytest.fixture
def page(app: App, chrome: Browser) -> Iterator[Page]:
    opened = tab(app, chrome)
    yield opened
    opened.context.close()
    assert "Traceback" not in app.text()


def tab(app: App, chrome: Browser) -> Page:
    context = chrome.new_context(viewport={"width": 1440, "height": 1900})
    context.set_default_timeout(SOON_MS)
    opened = context.new_page()
    opened.goto(app.url)
    opened.wait_for_selector(".parkdeck-plot .main-svg", timeout=READY_MS)
    opened.wait_for_selector(".turns .foot", timeout=SOON_MS)
    return opened


def policy(page: Page) -> str:
    return page.get_by_label("Tier policy").first.input_value()


def tours(page: Page) -> int:
    """Turns of the tour in the table."""
    return len([name for name in page.locator(".turns td.agent .text").all_inner_texts() if name.startswith("tour ")])


def test_six_steps_are_seen_over_the_real_engine_and_nothing_of_them_stays(page: Page) -> None:
    expect(page.get_by_role("button", name="Stop swarm")).to_be_visible()
    start(page)
    said: list[str] = []

    def seen(page: Page, step: int, text: str) -> None:
        print(f"{step}: {text}")
        assert re.search(SAID[step - 1], text), text
        said.append(text)
        if step == 1:
            assert "The swarm was stopped." in text
            assert "Tier policy resident-only → walk-down" in text
            assert tours(page) >= 8
        if step == 3:
            expect(page.locator(".turns td.tier .text", has_text="host")).to_have_count(1)

    walk(page, seen)
    print(band(page).locator(".does").inner_text())
    assert len(said) == 6
    expect(band(page).locator(".does")).to_contain_text("Tier policy recompute-only → resident-only")
    expect(page.locator(".turns .empty")).to_contain_text("No turn")
    assert tours(page) == 0
    band(page).get_by_role("button", name="Start the swarm again").click()
    expect(page.get_by_role("button", name="Stop swarm")).to_be_visible()
    expect(band(page)).to_be_hidden()


def test_a_second_tab_watches_a_reload_goes_on_and_leaving_puts_all_back(app: App, chrome: Browser, page: Page) -> None:
    start(page)
    first = do(page, 1)
    other = tab(app, chrome)
    expect(band(other).locator(".led")).to_contain_text("Led by tab ")
    expect(band(other).locator(".do")).to_be_hidden()
    assert band(other).locator(".said").inner_text() == first
    other.context.close()
    page.reload()
    expect(band(page).locator(".said")).to_have_text(first)
    expect(band(page).locator(".leave")).to_be_visible()
    next_step(page)
    two = do(page, 2)
    band(page).locator(".back").press("Enter")
    expect(band(page).locator(".where")).to_have_text("Tour · step 1 of 6")
    expect(band(page).locator(".said")).to_have_text(first)
    band(page).locator(".next").press("Enter")
    expect(band(page).locator(".said")).to_have_text(two)
    page.get_by_role("button", name="Start swarm").click()
    expect(page.get_by_text("the tour runs and needs the engine for itself")).to_be_visible()
    band(page).locator(".leave").press("Enter")
    expect(band(page).locator("h4")).to_have_text("The tour is over")
    expect(band(page).locator(".does")).to_contain_text("The tour was left.")
    assert tours(page) == 0
    band(page).locator(".leave").click()
    expect(band(page).locator("h4")).to_have_text("A tour of the deck")
