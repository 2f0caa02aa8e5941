"""How a tab looks at the Live page, over the scripted engine whose clock goes on: refresh, address, keys."""

import re
import signal
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

from tests.browser.driver import App, free_port, running_app

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def app() -> Iterator[App]:
    with running_app("tests/browser/fake_app.py", {"PARKDECK_SCENE": "ticking"}) as started:
        yield started


@pytest.fixture
def page(app: App, chrome: Browser) -> Iterator[Page]:
    opened = open_page(chrome, app.url)
    yield opened
    opened.context.close()


def new_page(chrome: Browser) -> Page:
    """An empty one that counts what it sends."""
    page = chrome.new_context(viewport={"width": 1440, "height": 1000}).new_page()
    page.on("websocket", lambda socket: socket.on("framesent", lambda _: page.asked.append(1)))  # type: ignore[attr-defined]
    page.asked = []  # type: ignore[attr-defined]
    return page


def open_page(chrome: Browser, url: str) -> Page:
    page = new_page(chrome)
    page.goto(url)
    page.wait_for_selector(".parkdeck-plot .main-svg", timeout=120_000)
    page.wait_for_selector(".top .badge")
    return page


def beats(page: Page) -> int:
    """Messages that the tab has sent."""
    return len(page.asked)  # type: ignore[attr-defined]


def until(page: Page, count: int) -> None:
    """Until the tab has sent `count` more messages."""
    wanted = beats(page) + count
    for _ in range(300):
        if beats(page) >= wanted:
            return
        page.wait_for_timeout(100)
    raise AssertionError(f"the tab has sent {beats(page)} messages, {wanted} were waited for")


def fresh(page: Page) -> str:
    return page.locator(".top .fresh").inner_text()


def chosen(page: Page, group: str) -> str:
    return str(page.locator(f".top .choice[data-name={group}] input:checked").input_value())


def hide(page: Page, hidden: bool) -> None:
    """As a browser tells a tab that it is behind another one."""
    page.evaluate(
        """(hidden) => { Object.defineProperty(document, 'hidden', {configurable: true, get: () => hidden});
        document.dispatchEvent(new Event('visibilitychange')); }""",
        hidden,
    )


def test_the_page_beats_by_itself_and_says_how_old_its_figures_are(page: Page) -> None:
    until(page, 3)
    expect(page.locator(".top .fresh")).to_have_text(re.compile("^updated (now|[0-9]+ s ago)$"))


def test_a_tab_that_nobody_sees_asks_for_nothing(page: Page) -> None:
    until(page, 2)
    hide(page, True)
    page.wait_for_timeout(1500)
    before = beats(page)
    page.wait_for_timeout(4000)
    assert beats(page) == before
    hide(page, False)
    until(page, 2)


def test_a_paused_page_stands_still_until_it_goes_on(page: Page) -> None:
    page.get_by_role("button", name="Pause the refresh").click()
    expect(page.locator(".top .fresh")).to_have_text(re.compile("^paused, figures of .* UTC$"))
    expect(page).to_have_url(re.compile("paused=yes"))
    page.wait_for_timeout(1500)
    before, told = beats(page), fresh(page)
    page.wait_for_timeout(3000)
    assert (beats(page), fresh(page)) == (before, told)
    for _ in range(3):
        # The scripted clock goes on by half a second with each reading.
        page.get_by_role("button", name="Refresh now").click()
        page.wait_for_timeout(500)
    expect(page.locator(".top .fresh")).not_to_have_text(told)
    page.get_by_role("button", name="Go on refreshing").click()
    expect(page).not_to_have_url(re.compile("paused"))
    until(page, 2)


def test_a_paused_page_in_other_units_shows_the_same_moment(page: Page) -> None:
    page.keyboard.press("p")
    expect(page.locator(".top .fresh")).to_have_text(re.compile("^paused"))
    told = fresh(page)
    page.keyboard.press("u")
    expect(page.get_by_text("this machine, measured")).to_be_visible()
    assert fresh(page) == told


def test_the_rate_is_the_users(page: Page) -> None:
    page.get_by_label("Refresh period").select_option("10")
    expect(page).to_have_url(re.compile("every=10"))
    page.wait_for_timeout(1500)
    before = beats(page)
    page.wait_for_timeout(5000)
    assert beats(page) - before <= 1


def test_an_address_shows_another_person_the_same_page(page: Page, chrome: Browser) -> None:
    page.get_by_role("radio", name="2 min").check()
    expect(page).to_have_url(re.compile("window=2min"))
    page.get_by_role("radio", name="this machine").check()
    expect(page).to_have_url(re.compile("units=machine"))
    page.get_by_role("radio", name="all events").check()
    expect(page).to_have_url(re.compile("events=all"))
    other = open_page(chrome, page.url)
    assert [chosen(other, group) for group in ("window", "units", "events")] == ["2min", "machine", "all"]
    other.context.close()


