"""What a user does to bring a page into a state that is worth a picture."""

import re

from playwright.sync_api import Page, expect

from tests.browser.driver import choose

GRID_MS = 150_000


def pause(page: Page) -> None:
    page.keyboard.press("p")
    expect(page.locator(".top .fresh")).to_contain_text("paused")


def keys(page: Page) -> None:
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()


def draft(page: Page) -> None:
    """A lower low watermark, not applied."""
    _preview_first(page)
    _move(page, "Low watermark", "ArrowLeft", 30)
    expect(page.get_by_text("engine: 90 %")).to_be_visible()
    expect(page.get_by_text("Now, on this machine")).to_be_visible()


def refused_draft(page: Page) -> None:
    """A low watermark above the high one."""
    _preview_first(page)
    _move(page, "Low watermark", "End", 1)
    expect(page.locator("[data-testid=stSidebar] [data-testid=stAlert]")).to_be_visible()


def refused_knob(page: Page) -> None:
    _move(page, "Low watermark", "End", 1)
    expect(page.get_by_text("the low one must not be higher")).to_be_visible()


def choose_policy(page: Page) -> None:
    """One with a knob of its own."""
    page.get_by_role("combobox", name="Tier policy").locator("xpath=following-sibling::button").click()
    page.get_by_role("option", name="swap-on-block").click()
    expect(page.get_by_role("spinbutton", name="Margin, x")).to_be_visible()


def undo(page: Page) -> None:
    page.locator(".effect .undo").click()
    expect(page.locator(".effect .told")).to_contain_text("Undone")


def open_turn(page: Page) -> None:
    page.locator(".turns tbody .name").first.click()
    expect(page.locator(".detail .spans")).to_be_visible()


def full_screen(page: Page) -> None:
    page.keyboard.press("f")
    expect(page.locator(".parkdeck-chart.full")).to_be_visible()


def hover_chart(page: Page) -> None:
    """Over the chart's middle: its figures there, and its buttons."""
    plot = page.locator(".parkdeck-plot")
    plot.scroll_into_view_if_needed()
    plot.hover()
    expect(plot.locator(".hoverlayer .legend, .hoverlayer .hovertext").first).to_be_attached()


def no_chart_library(page: Page) -> None:
    page.context.route("**/plotly.min.js", lambda route: route.abort())


def edit_card(page: Page) -> None:
    """Less memory, in this tab alone."""
    _figure(page, "Usable memory", "12")
    page.get_by_role("button", name="Use without saving").click()
    expect(page.get_by_text("edited, not saved")).to_be_visible()


def bad_figure(page: Page) -> None:
    _figure(page, "Usable memory", "-1")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("Nothing was saved")).to_be_visible()


def bad_field(page: Page) -> None:
    _number(page, "Mean context", "0")


def bad_context(page: Page) -> None:
    _number(page, "Context of the turn", "0")


def run_grid(page: Page) -> None:
    """The default grid, done, with a cell chosen."""
    page.get_by_role("button", name="Run grid").click()
    expect(page.get_by_text(re.compile(r"8 cells in"))).to_be_visible(timeout=GRID_MS)
    choose(page, "Cell", "KV precision fp16, Slots 8")
    expect(page.get_by_role("button", name="Apply to the engine")).to_be_visible()
    expect(page.locator(".parkdeck-plot .main-svg").nth(8)).to_be_attached()


def compare_policies(page: Page) -> None:
    """All of them on the twin, done."""
    page.get_by_role("button", name="Compare policies").click()
    expect(page.get_by_text("of computing")).to_be_visible(timeout=GRID_MS)


def apply_policy(page: Page) -> None:
    """The second one, in force."""
    compare_policies(page)
    page.get_by_role("button", name="Apply").nth(1).click()
    expect(page.get_by_text("is in force.")).to_be_visible()


def bad_axis(page: Page) -> None:
    field = page.get_by_role("textbox", name="Slots: values")
    field.fill("4, many")
    field.press("Enter")
    expect(page.get_by_text("is not a number")).to_be_visible()


def _number(page: Page, label: str, text: str) -> None:
    field = page.get_by_role("spinbutton", name=f"{label}: number")
    field.fill(text)
    field.press("Enter")
    expect(page.get_by_text("give a whole number from").first).to_be_visible()


def _figure(page: Page, label: str, text: str) -> None:
    """Into the open editor of the card."""
    page.get_by_role("button", name="Edit card").click()
    field = page.get_by_role("textbox", name=f"{label}: value")
    field.fill(text)
    field.press("Enter")


def _preview_first(page: Page) -> None:
    name = "preview first"
    page.get_by_role("radio", name=name).or_(page.get_by_role("button", name=name)).first.click()
    expect(page.get_by_text("apply at once")).to_be_visible()


def _move(page: Page, label: str, key: str, times: int) -> None:
    page.get_by_role("slider", name=label).focus()
    for _ in range(times):
        page.keyboard.press(key)
