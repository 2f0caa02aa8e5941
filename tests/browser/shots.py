"""Pictures of every state of the Live page, and of the others: python -m tests.browser.shots OUT [SCENE or PAGE ...]"""

import sys
from pathlib import Path

from playwright.sync_api import Browser, Page

from tests.browser.driver import browser, running_app
from tests.browser.scenes import SCENES

CHARTLESS = frozenset({"starting", "offline"})
PAGES = {"planner": ".figures-frame", "prices": ".figures-frame"}
"""Address of a page that needs no engine -> what is there once it is drawn."""
SIZES = ((1280, 1240), (1920, 1080))


def shoot(page: Page, url: str, path: Path, chart: bool = True) -> int:
    """One picture; returns by how many pixels the page is wider than the window."""
    page.goto(url)
    page.wait_for_selector("text=Parkdeck", timeout=60_000)
    page.wait_for_selector("text=Measured on this machine", timeout=60_000)
    if chart:
        page.wait_for_selector(".parkdeck-plot .main-svg", timeout=120_000)
        page.wait_for_selector(".tile .value", timeout=60_000)
        page.wait_for_selector(".turns .foot", timeout=60_000)
    page.wait_for_timeout(1500)
    page.screenshot(path=str(path))
    return int(page.evaluate("document.documentElement.scrollWidth - window.innerWidth"))


def scene(launched: Browser, name: str, out: Path) -> None:
    with running_app("tests/browser/fake_app.py", {"PARKDECK_SCENE": name}) as app:
        for theme in ("dark", "light"):
            for width, height in SIZES:
                context = launched.new_context(viewport={"width": width, "height": height}, color_scheme=theme)
                path = out / f"{name}-{theme}-{width}.png"
                wider = shoot(context.new_page(), app.url, path, name not in CHARTLESS)
                print(f"{path} sideways {max(0, wider)} px")
                context.close()


def paper_page(launched: Browser, name: str, out: Path) -> None:
    """The whole page, however long."""
    with running_app("tests/browser/fake_app.py", {"PARKDECK_SCENE": "moving"}) as app:
        for theme in ("dark", "light"):
            for width, height in SIZES:
                context = launched.new_context(viewport={"width": width, "height": height}, color_scheme=theme)
                page = context.new_page()
                page.goto(f"{app.url}/{name}")
                page.wait_for_selector(PAGES[name], timeout=60_000)
                page.wait_for_selector(".parkdeck-plot .main-svg", timeout=120_000)
                tall = page.evaluate("document.querySelector('[data-testid=stMain]').scrollHeight")
                page.set_viewport_size({"width": width, "height": int(tall)})
                page.wait_for_timeout(1500)
                path = out / f"{name}-{theme}-{width}.png"
                page.screenshot(path=str(path))
                wider = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
                print(f"{path} sideways {max(0, int(wider))} px")
                context.close()


def main() -> None:
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    with browser() as launched:
        for name in sys.argv[2:] or [*SCENES, *PAGES]:
            (paper_page if name in PAGES else scene)(launched, name, out)


if __name__ == "__main__":
    main()