def test_what_an_address_says_wrongly_is_the_plain_page(app: App, chrome: Browser) -> None:
    page = open_page(chrome, f"{app.url}/?window=1h&units=%00&every=nan&paused=maybe&x=%3Cscript%3E")
    assert [chosen(page, group) for group in ("window", "units", "events")] == ["10min", "card", "moves"]
    until(page, 2)
    page.context.close()


def test_another_page_and_back_keeps_the_state(page: Page) -> None:
    page.get_by_role("radio", name="2 min").check()
    expect(page).to_have_url(re.compile("window=2min"))
    page.get_by_role("link", name="Planner").click()
    page.wait_for_selector(".figures-frame")
    page.get_by_role("link", name="Live").click()
    page.wait_for_selector(".top .badge")
    expect(page).to_have_url(re.compile("window=2min"))
    assert chosen(page, "window") == "2min"
    until(page, 2)


def test_keys_do_what_they_say_and_leave_typing_alone(page: Page) -> None:
    page.keyboard.press("3")
    expect(page).to_have_url(re.compile("window=all"))
    page.keyboard.press("e")
    expect(page).to_have_url(re.compile("events=all"))
    page.keyboard.press("/")
    page.keyboard.type("pru3")
    assert page.locator(".turns .filter").input_value() == "pru3"
    assert "paused" not in page.url
    page.locator(".turns .filter").fill("")
    page.locator(".top h3").click()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Keys")).to_be_hidden()


def test_keys_work_though_the_heads_script_comes_late(app: App, chrome: Browser) -> None:
    page = new_page(chrome)
    held: list[Route] = []
    page.route("**/top.js", lambda route: held.append(route))
    page.goto(app.url)
    page.wait_for_selector(".parkdeck-plot .main-svg", timeout=120_000)
    until(page, 3)
    # Each answer was a run of the head that waits for its script; only the last one is not overtaken.
    held[0].continue_()
    page.wait_for_selector(".top .badge:not(:empty)")
    page.get_by_role("button", name="Pause the refresh").click()
    expect(page.locator(".top .fresh")).to_have_text(re.compile("^paused"))
    page.keyboard.press("3")
    expect(page).to_have_url(re.compile("window=all"))
    page.context.close()


def test_a_server_that_is_gone_is_told_and_found_again(chrome: Browser) -> None:
    with running_app("tests/browser/fake_app.py", {"PARKDECK_SCENE": "ticking"}) as app:
        page = open_page(chrome, app.url)
        until(page, 2)
        app.process.send_signal(signal.SIGSTOP)
        expect(page.locator(".top .fresh")).to_have_text(re.compile("^no answer from Parkdeck for [0-9]+ s"))
        app.process.send_signal(signal.SIGCONT)
        expect(page.locator(".top .fresh")).to_have_text(re.compile("^updated"))
        until(page, 2)
        page.context.close()


def test_a_page_that_outlives_its_server_shows_the_knobs_of_the_next_one(chrome: Browser) -> None:
    def slots(page: Page) -> Locator:
        return page.get_by_role("spinbutton", name="Slots")

    port, scene = free_port(), {"PARKDECK_SCENE": "running"}
    with running_app("tests/browser/fake_app.py", scene, port=port) as app:
        page = open_page(chrome, app.url)
        as_started = slots(page).input_value()
        slots(page).fill("6")
        slots(page).press("Enter")
        expect(page.locator(".events")).to_contain_text(f"Slots {as_started} → 6")
        app.process.kill()
        app.process.wait()
    with running_app("tests/browser/fake_app.py", scene, port=port):
        expect(slots(page)).to_have_value(as_started)
        slots(page).fill("5")
        slots(page).press("Enter")
        expect(page.locator(".events")).to_contain_text(f"Slots {as_started} → 5")
        page.context.close()


def test_no_beat_comes_right_behind_a_step_to_another_page(app: App, chrome: Browser) -> None:
    """It would take the server back to the page that is left, and the tab would stay empty."""
    page = open_page(chrome, f"{app.url}/?every=0.5")
    until(page, 2)
    page.evaluate("""() => { const link = document.body.appendChild(document.createElement('a'));
        link.href = '/elsewhere'; link.onclick = (event) => { event.preventDefault(); window.stepped = true; };
        link.click(); }""")
    page.wait_for_function("window.stepped")
    before = beats(page)
    page.wait_for_timeout(1500)
    assert beats(page) == before
    until(page, 2)
    page.context.close()
