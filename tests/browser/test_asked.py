"""What a user asks of an element takes effect, and once, over a wire that loses and a server that stands still."""

import re
import signal
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page, WebSocketRoute, expect

from tests.browser.driver import App, running_app
from tests.browser.test_looking import chosen, open_page

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]
MARK = b'"asked"'
TWO_KEYS = "() => ['e', 'u'].forEach((key) => document.dispatchEvent(new KeyboardEvent('keydown', { key })))"


@pytest.fixture(scope="module")
def app() -> Iterator[App]:
    with running_app("tests/browser/fake_app.py", {"PARKDECK_SCENE": "ticking"}) as started:
        yield started
        assert "Traceback" not in started.text()


class Wire:
    """Between a page and its server. `sent`: messages of the page, `told`: those that ask; which of these are lost, and
    after which of them answers wait."""

    def __init__(self, lost: tuple[int, ...] = (), waits: tuple[int, ...] = ()) -> None:
        self.lost, self.waits = lost, waits
        self.sent = self.told = 0
        self.held: list[str | bytes] = []

    def connect(self, page: WebSocketRoute) -> None:
        server = page.connect_to_server()

        def ask(message: str | bytes) -> None:
            self.sent += 1
            if MARK in (message if isinstance(message, bytes) else message.encode()):
                self.told += 1
                if self.told in self.lost:
                    return
            server.send(message)
            answer(None)

        def answer(message: str | bytes | None) -> None:
            self.held += [message] if message is not None else []
            while self.held and self.told not in self.waits:
                page.send(self.held.pop(0))

        page.on_message(ask)
        server.on_message(answer)


def until(page: Page, so: Callable[[], bool]) -> None:
    for _ in range(300):
        if so():
            return
        page.wait_for_timeout(100)
    raise AssertionError("what was waited for has not come")


def open_over(chrome: Browser, wire: Wire, url: str) -> Page:
    page = chrome.new_context(viewport={"width": 1440, "height": 1300}).new_page()
    page.route_web_socket("**/_stcore/stream", wire.connect)
    page.goto(url)
    page.wait_for_selector(".parkdeck-plot .main-svg", timeout=120_000)
    page.wait_for_selector(".top .badge")
    return page


def both_took_effect(page: Page) -> None:
    expect(page).to_have_url(re.compile("events=all"))
    expect(page).to_have_url(re.compile("units=machine"))


def test_two_keys_in_one_go_both_take_effect(app: App, chrome: Browser) -> None:
    page = open_page(chrome, app.url)
    page.evaluate(TWO_KEYS)
    both_took_effect(page)
    page.context.close()


def test_keys_while_the_server_stands_still_take_effect(chrome: Browser) -> None:
    with running_app("tests/browser/fake_app.py", {"PARKDECK_SCENE": "ticking"}) as app:
        wire = Wire()
        page = open_over(chrome, wire, app.url)
        app.process.send_signal(signal.SIGSTOP)
        page.keyboard.press("e")
        page.keyboard.press("u")
        page.keyboard.press("2")
        until(page, lambda: wire.told >= 5)
        app.process.send_signal(signal.SIGCONT)
        both_took_effect(page)
        page.context.close()


def test_what_was_lost_on_the_way_is_asked_again(app: App, chrome: Browser) -> None:
    wire = Wire(lost=(1, 2, 3, 4))
    page = open_over(chrome, wire, app.url)
    page.keyboard.press("e")
    page.keyboard.press("u")
    until(page, lambda: wire.told >= 3)
    assert [chosen(page, group) for group in ("events", "units")] == ["all", "machine"], "no answer takes it back"
    both_took_effect(page)
    told, sent = wire.told, wire.sent
    assert told >= 5
    until(page, lambda: wire.sent >= sent + 6)
    assert wire.told == told, "what is answered is asked no more"
    page.context.close()


UNDONE = re.compile("^Undone: Low watermark is .* again.$")
"""An undo that is done twice says that the knob was set since."""


def stays_undone(page: Page, wire: Wire) -> None:
    expect(page.locator(".effect .told")).to_have_text(UNDONE)
    sent = wire.sent
    until(page, lambda: wire.sent >= sent + 4)
    expect(page.locator(".effect .told")).to_have_text(UNDONE)


def test_what_is_asked_again_is_done_once(app: App, chrome: Browser) -> None:
    wire = Wire(waits=(1, 2))
    page = open_over(chrome, wire, f"{app.url}/?scene=noise&take=once")
    page.locator(".effect .undo").click()
    stays_undone(page, wire)
    assert wire.told >= 3
    page.context.close()


def test_impatience_is_no_second_request(app: App, chrome: Browser) -> None:
    wire = Wire(waits=(1,))
    page = open_over(chrome, wire, f"{app.url}/?scene=noise&take=twice")
    page.locator(".effect .undo").click()
    until(page, lambda: wire.told == 1)
    page.locator(".effect .undo").click()
    stays_undone(page, wire)
    page.context.close()


def test_nothing_is_asked_again_right_behind_a_step_to_another_page(app: App, chrome: Browser) -> None:
    """It would take the server back to the page that is left."""
    wire = Wire(lost=(1,))
    page = open_over(chrome, wire, app.url)
    page.evaluate("""() => { const link = document.body.appendChild(document.createElement('a'));
        link.href = '/elsewhere'; link.onclick = (event) => { event.preventDefault(); window.stepped = true; }; }""")
    page.keyboard.press("e")
    page.evaluate("document.querySelector('body > a').click()")
    page.wait_for_function("window.stepped")
    told = wire.told
    page.wait_for_timeout(3000)
    assert wire.told == told
    expect(page).to_have_url(re.compile("events=all"))
    page.context.close()
