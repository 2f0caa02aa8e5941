"""The turns table over the scripted engine with 500 turns, in a real browser. Tests wait on conditions."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from app.bench.chromium import FLAGS, chromium
from tests.browser.driver import App, running_app

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]
SOON_MS = 30_000


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    own = str(tmp_path_factory.mktemp("own"))
    env = {"PARKDECK_SCENE": "crowded", "PARKDECK_CONFIG_DIR": own, "PARKDECK_DATA_DIR": own}
    with running_app("tests/browser/fake_app.py", env) as started:
        yield started


@pytest.fixture
def page(app: App, chrome: Browser) -> Iterator[Page]:
    opened = open_page(app, chrome)
    yield opened
    opened.context.close()
    assert "Traceback" not in app.text()


def open_page(app: App, chrome: Browser) -> Page:
    context = chrome.new_context(viewport={"width": 1440, "height": 1900})
    context.set_default_timeout(SOON_MS)
    opened = context.new_page()
    opened.goto(app.url)
    opened.wait_for_selector(".turns tbody tr")
    return opened


def rows(page: Page) -> Locator:
    return page.locator(".turns tbody tr")


def row(page: Page, turn: int) -> Locator:
    return page.locator(f".turns tbody tr[data-turn='{turn}']")


def column(page: Page, name: str) -> list[str]:
    return page.locator(f".turns td.{name} .text").all_inner_texts()


def numbers(page: Page, name: str) -> list[float]:
    return [float(text.replace(",", "").replace("–", "0")) for text in column(page, name)]


def message(page: Page) -> Locator:
    return page.locator(".turns .message")


FRAME = """[...document.querySelectorAll('*')].map((e) => e.shadowRoot?.querySelector('.turns-frame')).find(Boolean)"""


def refreshed(page: Page) -> None:
    """A refresh has come since: each sets the palette's properties."""
    page.evaluate(f"() => {FRAME}.style.removeProperty('--pd-text')")
    page.wait_for_function(f"() => {FRAME}.style.getPropertyValue('--pd-text') !== ''")


def test_a_head_sorts_then_turns_round_then_gives_the_engines_order_back(page: Page) -> None:
    head = page.locator(".turns th.context")
    start = column(page, "agent")
    assert start[0] == "agent 12 · 1"
    head.locator("button").click()
    expect(head).to_have_attribute("aria-sort", "descending")
    falling = numbers(page, "context")
    assert falling == sorted(falling, reverse=True)
    refreshed(page)
    assert numbers(page, "context") == falling
    expect(head.locator(".arrow")).to_have_text("▼")
    head.locator("button").press("Enter")
    expect(head).to_have_attribute("aria-sort", "ascending")
    assert numbers(page, "context") == sorted(numbers(page, "context"))
    head.locator("button").press("Enter")
    expect(head).to_have_attribute("aria-sort", "none")
    assert column(page, "agent") == start
    page.locator(".turns th.agent button").click()
    agents = [int(re.findall(r"\d+", text)[0]) for text in column(page, "agent")]
    assert agents == sorted(agents), "agent 9 comes before agent 10"


def test_a_filter_is_anded_counted_kept_and_cleared(page: Page) -> None:
    more = page.locator(".turns .more")
    expect(more).to_contain_text("500 turns ·")
    expect(page.locator(".turns .further")).to_have_text("and 400 more: draw 100")
    expect(rows(page)).to_have_count(100)
    page.locator(".turns .further").click()
    expect(rows(page)).to_have_count(200)
    field = page.locator(".turns .filter")
    field.press_sequentially("pytest host")
    expect(more).to_contain_text("164 of 500 turns match")
    assert all("pytest" in text for text in column(page, "phase"))
    page.locator(".chip[data-name='blocked']").click()
    page.locator(".chip[data-name='resident']").click()
    expect(more).to_contain_text("0 of 500 turns match")
    expect(page.locator(".turns .empty")).to_contain_text("No turn matches the filter.")
    refreshed(page)
    page.reload()
    page.wait_for_selector(".turns .bar")
    expect(field).to_have_value("pytest host")
    expect(more).to_contain_text("0 of 500 turns match")
    page.locator(".turns .empty button").click()
    expect(more).to_contain_text("500 turns ·")
    expect(field).to_have_value("")
    expect(page.locator(".chip[data-name='host'] .count")).to_have_text("245")


