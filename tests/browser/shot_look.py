"""When a page stands still, how wide it is, and what its console says."""

import contextlib
from pathlib import Path
from typing import Literal

from playwright.sync_api import ConsoleMessage, Error, Page, TimeoutError

from panels.palette import palette

DRAWN = """(surface) => {
  const all = [...document.querySelectorAll('*')];
  const inside = all.flatMap((e) => (e.shadowRoot ? [...e.shadowRoot.querySelectorAll('[style]')] : []));
  const grounds = inside.map((e) => e.style.getPropertyValue('--pd-surface')).filter(Boolean);
  const plots = [...document.querySelectorAll('.parkdeck-plot')].filter((plot) => !plot.hidden && plot.clientWidth);
  return grounds.every((ground) => ground === surface)
    && plots.every((plot) => plot.layout?.paper_bgcolor === surface
      && plot.querySelector('.main-svg')?.getBoundingClientRect().width === plot.clientWidth)
    && !document.querySelector('[data-stale=true]');
}"""
FRESH = "() => !document.querySelector('[data-stale=true]')"
WIDER = """() => Math.max(...['html', '[data-testid=stMain]', '[data-testid=stSidebarContent]']
  .map((name) => document.querySelector(name)).filter(Boolean).map((e) => e.scrollWidth - e.clientWidth))"""
TALL = """() => Math.max(...['[data-testid=stMain]', '[data-testid=stSidebarContent]']
  .map((name) => document.querySelector(name)?.scrollHeight ?? 0))"""
LOOKS = 8
BETWEEN_MS = 150
STALE_MS = 10_000
"""How long a picture waits for a run of the page to end; that of a server that does not answer never does."""


class Console:
    """Collects the errors of a page's console, and what its scripts throw."""

    def __init__(self, page: Page) -> None:
        self.errors: list[str] = []
        page.on("console", self._said)
        page.on("pageerror", self._thrown)

    def _said(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.errors.append(f"{message.text} ({message.location.get('url', '')})")

    def _thrown(self, error: Error) -> None:
        self.errors.append(error.message)


def still(page: Page, theme: Literal["dark", "light"]) -> None:
    """Until all is drawn in the colours of `theme` and in the width of the window."""
    page.wait_for_function(DRAWN, arg=palette(theme).surface)


def picture(page: Page, path: Path, size: tuple[int, int], whole: bool) -> int:
    """Writes a picture of the window, or of the `whole` page, once two looks are the same or it has moved for a while;
    returns by how many pixels the page scrolls sideways."""
    width, height = size
    for _ in range(2 if whole else 0):
        page.set_viewport_size({"width": width, "height": max(height, int(page.evaluate(TALL)))})
    before = b""
    for _ in range(LOOKS):
        page.wait_for_timeout(BETWEEN_MS)
        with contextlib.suppress(TimeoutError):
            page.wait_for_function(FRESH, timeout=STALE_MS)
        now = page.screenshot(animations="disabled")
        if now == before:
            break
        before = now
    path.write_bytes(before)
    wider = max(0, int(page.evaluate(WIDER)))
    if whole:
        page.set_viewport_size({"width": width, "height": height})
    return wider
