"""The What-if page over the scripted engine in a real browser: a small grid on real twins. Tests wait on conditions."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.driver import App, choose, running_app

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]
SOON_MS = 60_000
RUNS_MS = 150_000
FIND = """(title) => [...document.querySelectorAll('.parkdeck-plot')].find((p) =>
    p._fullLayout?.title?.text?.startsWith(title))"""
MAPS = ("Makespan", "Foreground TTFT p95", "Swapped bytes", "Recomputed tokens")


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    own = str(tmp_path_factory.mktemp("own"))
    with running_app("tests/browser/fake_app.py", {"PARKDECK_SCENE": "running", "PARKDECK_CONFIG_DIR": own}) as started:
        yield started


@pytest.fixture
def page(app: App, chrome: Browser) -> Iterator[Page]:
    context = chrome.new_context(viewport={"width": 1280, "height": 1300}, color_scheme="dark")
    context.set_default_timeout(SOON_MS)
    opened = context.new_page()
    opened.goto(f"{app.url}/what-if")
    yield opened
    context.close()
    assert "Traceback" not in app.text()


def give(page: Page, label: str, value: str) -> None:
    field = page.get_by_role("spinbutton", name=label).or_(page.get_by_role("textbox", name=label))
    field.fill(value)
    field.press("Enter")


def press_cell(page: Page, title: str, row: int, column: int) -> None:
    """At the cell's middle, as a user does."""
    plot = page.evaluate_handle(f"(title) => ({FIND})(title)", title).as_element()
    assert plot is not None
    plot.scroll_into_view_if_needed()
    at = page.evaluate(
        f"""([title, row, column]) => {{
          const plot = ({FIND})(title);
          const {{ xaxis, yaxis }} = plot._fullLayout;
          const frame = plot.getBoundingClientRect();
          return [frame.left + xaxis._offset + xaxis.d2p(column), frame.top + yaxis._offset + yaxis.d2p(row)];
        }}""",
        [title, row, column],
    )
    page.mouse.move(*at)
    page.mouse.click(*at)


def test_a_grid_is_run_watched_chosen_from_and_applied(page: Page) -> None:
    expect(page.get_by_role("heading", name="What-if")).to_contain_text("modelled")
    expect(page.get_by_text("Press Run grid")).to_be_visible()
    give(page, "Slots: values", "4, 8")
    expect(page.get_by_text("4 cells, about")).to_be_visible()
    give(page, "Agents: number", "8")
    page.get_by_role("button", name="Run grid").click()
    expect(page.get_by_role("progressbar")).to_be_visible()
    expect(page.get_by_text(re.compile(r"of 4 cells .* s left"))).to_be_visible()
    expect(page.get_by_text(re.compile(r"4 cells in [\d.]+ s"))).to_be_visible(timeout=RUNS_MS)
    expect(page.get_by_role("progressbar")).to_have_count(0)
    for title in MAPS:
        page.wait_for_function(
            f"(title) => ({FIND})(title)?.data[0].z.flat().length === 4 && ({FIND})(title)._fullLayout", arg=title
        )
    written = page.evaluate(f"(title) => ({FIND})(title)._fullLayout.annotations.map((one) => one.text)", "Makespan")
    assert len(written) == 4
    assert all(re.search(r"\d (s|min|ms)", text) for text in written)
    expect(page.get_by_text(re.compile("Outlined: the live engine's knobs, KV precision q8, Slots 8"))).to_be_visible()
    press_cell(page, "Makespan", 0, 0)
    expect(page.get_by_role("heading", name="KV precision fp16, Slots 4")).to_be_visible()
    page.wait_for_function(f"(title) => ({FIND})(title)?.data.length === 4", arg="Turns by phase")
    expect(page.get_by_text("Sets KV precision fp16 and Slots 4 of the live engine")).to_be_visible()
    choose(page, "Cell", "KV precision q8, Slots 4")
    expect(page.get_by_role("heading", name="KV precision q8, Slots 4")).to_be_visible()
    choose(page, "Cell", "KV precision fp16, Slots 4")
    expect(page.get_by_role("heading", name="KV precision fp16, Slots 4")).to_be_visible()
    page.get_by_role("button", name="Apply to the engine").click()
    expect(page.get_by_text("KV precision fp16, Slots 4: set on the live engine.")).to_be_visible()
    expect(
        page.get_by_text(re.compile("Outlined: the live engine's knobs, KV precision fp16, Slots 4"))
    ).to_be_visible()


def test_a_grid_outlives_the_tab_and_is_cancelled_in_another(page: Page, app: App, chrome: Browser) -> None:
    page.get_by_text("for hours", exact=True).click()
    give(page, "Modelled time: number", "24")
    page.get_by_role("button", name="Run grid").click()
    expect(page.get_by_role("progressbar")).to_be_visible()
    other = chrome.new_context(viewport={"width": 1280, "height": 1300})
    other.set_default_timeout(SOON_MS)
    tab = other.new_page()
    page.goto("about:blank")
    tab.goto(f"{app.url}/what-if")
    expect(tab.get_by_role("progressbar")).to_be_visible()
    tab.get_by_role("button", name="Cancel").click()
    expect(tab.get_by_text(re.compile(r"Cancelled after \d of 8 cells"))).to_be_visible()
    expect(tab.get_by_role("button", name="Run grid")).to_be_visible()
    other.close()