def test_a_pause_and_a_swap_can_be_undone(page: Page) -> None:
    row(page, 4).locator("button.pause").click()
    expect(message(page)).to_have_text("turn 4: pause done")
    expect(row(page, 4).locator("button.resume")).to_be_visible()
    page.locator(".turns .undo").click()
    expect(message(page)).to_have_text("turn 4: resume done")
    expect(row(page, 4).locator("button.pause")).to_be_visible()
    row(page, 5).locator("button.swap_out").click()
    expect(row(page, 5).locator("td.tier")).to_have_text("host")
    # Until then the undo is that of turn 4.
    expect(message(page)).to_contain_text("turn 5")
    page.locator(".turns .undo").click()
    expect(row(page, 5).locator("td.tier")).to_have_text("resident")


def test_what_cannot_be_undone_asks_once(page: Page) -> None:
    drop = row(page, 6).locator("button.drop")
    drop.click()
    expect(drop).to_have_text("drop?")
    expect(message(page)).to_contain_text("again within 3 s")
    expect(drop).to_have_text("drop", timeout=10_000)
    assert "done" not in message(page).inner_text()
    drop.click()
    page.keyboard.press("Escape")
    expect(drop).to_have_text("drop")
    drop.dblclick()
    expect(message(page)).to_have_text("turn 6: drop done")
    expect(page.locator(".turns .undo")).to_be_hidden()


def from_the_tables_top(page: Page, cell: Locator) -> float:
    """What stands above the table may still come to its height."""
    table, box = page.locator(".turns table").bounding_box(), cell.bounding_box()
    assert table is not None
    assert box is not None
    return box["y"] - table["y"]


def test_a_row_stays_under_the_pointer_when_one_above_ends(page: Page, app: App, chrome: Browser) -> None:
    under = row(page, 20).locator("td.context")
    under.hover()
    before = from_the_tables_top(page, under)
    other = open_page(app, chrome)
    cancel = row(other, 15).locator("button.cancel")
    cancel.dblclick()
    expect(row(other, 15)).to_have_class("gone")
    other.context.close()
    expect(row(page, 15)).to_have_class("gone")
    expect(row(page, 15).locator("td.phase")).to_have_text("ended")
    assert from_the_tables_top(page, under) == before
    page.mouse.move(5, 5)
    expect(row(page, 15)).to_have_count(0)


def test_a_turn_opens_and_closes_by_click_and_by_keyboard(page: Page) -> None:
    pane = page.locator(".detail")
    expect(pane).to_be_hidden()
    row(page, 11).locator("td.context").click()
    expect(pane.locator("h4")).to_have_text("agent 7 · turn 11")
    expect(pane.locator(".facts")).to_contain_text("blocked: pytest, since")
    expect(pane.locator(".costs")).to_contain_text("2 times")
    expect(pane.locator(".spans li")).to_have_count(9)
    expect(pane.locator(".text")).to_contain_text("<b>test_parse</b>")
    expect(pane.locator(".text")).to_contain_text("The parser reads one line too far")
    page.keyboard.press("Escape")
    expect(pane).to_be_hidden()
    name = row(page, 3).locator(".name")
    name.press("Enter")
    expect(pane.locator("h4")).to_have_text("agent 3 · turn 3")
    expect(name).to_have_attribute("aria-expanded", "true")
    refreshed(page)
    expect(pane).to_be_focused()
    name.press("Enter")
    expect(pane).to_be_hidden()
    expect(name).to_be_focused()


