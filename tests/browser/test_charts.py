"""Full screen, PNG, CSV and words of every chart, over the scripted engine in a real browser, with names that a
spreadsheet or a page could take for more than names. Tests wait on conditions."""

import base64
import csv
import io
import json
import math
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser, Download, Locator, Page, expect

from engine.record.cells import restored
from panels.assets import ASSETS
from panels.palette import palette
from tests.browser.driver import App, choose, running_app
from tests.browser.scenes import HOSTILE

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]
SOON_MS = 60_000
CARD = '=HYPERLINK("http://127.0.0.1:9"), a card'
PAGES = {"": 1, "?paused=yes": 1, "planner": 2, "prices": 3}
"""Address -> how many charts it has."""
DRAWN = "(plot) => plot.querySelector('.main-svg') !== null"
SVG = "(plot) => (({width, height}) => [width, height])(plot.querySelector('.main-svg').getBoundingClientRect())"
POINTS = "(plot) => plot._fullData.find((t) => t.name === 'running KV').x.length"
HIDE = """new MutationObserver((_, seen) => {
  if (!document.head) return;
  const style = document.createElement('style');
  style.id = 'hide';
  style.textContent = '.parkdeck-chart { display: none }';
  document.head.append(style);
  seen.disconnect();
}).observe(document, {childList: true, subtree: true})"""


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    own = tmp_path_factory.mktemp("own")
    (own / "cards").mkdir()
    shipped = (ASSETS / "cards" / "rx9070xt.toml").read_text(encoding="utf-8")
    hostile = shipped.replace('"rx9070xt"', '"hostile"').replace('"RX 9070 XT"', json.dumps(CARD))
    (own / "cards" / "hostile.toml").write_text(hostile, encoding="utf-8")
    env = {"PARKDECK_SCENE": "hostile", "PARKDECK_CONFIG_DIR": str(own), "PARKDECK_DATA_DIR": str(own)}
    with running_app("tests/browser/fake_app.py", env) as started:
        yield started
        assert "Traceback" not in started.text()


Opener = Callable[..., Page]


@pytest.fixture
def opened(app: App, chrome: Browser) -> Iterator[Opener]:
    """Opens a page of the app, and closes all of them."""
    contexts = []

    def open_page(address: str = "", script: str = "", charts: bool = True, **more: Any) -> Page:
        context = chrome.new_context(accept_downloads=True, **{"viewport": {"width": 1280, "height": 900}} | more)
        contexts.append(context)
        context.set_default_timeout(SOON_MS)
        if script:
            context.add_init_script(script)
        page = context.new_page()
        page.goto(f"{app.url}/{address}")
        if charts:
            expect(page.locator(".parkdeck-plot .modebar")).to_have_count(PAGES[address])
        return page

    yield open_page
    for context in contexts:
        context.close()


def plot(page: Page, index: int = 0) -> Locator:
    return page.locator(".parkdeck-plot").nth(index)


def button(page: Page, name: str, index: int = 0) -> Locator:
    return plot(page, index).get_by_role("button", name=name)


def until(page: Page, script: str, wanted: Any = True, index: int = 0) -> None:
    """Until `script` says what is wanted of the chart."""
    page.wait_for_function(
        f"""([index, wanted]) => JSON.stringify(({script})(document.querySelectorAll('.parkdeck-plot')[index]))
        === JSON.stringify(wanted)""",
        arg=[index, wanted],
    )


def saved(page: Page, name: str, index: int = 0) -> Download:
    with page.expect_download() as caught:
        button(page, name, index).click()
    return caught.value


def choose_card(page: Page) -> None:
    choose(page, "Card", re.compile("HYPERLINK"))


def sent(page: Page, index: int = 0) -> dict[str, Any]:
    """The figure as it was sent, with plain numbers."""
    figure: dict[str, Any] = json.loads(plot(page, index).evaluate("(plot) => plot.json"))
    for trace in figure["data"]:
        for part in ("x", "y"):
            values = trace.get(part)
            if isinstance(values, dict) and "of" in values:
                trace[part] = figure["data"][values["of"][0]][values["of"][1]]
            elif isinstance(values, dict):
                trace[part] = np.frombuffer(base64.b64decode(values["bdata"]), dtype=values["dtype"]).tolist()
    return figure


def table(page: Page, index: int = 0) -> tuple[list[str], list[list[str]], str]:
    """Head, rows and name of the chart's CSV file."""
    file = saved(page, "Save the figures as CSV", index)
    content = Path(file.path()).read_bytes()
    assert content.startswith(b"\xef\xbb\xbf")
    head, *rows = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""))
    assert all(len(row) == len(head) for row in rows)
    return head, rows, file.suggested_filename


