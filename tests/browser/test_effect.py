"""The effect card over the real model in a real browser: one app and two tabs for all tests of this file, in their
order."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.driver import App, running_app
from tests.browser.test_live import READY_S, SOON_MS, chart, figure, open_page, wait_until

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
BEFORE_S = 12.0
BOTH = re.compile(r"^[\d.,]+ → [\d.,]+$")


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    data = tmp_path_factory.mktemp("data")
    with running_app("app", {"PARKDECK_DATA_DIR": str(data), "PARKDECK_AGENTS": "6"}) as started:
        yield started


@pytest.fixture(scope="module")
def page(app: App, chrome: Browser) -> Iterator[Page]:
    opened = open_page(app, chrome)
    opened.wait_for_selector(".parkdeck-plot .main-svg", timeout=READY_S * 1000)
    wait_until(opened, lambda: "n/a" not in figure(opened, "itl"), "latencies")
    first = drawn_s(opened)
    wait_until(opened, lambda: drawn_s(opened) > first + BEFORE_S, "a span before the change")
    yield opened
    opened.context.close()


@pytest.fixture(scope="module")
def other(page: Page, app: App, chrome: Browser) -> Iterator[Page]:
    opened = open_page(app, chrome)
    opened.wait_for_selector(".parkdeck-plot .main-svg")
    yield opened
    opened.context.close()


def drawn_s(page: Page) -> float:
    """How many seconds of the engine the chart shows."""
    return float(str(chart(page, "((x) => (x.at(-1) - x[0]) / 1000)(Array.from(plot._fullData[0].x, Number))")))


def title(page: Page) -> str:
    return page.locator(".effect h4").inner_text()


def value(page: Page, key: str) -> str:
    return page.locator(f".effect [data-effect={key}] .value").inner_text()


def precision(page: Page, name: str) -> None:
    page.get_by_role("radio", name=name).or_(page.get_by_role("button", name=name)).first.click()


def test_a_change_has_a_card_with_measured_figures_of_both_spans(page: Page) -> None:
    expect(page.locator(".effect")).to_have_count(0)
    precision(page, "q8")
    expect(page.locator(".effect h4")).to_have_text("KV precision fp16 → q8", timeout=SOON_MS)
    expect(page.locator(".effect .meta")).to_contain_text("by tab 1 (this tab)")
    expect(page.locator(".effect .meta")).to_contain_text(re.compile(r"took [\d.]+ (ms|s)"))
    for key in ("headroom", "paused_fit", "itl", "decode", "swaps", "recomputed"):
        expect(page.locator(f".effect [data-effect={key}] .value")).to_have_text(BOTH, timeout=SOON_MS)
    before, after = value(page, "paused_fit").split(" → ")
    assert float(after) > float(before)
    expect(page.locator(".effect .note")).to_contain_text(re.compile(r"(\d+) s before and \d+ s after"))
    first = page.locator(".effect .note").inner_text()
    wait_until(page, lambda: page.locator(".effect .note").inner_text() != first, "a longer span")


def test_another_tab_sees_the_card_and_who_made_the_change(page: Page, other: Page) -> None:
    expect(other.locator(".effect h4")).to_have_text("KV precision fp16 → q8", timeout=SOON_MS)
    expect(other.locator(".effect .meta")).to_contain_text("by tab 1 ·")
    expect(other.locator(".effect [data-effect=itl] .value")).to_have_text(BOTH, timeout=SOON_MS)


@pytest.mark.parametrize("width", [1280, 1920])
def test_no_figure_is_cut_off(other: Page, width: int) -> None:
    other.set_viewport_size({"width": width, "height": 1080})
    cut = """() => [...document.querySelectorAll('*')].map((e) => e.shadowRoot?.querySelector('.effect')).find(Boolean)
        .querySelectorAll('.value, .verdict, .label, .spread')"""
    other.wait_for_function(f"() => [...({cut})()].every((e) => e.scrollWidth <= e.clientWidth)")
    wider = "[document.documentElement, document.querySelector('[data-testid=stMain]')]"
    assert other.evaluate(f"() => {wider}.map((e) => e.scrollWidth - e.clientWidth)") == [0, 0]


def test_undo_brings_fp16_back_and_says_so_and_the_card_shows_the_undo(page: Page, other: Page) -> None:
    undo = other.locator(".effect .undo")
    undo.focus()
    other.keyboard.press("Enter")
    expect(other.locator(".effect .told")).to_have_text("Undone: KV precision is fp16 again.", timeout=SOON_MS)
    expect(other.locator(".effect h4")).to_have_text("KV precision q8 → fp16", timeout=SOON_MS)
    expect(other.locator(".effect .meta")).to_contain_text("by tab 2 (this tab)")
    expect(page.locator(".effect h4")).to_have_text("KV precision q8 → fp16", timeout=SOON_MS)
    expect(page.locator(".effect .meta")).to_contain_text("by tab 2 ·")
    expect(page.get_by_text("KV precision q8 → fp16", exact=False).filter(has_text="by tab 2").first).to_be_visible()
    wait_until(page, lambda: "q8: " in page.locator("[data-tile=paused_fit]").inner_text(), "fp16")


def test_a_dismissed_card_is_away_in_that_tab_until_the_next_change(page: Page, other: Page) -> None:
    page.locator(".effect .dismiss").click()
    expect(page.locator(".effect")).to_have_count(0, timeout=SOON_MS)
    assert title(other) == "KV precision q8 → fp16"
    field = other.get_by_role("spinbutton", name="Slots").first
    field.fill("4")
    field.press("Enter")
    expect(page.locator(".effect h4")).to_have_text("Slots 8 → 4", timeout=SOON_MS)
    assert "Traceback" not in page.inner_text("body")
