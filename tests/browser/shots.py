"""Pictures of every page and state, in dark and light, 1280 and 1920 wide: python -m tests.browser.shots OUT [NAME ...]

Without names all of them; `tour` is the six steps over the real engine. For each picture it prints by how many pixels
the page scrolls sideways. Exit status 1 where one does, where the browser's console shows an error, or where a state
did not come.
"""

import signal
import sys
import tempfile
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, Error, Page, expect

from tests.browser.driver import App, browser, running_app
from tests.browser.shot_list import SHOTS, Shot
from tests.browser.shot_look import Console, picture, still
from tests.browser.tour_walk import start, walk

SIZES = ((1280, 800), (1920, 1080))
"""Windows; a whole page is as high as it needs."""
THEMES: tuple[Literal["dark", "light"], ...] = ("dark", "light")
TOUR = "tour"
NAMES = (*SHOTS, TOUR)
SOON_MS = 60_000
READY_MS = 200_000


class Camera:
    """Takes each state in all themes and sizes, and keeps what was wrong."""

    def __init__(self, launched: Browser, out: Path) -> None:
        self._launched = launched
        self._out = out
        self.wrong: list[str] = []

    def scripted(self, app: App, shot: Shot) -> None:
        """A state of the scripted engine."""
        page, console = self._opened()
        if shot.prepare:
            shot.prepare(page)
        parts = (f"scene={shot.scene}", f"take={shot.name}", shot.query)
        try:
            page.goto(f"{app.url}/{shot.address}?{'&'.join(filter(None, parts))}")
            for selector in shot.ready:
                page.wait_for_selector(selector)
            if shot.act:
                shot.act(page)
            self._takes(page, shot.name, whole=shot.whole, app=app if shot.silent else None)
        except (Error, AssertionError) as problem:
            page.screenshot(path=str(self._out / f"{shot.name}-broken.png"))
            self._tell(f"{shot.name}: {str(problem).splitlines()[0]}")
        page.context.close()
        for error in console.errors:
            if not any(known in error for known in shot.console):
                self._tell(f"{shot.name}: the console says: {error}")

    def tour(self, app: App) -> None:
        """The six steps over the real engine, and its end."""
        page, console = self._opened()
        page.goto(app.url)
        page.wait_for_selector(".parkdeck-plot .main-svg", timeout=READY_MS)
        page.wait_for_selector(".turns .foot", timeout=READY_MS)
        start(page)
        walk(page, lambda page, step, said: self._takes(page, f"{TOUR}-{step}"))
        self._takes(page, f"{TOUR}-over")
        page.context.close()
        for error in console.errors:
            self._tell(f"{TOUR}: the console says: {error}")

    def _opened(self) -> tuple[Page, Console]:
        width, height = SIZES[0]
        context = self._launched.new_context(viewport={"width": width, "height": height}, color_scheme=THEMES[0])
        context.set_default_timeout(SOON_MS)
        page = context.new_page()
        return page, Console(page)

    def _takes(self, page: Page, name: str, *, whole: bool = True, app: App | None = None) -> None:
        """`app`: is silent while its pictures are taken."""
        for theme in THEMES:
            page.emulate_media(color_scheme=theme)
            for width, height in SIZES:
                page.set_viewport_size({"width": width, "height": height})
                still(page, theme)
                path = self._out / f"{name}-{theme}-{width}.png"
                wider = silent(page, app, path) if app else picture(page, path, (width, height), whole)
                print(f"{path.name} sideways {wider} px", flush=True)
                if wider:
                    self._tell(f"{path.name} scrolls sideways by {wider} px")

    def _tell(self, text: str) -> None:
        self.wrong.append(text)
        print(f"WRONG {text}", flush=True)


def silent(page: Page, app: App, path: Path) -> int:
    """A picture of the page whose server does not answer."""
    size = page.viewport_size or {"width": SIZES[0][0], "height": SIZES[0][1]}
    fresh = page.locator(".top .fresh")
    app.process.send_signal(signal.SIGSTOP)
    try:
        expect(fresh).to_contain_text("no answer from Parkdeck", timeout=SOON_MS)
        return picture(page, path, (size["width"], size["height"]), whole=False)
    finally:
        app.process.send_signal(signal.SIGCONT)
        expect(fresh).to_contain_text("updated", timeout=SOON_MS)


def take(out: Path, names: list[str]) -> list[str]:
    """Writes the pictures of `names`; returns what was wrong, one sentence each."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as own, browser() as launched:
        camera = Camera(launched, out)
        folders = {"PARKDECK_DATA_DIR": own, "PARKDECK_CONFIG_DIR": own}
        scripted = [SHOTS[name] for name in names if name in SHOTS]
        if scripted:
            with running_app("tests/browser/fake_app.py", folders | {"PARKDECK_SCENE": "running"}) as app:
                for shot in scripted:
                    camera.scripted(app, shot)
        if TOUR in names:
            with running_app("app", folders) as app:
                camera.tour(app)
    return camera.wrong


def main(arguments: list[str]) -> int:
    if not arguments:
        sys.stderr.write(f"give a folder for the pictures, and names if not all: {', '.join(NAMES)}\n")
        return 2
    folder, *names = arguments
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        sys.stderr.write(f"{unknown[0]} is no picture's name; choose from {', '.join(NAMES)}\n")
        return 2
    wrong = take(Path(folder), names or list(NAMES))
    print(f"{len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