def numbers(cells: list[str]) -> list[float]:
    return [float(cell) if cell else math.nan for cell in cells]


def column(head: list[str], rows: list[list[str]], name: str) -> list[float]:
    return numbers([row[head.index(name)] for row in rows])


@pytest.mark.parametrize("address", PAGES)
def test_every_chart_fills_the_screen_and_comes_back(opened: Opener, address: str) -> None:
    page = opened(address)
    for index in range(PAGES[address]):
        before = plot(page, index).evaluate(SVG)
        size = "(plot) => plot._fullLayout.font.size"
        small = plot(page, index).evaluate(size)
        button(page, "Full screen", index).focus()
        page.keyboard.press("Enter")
        until(page, SVG, [1280, 900], index)
        assert plot(page, index).evaluate("(plot) => document.fullscreenElement === plot.parentElement")
        assert plot(page, index).evaluate(size) > small
        expect(button(page, "Leave full screen (Escape)", index)).to_be_focused()
        page.keyboard.press("Escape")
        until(page, SVG, before, index)
        expect(button(page, "Full screen", index)).to_be_focused()
        assert page.evaluate("document.fullscreenElement") is None


def test_full_screen_keeps_zoom_and_legend_and_goes_on_live(opened: Opener) -> None:
    page = opened()
    plot(page).locator(".legendtoggle").nth(1).click()
    hidden = "(plot) => plot._fullData.find((t) => t.name === 'runtime').visible"
    until(page, hidden, "legendonly")
    plot(page).evaluate("(plot) => window.Plotly.relayout(plot, {'yaxis.range': [1, 9]})")
    button(page, "Full screen").click()
    until(page, SVG, [1280, 900])
    seen = plot(page).evaluate(POINTS)
    until(page, f"(plot) => ({POINTS})(plot) > {seen}")
    kept = "(plot) => [plot._fullLayout.yaxis.range[0], plot._fullLayout.yaxis.range[1]]"
    assert plot(page).evaluate(kept) == [1, 9]
    assert plot(page).evaluate(hidden) == "legendonly"
    button(page, "Leave full screen").click()
    until(page, "(plot) => plot._fullLayout.height", 446)
    assert plot(page).evaluate(kept) == [1, 9]
    assert plot(page).evaluate(hidden) == "legendonly"
    expect(button(page, "Full screen")).to_be_focused()


def test_where_the_browser_refuses_full_screen_the_chart_lies_over_the_page(opened: Opener) -> None:
    page = opened(script="Element.prototype.requestFullscreen = () => Promise.reject(new TypeError('no'))")
    before = plot(page).evaluate(SVG)
    button(page, "Full screen").click()
    until(page, SVG, [1280, 900])
    on_top = (
        "(plot) => plot.contains(document.elementFromPoint(5, 5)) && plot.contains(document.elementFromPoint(640, 450))"
    )
    assert plot(page).evaluate(on_top)
    page.get_by_role("button", name="Stop swarm").focus()
    expect(button(page, "Leave full screen")).to_be_focused()
    page.keyboard.press("Escape")
    until(page, SVG, before)
    expect(button(page, "Full screen")).to_be_focused()


def test_the_pages_key_for_full_screen_is_the_charts(opened: Opener) -> None:
    page = opened()
    page.keyboard.press("f")
    until(page, SVG, [1280, 900])
    page.keyboard.press("f")
    until(page, "(plot) => plot._fullLayout.height", 446)


@pytest.mark.parametrize("theme", ["dark", "light"])
@pytest.mark.parametrize("address", PAGES)
def test_every_chart_goes_out_as_a_sharp_png_on_its_own_ground(opened: Opener, address: str, theme: Any) -> None:
    page = opened(address, color_scheme=theme)
    ground = palette(theme).surface
    for index in range(PAGES[address]):
        width, height = plot(page, index).evaluate(SVG)
        file = saved(page, "Save as PNG", index)
        assert re.fullmatch(r"parkdeck-[A-Za-z0-9.-]+-\d{8}T\d{6}Z\.png", file.suggested_filename)
        with Image.open(file.path()) as picture:
            assert picture.format == "PNG"
            assert picture.width == 2 * width
            assert 2 * height + 60 < picture.height < 2 * height + 260
            corners = [(2, 2), (picture.width - 3, 2), (2, picture.height - 3)]
            colours = {"#{:02x}{:02x}{:02x}".format(*picture.convert("RGB").getpixel(at)) for at in corners}
            assert colours == {ground}
            # Words above and below the chart.
            heights = (0, picture.height - 2 * height - 60)
            assert all(len(picture.crop((0, y, picture.width, y + 60)).convert("RGB").getcolors(99999)) > 2
                       for y in (heights[0], picture.height - 60))  # fmt: skip


