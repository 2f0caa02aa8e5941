"""Pictures of every state of the page: python -m tests.browser.shots OUT [SCENE ...]"""

import sys
from pathlib import Path

from playwright.sync_api import Browser, Page

from tests.browser.driver import browser, running_app
from tests.browser.scenes import SCENES

CHARTLESS = frozenset({"starting", "offline"})
SIZES = ((1280, 1240), (1920, 1080))


def shoot(page: Page, url: str, path: Path, chart: bool = True) -> int:
    """One picture; returns by how many pixels the page is wider than the window."""
    page.goto(url)
    page.wait_for_selector("text=Parkdeck", timeout=60_000)
    page.wait_for_selector("text=Measured on this machine", timeout=60_000)
    if chart:
        page.wait_for_selector(".parkdeck-plot .main-svg", timeout=120_000)
        page.wait_for_selector(".card .value", timeout=60_000)
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


def main() -> None:
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    with browser() as launched:
        for name in sys.argv[2:] or SCENES:
            scene(launched, name, out)


if __name__ == "__main__":
    main()
