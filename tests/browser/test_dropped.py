"""A connection that breaks takes nothing with it: the run goes on and a reload shows all of it, over the real model."""

import base64
import json
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, WebSocketRoute, expect

from tests.browser.driver import App, running_app

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
SOON_MS = 180_000
DROPPED_MS = 10_000
SLOTS = "5"
X = "(() => document.querySelector('.parkdeck-plot')?.data?.[0]?.x ?? null)()"


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    data = tmp_path_factory.mktemp("data")
    with running_app("app", {"PARKDECK_DATA_DIR": str(data), "PARKDECK_AGENTS": "6"}) as started:
        yield started


@dataclass
class Wire:
    """What lies between page and server: open, or cut, and then no new connection comes through either."""

    cut: bool = False
    open: list[WebSocketRoute] = field(default_factory=list)

    def connect(self, socket: WebSocketRoute) -> None:
        if self.cut:
            socket.close()
        else:
            socket.connect_to_server()
            self.open.append(socket)

    def drop(self) -> None:
        self.cut = True
        for socket in self.open:
            socket.close()
        self.open.clear()


def test_a_connection_dropped_for_ten_seconds_loses_nothing(app: App, chrome: Browser) -> None:
    page = chrome.new_context(viewport={"width": 1440, "height": 1300}).new_page()
    page.set_default_timeout(SOON_MS)
    wire = Wire()
    page.route_web_socket("**/_stcore/stream", wire.connect)
    page.goto(app.url)
    page.wait_for_selector(".parkdeck-plot .main-svg")
    field = page.get_by_role("spinbutton", name="Slots").first
    field.fill(SLOTS)
    field.press("Enter")
    expect(page.locator(".events")).to_contain_text("Slots", timeout=SOON_MS)
    first = instants(page)[0]
    dropped = health(app)

    wire.drop()
    page.wait_for_timeout(DROPPED_MS)
    after = health(app, beyond=dropped["generated_tokens"])
    assert after["state"] in ("running", "idle"), "idle: every agent may be at a tool just now"
    assert after["generated_tokens"] > dropped["generated_tokens"]
    wire.cut = False
    page.reload()
    page.wait_for_selector(".parkdeck-plot .main-svg")
    page.wait_for_function(f"{X} !== null")

    shown = instants(page)
    assert shown[0] <= first, "the timeline still begins where it began"
    span = after["at_s"] - dropped["at_s"]
    assert shown[-1] - first >= span, "and goes on through the time without a connection"
    assert max(np.diff(shown)) < span / 2
    expect(page.get_by_role("spinbutton", name="Slots").first).to_have_value(SLOTS, timeout=SOON_MS)
    expect(page.locator(".events")).to_contain_text("Slots", timeout=SOON_MS)


def instants(page: Page) -> Any:
    """Of the chart's points, epoch seconds."""
    packed = page.evaluate(X)
    if isinstance(packed, dict) and "bdata" in packed:
        return np.frombuffer(base64.b64decode(packed["bdata"]), dtype=packed["dtype"]) / 1000
    values = list(packed.values()) if isinstance(packed, dict) else packed
    return np.asarray(values, dtype=np.float64) / 1000


def health(app: App, *, beyond: int = 0) -> dict[str, Any]:
    """As soon as more tokens than `beyond` were generated, or what it is after a minute."""
    deadline = time.monotonic() + 60
    while True:
        with urllib.request.urlopen(f"{app.url}/healthz", timeout=30) as answer:
            found: dict[str, Any] = json.load(answer)
        if found["generated_tokens"] > beyond or time.monotonic() > deadline:
            return found
        time.sleep(0.1)
