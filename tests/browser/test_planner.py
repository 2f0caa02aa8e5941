"""The Planner page in a real browser, over the scripted engine: one app for all tests of this file."""

import base64
import itertools
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.driver import App, running_app

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]
SOON_MS = 60_000


@pytest.fixture(scope="module")
def app() -> Iterator[App]:
    with running_app("tests/browser/fake_app.py", {"PARKDECK_SCENE": "running"}) as started:
        yield started


@pytest.fixture
def page(app: App, chrome: Browser) -> Iterator[Page]:
    context = chrome.new_context(viewport={"width": 1440, "height": 1200}, accept_downloads=True)
    context.set_default_timeout(SOON_MS)
    opened = context.new_page()
    opened.goto(f"{app.url}/planner")
    drawn(opened)
    yield opened
    context.close()


def drawn(page: Page) -> None:
    page.wait_for_selector(".parkdeck-plot .main-svg")
    page.wait_for_selector(".figures-frame td")
    wait_until(page, lambda: len(totals(page)) > 0, "the columns")


def wait_until(page: Page, true: Callable[[], bool], what: str, within_s: float = 60.0) -> None:
    deadline = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < deadline, f"{what} did not happen within {within_s:g} s"
        page.wait_for_timeout(100)


def chart(page: Page, script: str) -> Any:
    return page.evaluate(f"() => {{ const plot = document.querySelector('.parkdeck-plot'); return {script}; }}")


def totals(page: Page) -> list[str]:
    """What stands above the columns, as drawn."""
    found: list[str] = chart(
        page,
        "[...plot.querySelectorAll('.annotation-text')].map((n) => n.textContent).filter((t) => /^[\\d.,]+$/.test(t))",
    )
    return found


def y_range(page: Page) -> list[float]:
    found: list[float] = chart(page, "Array.from(plot._fullLayout.yaxis.range)")
    return found


def zoom_by_hand(page: Page) -> list[float]:
    """Draws the chart's zoom box over the middle of the columns; the axis as it then is."""
    whole = y_range(page)
    box = page.locator(".parkdeck-plot .nsewdrag").first.bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x - 150, y - 80)
    page.mouse.down()
    page.mouse.move(x + 150, y + 80, steps=5)
    page.mouse.up()
    wait_until(page, lambda: y_range(page) != whole, "the zoom")
    return y_range(page)


def field(page: Page, label: str) -> Any:
    return page.get_by_role("spinbutton", name=f"{label}: number")


def enter(page: Page, label: str, text: str) -> None:
    field(page, label).fill(text)
    field(page, label).press("Enter")


def test_columns_labels_and_ceiling_are_the_studys(page: Page) -> None:
    assert totals(page) == ["13.5", "14.44", "15.375", "16.31", "17.25", "16.0"]
    drawn_bars = chart(page, "plot.querySelectorAll('.barlayer .trace').length")
    assert drawn_bars == 6
    text = chart(page, "plot.textContent")
    for words in ("ceiling 15.5 GiB", "forced swap or recompute", "same turns at q8", "one long turn 2.5 GiB"):
        assert words in text
    assert chart(page, "plot.querySelectorAll('.barlayer [style*=\"url\"]').length") > 0
    assert page.locator("[data-row=paused_fit] td").nth(2).inner_text() == "11"


@pytest.mark.parametrize(
    ("text", "given"),
    [("0", "0"), ("-5", "-5"), ("1.5", "1.5"), ("1e30", "1e+30"), ("99999999999999999999", "1e+20"), ("", "empty")],
)
def test_a_bad_value_is_refused_beside_its_field_and_the_chart_stays(page: Page, text: str, given: str) -> None:
    chart(page, "(plot.dataset.mark = 'kept', 1)")
    enter(page, "Mean context", text)
    expect(page.get_by_text("give a whole number from 1 to 10,000,000 tokens")).to_be_visible()
    assert given in page.get_by_text("give a whole number from 1 to 10,000,000 tokens").inner_text()
    assert totals(page) == ["13.5", "14.44", "15.375", "16.31", "17.25", "16.0"]
    assert chart(page, "plot.dataset.mark") == "kept"
    enter(page, "Mean context", "7000")
    expect(page.get_by_text("give a whole number from")).to_have_count(0)
    wait_until(page, lambda: totals(page)[:1] == ["14.54"], "the new columns")


def test_a_slider_moves_the_columns_and_keeps_chart_and_zoom(page: Page) -> None:
    chart(page, "(plot.dataset.mark = 'kept', 1)")
    zoomed = zoom_by_hand(page)
    slider = page.get_by_role("slider").first
    slider.focus()
    slider.press("ArrowRight")
    running = "plot._fullData.find((t) => t.name === 'running KV').y[0]"
    wait_until(page, lambda: bool(chart(page, running) > 7.6), "more running KV")
    assert chart(page, "plot.dataset.mark") == "kept"
    assert y_range(page) == zoomed
    assert field(page, "Slots").input_value() == "10"


