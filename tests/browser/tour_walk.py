"""Walking the tour in a browser, step by step: for its test and for pictures."""

from collections.abc import Callable

from playwright.sync_api import Locator, Page, expect

STEPS = 6
STEP_MS = 240_000
SOON_MS = 60_000

Seen = Callable[[Page, int, str], None]


def band(page: Page) -> Locator:
    return page.locator(".tour")


def start(page: Page) -> None:
    """By the button in the swarm's row."""
    page.get_by_role("button", name="Tour", exact=True).click()
    expect(band(page).locator(".where")).to_have_text(f"Tour · step 1 of {STEPS}", timeout=SOON_MS)


def do(page: Page, step: int) -> str:
    """The step of this number, from 1, done and seen; what it said."""
    expect(band(page).locator(".where")).to_have_text(f"Tour · step {step} of {STEPS}", timeout=SOON_MS)
    button = band(page).locator(".do")
    expect(button).to_have_attribute("aria-disabled", "false", timeout=SOON_MS)
    button.click()
    said = band(page).locator(".said")
    expect(said).to_have_class("said seen", timeout=STEP_MS)
    return said.inner_text()


def next_step(page: Page) -> None:
    """On to the next step; after the last one to the end."""
    band(page).locator(".next").click()


def walk(page: Page, seen: Seen) -> None:
    """All six steps of a tour that has been started; `seen` is called after each with its number and what it said,
    while the page still shows it. The tour is over and says so when this returns."""
    for step in range(1, STEPS + 1):
        said = do(page, step)
        seen(page, step, said)
        next_step(page)
    expect(band(page).locator("h4")).to_have_text("The tour is over", timeout=STEP_MS)
