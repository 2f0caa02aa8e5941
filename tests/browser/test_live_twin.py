"""The twin on the real page of the real app: one click there, changed live, its files, one click back.

pytest tests/browser/test_live_twin.py
"""

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.driver import App, running_app
from tests.browser.test_live import READY_S, SOON_MS, chart, events, figure, open_page, wait_until

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
CEILING = "plot.layout.annotations.find((a) => a.text.startsWith('ceiling'))?.text"
TITLE = "plot.layout.title?.text ?? ''"


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    data = tmp_path_factory.mktemp("data")
    with running_app("app", {"PARKDECK_DATA_DIR": str(data), "PARKDECK_AGENTS": "12"}) as started:
        yield started


@pytest.fixture(scope="module")
def page(app: App, chrome: Browser) -> Iterator[Page]:
    opened = open_page(app, chrome)
    opened.wait_for_selector(".parkdeck-plot .main-svg", timeout=READY_S * 1000)
    yield opened
    opened.close()


def badge(page: Page) -> bool:
    return page.locator(".top .badge.modelled").is_visible()


def rows(page: Page, name: str) -> tuple[str, list[dict[str, str]]]:
    """The file's name and what is in it."""
    link = page.get_by_role("link", name=f"{name}.csv")
    if not link.is_visible():
        page.get_by_text("Download this session").click()
    with page.expect_download() as waiting:
        link.click()
    text = Path(waiting.value.path()).read_text(encoding="utf-8-sig")
    return waiting.value.suggested_filename, list(csv.DictReader(io.StringIO(text, newline="")))


def generated(page: Page) -> int:
    step = re.search(r"step ([\d,]+)", page.locator(".top .line").inner_text())
    return int(step.group(1).replace(",", "")) if step else 0


def test_a_real_engine_is_no_twin(page: Page) -> None:
    wait_until(page, lambda: "n/a" not in figure(page, "decode"), "a decode rate")
    assert not badge(page)
    assert page.title() == "Parkdeck"


def test_one_click_starts_the_twin_and_modelled_is_said(page: Page) -> None:
    page.get_by_role("button", name="Twin: RX 9070 XT").click()
    expect(page.get_by_text("starts in its place")).to_be_visible(timeout=SOON_MS)
    expect(page.locator(".top .badge.modelled")).to_be_visible(timeout=SOON_MS)
    expect(page.locator(".top .line")).to_contain_text("on the twin of RX 9070 XT", timeout=SOON_MS)
    wait_until(page, lambda: page.title() == "Parkdeck, modelled", "the title of the tab")
    wait_until(page, lambda: "Modelled, nothing measured" in str(chart(page, TITLE)), "the chart's own words")
    assert "15.5 GiB" in str(chart(page, CEILING))
    assert page.locator(".choice[data-name=units]").is_hidden()
    newest = "Array.from(plot._fullData.find((t) => t.name === 'running KV').y).at(-1)"
    wait_until(page, lambda: float(str(chart(page, newest))) > 0.01, "KV of running turns")


def test_the_precision_is_switched_as_on_a_real_engine(page: Page) -> None:
    page.get_by_role("radio", name="q8").or_(page.get_by_role("button", name="q8")).first.click()
    wait_until(page, lambda: "KV precision" in events(page), "the event of the switch")


def test_a_figure_of_the_card_is_changed_marked_and_reset(page: Page) -> None:
    page.get_by_text("Card: RX 9070 XT, modelled").click()
    page.get_by_role("slider", name="Copy to host").focus()
    page.keyboard.press("ArrowLeft")
    wait_until(page, lambda: "Copy to host 50 → 45 GB/s" in events(page), "the event of the link")
    expect(page.get_by_text("changed, card: 50 GB/s")).to_be_visible(timeout=SOON_MS)
    page.get_by_role("button", name="Reset to the card").click()
    wait_until(page, lambda: "Copy to host 45 → 50 GB/s" in events(page), "the event of the reset")
    expect(page.get_by_text("changed, card: 50 GB/s")).to_have_count(0, timeout=SOON_MS)


def test_the_pace_is_chosen_live(page: Page) -> None:
    page.get_by_role("radio", name="10x", exact=True).or_(page.get_by_role("button", name="10x", exact=True)).click()
    expect(page.get_by_text("Modelled time: 10x real time")).to_be_visible(timeout=SOON_MS)
    wait_until(page, lambda: "Pace 1x → 10x" in events(page), "the event of the pace")
    before = generated(page)
    wait_until(page, lambda: generated(page) > before + 300, "steps at the faster pace")


@pytest.mark.parametrize("name", ["timeline", "samples", "events"])
def test_each_file_says_modelled_in_its_name_and_in_its_rows(page: Page, name: str) -> None:
    called, found = rows(page, name)
    assert called.endswith(f"-modelled-{name}.csv")
    assert found
    assert {row["figures"] for row in found} == {"modelled"}


def test_one_click_brings_the_real_engine_back(page: Page) -> None:
    page.get_by_role("button", name="Back to the real engine").click()
    expect(page.get_by_text("starts again")).to_be_visible(timeout=SOON_MS)
    expect(page.locator(".top .badge.modelled")).to_be_hidden(timeout=SOON_MS)
    expect(page.locator(".top .line")).to_contain_text("on torch", timeout=READY_S * 1000)
    wait_until(page, lambda: page.title() == "Parkdeck", "the title of the tab")
    expect(page.get_by_role("button", name="Twin: RX 9070 XT")).to_be_visible(timeout=SOON_MS)
    wait_until(page, lambda: "n/a" not in figure(page, "decode"), "a decode rate", READY_S)
    called, found = rows(page, "samples")
    assert "modelled" not in called
    assert {row["figures"] for row in found} == {"measured"}
    assert {row["kv_precision"] for row in found} == {"fp16"}