def test_values_outlive_a_visit_to_another_page(page: Page) -> None:
    enter(page, "Mean context", "7000")
    wait_until(page, lambda: totals(page)[:1] == ["14.54"], "the new columns")
    page.get_by_role("link", name="Prices").click()
    expect(page.get_by_role("heading", name="Prices")).to_be_visible()
    page.get_by_role("link", name="Planner").click()
    expect(page.get_by_role("heading", name="Planner")).to_be_visible()
    drawn(page)
    wait_until(page, lambda: totals(page)[:1] == ["14.54"], "the columns as they were")
    expect(field(page, "Mean context")).to_have_value("7000")


def test_of_two_clicks_on_links_the_later_counts(page: Page) -> None:
    page.get_by_role("link", name="Prices").click()
    page.get_by_role("link", name="Planner").click()
    enter(page, "Mean context", "7000")
    wait_until(page, lambda: totals(page)[:1] == ["14.54"], "the new columns")
    expect(page).to_have_url(re.compile("/planner"))
    expect(page.get_by_role("heading", name="Planner")).to_be_visible()


def test_the_chart_is_a_picture_with_a_name(page: Page, tmp_path: Path) -> None:
    data = page.evaluate(
        "() => Plotly.toImage(document.querySelector('.parkdeck-plot'), {format: 'png', width: 1200, height: 470})"
    )
    picture = base64.b64decode(str(data).split(",")[1])
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 10_000
    page.locator(".parkdeck-plot").first.hover()
    with page.expect_download() as caught:
        page.locator(".parkdeck-plot .modebar-btn[data-title*='png' i]").first.click()
    named = r"parkdeck-planner-turns-rx9070xt-ceiling-\d{8}T\d{6}Z\.png"
    assert re.fullmatch(named, caught.value.suggested_filename)


def test_the_table_comes_as_csv(page: Page) -> None:
    with page.expect_download() as caught:
        page.get_by_role("button", name="Table as CSV").click()
    assert caught.value.suggested_filename == "parkdeck-plan-rx9070xt-ceiling.csv"
    assert "turn_bytes,bytes,1006632960,519045120,503316480" in Path(caught.value.path()).read_text()


def test_the_session_is_measured_beside_the_plan(page: Page) -> None:
    expect(page.get_by_role("columnheader", name="session, measured")).to_be_visible()
    expect(page.get_by_text("SmolLM2-135M-Instruct on torch")).to_be_visible()


def test_a_narrow_window_keeps_the_columns_names_apart(page: Page) -> None:
    read = (
        "[...plot.querySelectorAll('.xtick text')].map((e) => e.getBoundingClientRect()).map((r) => [r.left, r.right])"
    )
    wide = chart(page, read)
    assert all(left[1] < right[0] for left, right in itertools.pairwise(wide))
    page.set_viewport_size({"width": 1024, "height": 900})
    wait_until(page, lambda: "paused turns beside" in str(chart(page, "plot.layout.xaxis.title.text")), "short names")
    narrow = chart(page, read)
    assert len(narrow) == len(wide)
    assert all(left[1] < right[0] for left, right in itertools.pairwise(narrow))
    for frame in page.locator(".figures-frame").all():
        assert frame.evaluate("(e) => e.scrollWidth - e.clientWidth") <= 0
    page.set_viewport_size({"width": 1440, "height": 1200})
    wait_until(page, lambda: chart(page, "plot.layout.xaxis.title.text") == "", "whole names again")


def test_the_chart_is_told_in_words(page: Page) -> None:
    figure = page.get_by_role("figure").first
    assert "2 average turns can stay paused" in (figure.get_attribute("aria-label") or "")


@pytest.mark.parametrize("theme", ["dark", "light"])
@pytest.mark.parametrize("width", [1280, 1920])
def test_no_page_scrolls_sideways(app: App, chrome: Browser, theme: str, width: int) -> None:
    context = chrome.new_context(viewport={"width": width, "height": 1000}, color_scheme=theme)  # type: ignore[arg-type]
    opened = context.new_page()
    opened.goto(f"{app.url}/planner")
    drawn(opened)
    sideways = "document.documentElement.scrollWidth - window.innerWidth"
    main = (
        "(() => { const m = document.querySelector('[data-testid=stMain]'); return m.scrollWidth - m.clientWidth; })()"
    )
    assert opened.evaluate(sideways) <= 0
    assert opened.evaluate(main) <= 0
    for frame in opened.locator(".figures-frame").all():
        assert frame.evaluate("(e) => e.scrollWidth - e.clientWidth") <= 0
    context.close()