@pytest.mark.parametrize("motion", ["reduce", "no-preference"])
def test_an_opened_turn_comes_into_sight_with_the_focus_and_gives_it_back(page: Page, motion: Any) -> None:
    page.emulate_media(reduced_motion=motion)
    page.set_viewport_size({"width": 1280, "height": 760})
    name, pane = row(page, 5).locator(".name"), page.locator(".detail")
    name.scroll_into_view_if_needed()
    name.press("Enter")
    expect(pane.locator(".facts")).to_contain_text("decode")
    expect(pane).to_be_in_viewport(ratio=0.95)
    expect(pane).to_be_focused()
    refreshed(page)
    expect(pane).to_be_focused()
    page.keyboard.press("Escape")
    expect(pane).to_be_hidden()
    expect(name).to_be_focused()
    expect(name).to_be_in_viewport()
    row(page, 5).locator("td.context").click()
    expect(pane).to_be_focused()
    pane.locator(".close").click()
    expect(name).to_be_focused()


@pytest.fixture(scope="module")
def barred(app: App, chrome: Browser) -> Iterator[Page]:
    """With the scroll bars that users have and Playwright hides: they take room."""
    launched = chrome.browser_type.launch(
        executable_path=chromium(), args=list(FLAGS), ignore_default_args=["--hide-scrollbars"]
    )
    yield open_page(app, launched)
    launched.close()


@pytest.mark.parametrize("width", [1280, 1440, 1600, 1920])
def test_every_column_is_there_at_every_width_without_sideways_scrolling(barred: Page, width: int) -> None:
    page = barred
    page.set_viewport_size({"width": width, "height": 1000})
    for name in ("priority", "actions"):
        expect(page.get_by_role("columnheader", name=name, exact=True)).to_have_count(1)
    for name in ("preempted", "swaps", "recomputed"):
        expect(page.locator(f".turns th.{name} button")).to_be_visible()
        expect(row(page, 9).locator(f"td.{name}")).to_be_visible()
    wider = "(element) => element.scrollWidth - element.clientWidth"
    bar = "(element) => element.offsetWidth - element.clientWidth"
    page.wait_for_function(f"() => ({bar})({FRAME}.querySelector('.scroll')) > 0")
    page.wait_for_function(f"() => ({wider})({FRAME}.querySelector('.scroll')) === 0")
    tour = page.get_by_role("button", name="Tour", exact=True).bounding_box()
    long = page.get_by_role("button", name="Long background turn now").bounding_box()
    assert tour is not None
    assert long is not None
    assert abs(tour["y"] - long["y"]) < 5, "one row of controls"
    expect(row(page, 17).locator("td.phase")).to_have_attribute("title", "blocked: pytest")
    expect(row(page, 17).locator(".name")).to_have_attribute("title", "agent 17 · 17: open it")


def test_a_turn_that_ends_while_it_is_open_stays_with_how(page: Page) -> None:
    row(page, 8).locator("td.context").click()
    expect(page.locator(".detail .facts")).to_be_visible()
    cancel = row(page, 8).locator("button.cancel")
    cancel.dblclick()
    expect(page.locator(".detail .state")).to_have_text("agent 8 cancelled while prefill")
    page.mouse.move(5, 5)
    expect(row(page, 8)).to_have_count(0)
    expect(page.locator(".detail .text")).to_contain_text("The parser")
    page.locator(".detail .close").click()
    expect(page.locator(".detail")).to_be_hidden()


def test_letters_in_the_filter_are_no_keys_of_the_page(page: Page) -> None:
    field = page.locator(".turns .filter")
    field.press_sequentially("rc")
    expect(field).to_have_value("rc")
    refreshed(page)
    expect(page.get_by_role("dialog")).to_have_count(0)
    field.press("Escape")
    expect(field).to_have_value("")