def test_the_stacks_csv_is_what_it_draws(opened: Opener) -> None:
    page = opened()
    page.evaluate("""() => {
      const plot = document.querySelector('.parkdeck-plot');
      const save = [...plot.querySelectorAll('.modebar-btn')].find((b) => b.dataset.title.includes('CSV'));
      save.addEventListener('click', () => { plot.atSave = plot.json; }, true);
    }""")
    head, rows, name = table(page)
    plot(page).evaluate("(plot) => { plot.json = plot.atSave; }")
    figure = sent(page)
    assert re.fullmatch(r"parkdeck-live-stack-20260921T130640Z-000-1-\d{8}T\d{6}Z\.csv", name)
    unit = "GiB at card scale"
    named = [t for t in figure["data"] if t["type"] == "scatter" and "xaxis" not in t and "name" in t]
    assert head == ["time (UTC)", *(f"{trace['name']} ({unit})" for trace in named)]
    assert len(set(head)) == len(head)
    for trace in named[:-1]:
        drawn = np.asarray(trace["y"], dtype=np.float32)
        read = np.asarray(column(head, rows, f"{trace['name']} ({unit})"), dtype=np.float32)
        np.testing.assert_array_equal(read, drawn)
    assert set(column(head, rows, f"ceiling ({unit})")) == {15.5}
    at = [datetime.fromisoformat(row[0].replace("Z", "+00:00")).timestamp() * 1000 for row in rows]
    assert all(row[0].endswith("Z") for row in rows)
    np.testing.assert_allclose(at, figure["data"][0]["x"], atol=1.0)


def test_the_planners_csv_is_what_it_draws(opened: Opener) -> None:
    page = opened("planner")
    head, rows, name = table(page)
    figure = sent(page)
    assert name.startswith("parkdeck-planner-turns-rx9070xt-ceiling-")
    assert [row[0] for row in rows] == [
        "running only",
        "'+1 paused",
        "'+2 paused",
        "'+3 paused",
        "'+4 paused",
        "'+1 long",
    ]
    for trace in figure["data"][:6]:
        known = next(text for text in head if text.startswith(trace["name"]))
        assert column(head, rows, known) == trace["y"]
    assert column(head, rows, "in all (GiB at fp16)") == [13.5, 14.4375, 15.375, 16.3125, 17.25, 16.0]
    assert set(column(head, rows, "ceiling (GiB)")) == {15.5}
    drawn = [y for y in sent(page)["data"][7]["y"] if y is not None][::2]
    assert column(head, rows, "same turns at q8 (GiB)") == drawn
    head, rows, name = table(page, 1)
    assert name.startswith("parkdeck-planner-reserve-rx9070xt-ceiling-")
    for trace, text in zip(sent(page, 1)["data"][:3], head[1:4], strict=True):
        assert column(head, rows, text) == trace["x"]


def test_hostile_names_are_cells_and_words_and_nothing_else(opened: Opener) -> None:
    page = opened("prices")
    choose_card(page)
    until(page, "(plot) => plot.json.includes('HYPERLINK')", True, 2)
    head, rows, name = table(page, 2)
    assert re.fullmatch(r"parkdeck-prices-context-[A-Za-z0-9.-]+-\d{8}T\d{6}Z\.csv", name)
    assert head == ["series", "context (tokens)", "time (s)", "agent", "out (MiB)", "back (MiB)"]
    assert not any(re.match(r"[=+\-@\t\r]", cell) for row in rows for cell in (row[0], row[3]))
    assert {restored(row[3]) for row in rows} == {"", *HOSTILE}
    assert f"{CARD}: out and back" in {restored(row[0]) for row in rows}
    figure = sent(page, 2)
    assert [float(row[1]) for row in rows] == [x for trace in figure["data"] for x in trace["x"]]
    assert [float(row[2]) for row in rows] == [y for trace in figure["data"] for y in trace["y"]]
    assert page.locator(".parkdeck-chart img, .parkdeck-chart a[href*='127.0.0.1:9']").count() == 0
    head, rows, _ = table(page)
    assert [row[0] for row in rows][:2] == ["way back alone", "out and back"]
    marks = [trace["x"][0] for trace in sent(page)["data"] if trace["mode"] == "markers+text"]
    assert set(marks) <= {float(row[2]) for row in rows}
    head, rows, _ = table(page, 1)
    assert [float(row[1]) for row in rows] == [trace["x"][0] for trace in sent(page, 1)["data"]]
    page.goto(page.url.replace("/prices", "/"))
    expect(plot(page).locator(".modebar")).to_be_attached()
    provenance = plot(page).locator(".gtitle").text_content() or ""
    assert '"a <b>card</b>"' in provenance


def test_cells_as_the_projects_own_writer_makes_them(opened: Opener) -> None:
    page = opened("planner")
    page.evaluate("""() => {
      const plot = document.querySelector('.parkdeck-plot');
      const words = ["'=1", '\\t', null, -2.5, 'a,"b\\n'];
      const table = {head: ['-a', 'b'], times: false, blocks: [[{of: [0, 'x']}, {values: words}]]};
      const figure = JSON.stringify({data: [{x: [-1, null, 1e-7, NaN, 1e21]}], table, file: 'cells'});
      Object.defineProperty(plot, 'json', {get: () => figure, set: () => {}, configurable: true});
    }""")
    head, rows, name = table(page)
    assert name.startswith("cells-")
    assert head == ["'-a", "b"]
    assert rows == [["-1", "''=1"], ["", "'\t"], ["1e-7", ""], ["", "-2.5"], ["1e+21", 'a,"b\n']]


@pytest.mark.parametrize("address", PAGES)
def test_every_chart_says_what_it_shows_and_none_is_read_aloud(opened: Opener, address: str) -> None:
    page = opened(address)
    figures = page.get_by_role("figure")
    assert figures.count() == PAGES[address]
    for figure in figures.all():
        words = figure.get_attribute("aria-label") or ""
        assert re.search(r"\d (GiB|GB|s|ms|tokens)\b", words), words
    assert page.locator(".parkdeck-chart [aria-live], .parkdeck-chart [role=status]").count() == 0


def test_the_buttons_are_seen_with_the_keyboard_and_cover_nothing(opened: Opener) -> None:
    page = opened()
    names = [b.get_attribute("aria-label") for b in plot(page).locator(".modebar-btn").all()]
    assert names == [
        "Zoom", "Pan", "Zoom in", "Zoom out", "Reset axes", "Save as PNG", "Save the figures as CSV", "Full screen",
    ]  # fmt: skip
    page.mouse.move(5, 5)
    button(page, "Reset axes").focus()
    page.keyboard.press("Tab")
    expect(button(page, "Save as PNG")).to_be_focused()
    until(page, "(plot) => getComputedStyle(plot.querySelector('.modebar-group')).opacity", "1")
    bar = plot(page).locator(".modebar").bounding_box()
    words = plot(page).locator(".gtitle").bounding_box()
    assert bar is not None
    assert words is not None
    assert words["x"] + words["width"] < bar["x"]


def test_a_chart_follows_the_width_of_its_page(opened: Opener) -> None:
    page = opened("planner")
    for width in (1500, 1000, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        fits = "(plot) => plot.querySelector('.main-svg').getBoundingClientRect().width === plot.clientWidth"
        until(page, fits)
        main = page.locator("[data-testid=stMain]")
        assert main.evaluate("(main) => main.scrollWidth - main.clientWidth") == 0


def test_a_chart_of_a_paused_page_is_laid_out_anew_in_another_width(opened: Opener) -> None:
    page = opened("?paused=yes")
    apart = """(plot) => {
      const box = (name) => plot.querySelector(name).getBoundingClientRect();
      return plot.querySelectorAll('.xtick').length > 1 && box('.xtitle').bottom <= box('.legend').top;
    }"""
    until(page, apart)
    for width in (1920, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        until(page, "(plot) => plot.querySelector('.main-svg').getBoundingClientRect().width === plot.clientWidth")
        until(page, apart)


@pytest.mark.parametrize("address", ["", "?paused=yes", "planner", "prices"])
def test_a_chart_follows_the_theme(opened: Opener, address: str) -> None:
    page = opened(address, color_scheme="dark")
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
        until(page, "(plot) => plot.layout.paper_bgcolor", palette(theme).surface)  # type: ignore[arg-type]


def test_a_chart_that_was_not_shown_is_drawn_once_it_is(opened: Opener) -> None:
    page = opened(script=HIDE, charts=False)
    page.wait_for_function("() => window.Plotly && document.querySelector('.parkdeck-plot')?.json")
    assert not plot(page).evaluate(DRAWN)
    page.evaluate("document.getElementById('hide').remove()")
    until(page, "(plot) => plot.querySelector('.main-svg')?.getBoundingClientRect().width === plot.clientWidth")


def test_without_the_chart_library_the_page_says_so_and_tries_again(opened: Opener) -> None:
    page = opened("planner", charts=False, script="")
    page.context.route("**/plotly.min.js", lambda route: route.abort())
    page.reload()
    missing = page.locator(".parkdeck-missing").first
    expect(missing).to_contain_text("No chart: the chart library did not load.")
    expect(missing).to_contain_text("2 average turns can stay paused")
    page.context.unroute("**/plotly.min.js")
    missing.get_by_role("button", name="Try again").click()
    until(page, DRAWN)
    expect(missing).to_be_hidden()
