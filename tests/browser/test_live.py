"""The real page over the real model in a real browser: one app for all tests of this file, in their order.

The app keeps its sessions in a folder of its own and shares the model cache. Tests wait on conditions.
"""

import contextlib
import csv
import io
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Download, Locator, Page, Request, TimeoutError, expect

from engine.policies import policies
from tests.browser.driver import App, choose, running_app

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
READY_S = 420.0
SOON_MS = 180_000


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    data = tmp_path_factory.mktemp("data")
    with running_app("app", {"PARKDECK_DATA_DIR": str(data), "PARKDECK_AGENTS": "6"}) as started:
        yield started


@pytest.fixture(scope="module")
def page(app: App, chrome: Browser) -> Iterator[Page]:
    opened = open_page(app, chrome)
    yield opened
    opened.close()


def open_page(app: App, chrome: Browser, address: str = "") -> Page:
    context = chrome.new_context(viewport={"width": 1440, "height": 1300}, accept_downloads=True)
    context.set_default_timeout(SOON_MS)
    opened = context.new_page()
    opened.goto(f"{app.url}{address}")
    return opened


def wait_until(page: Page, true: Callable[[], bool], what: str, within_s: float = 180.0) -> None:
    deadline = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < deadline, f"{what} did not happen within {within_s:g} s"
        page.wait_for_timeout(250)


def figure(page: Page, key: str) -> str:
    """A tile's value and unit, as text."""
    return page.locator(f"[data-tile={key}] .value").inner_text()


def chart(page: Page, script: str) -> object:
    return page.evaluate(f"() => {{ const plot = document.querySelector('.parkdeck-plot'); return {script}; }}")


def low_watermark(page: Page) -> int:
    slider = page.get_by_role("slider", name="Low watermark")
    return int(slider.evaluate("(e) => Number(e.value ?? e.getAttribute('aria-valuenow'))"))


def mode(page: Page, name: str) -> None:
    """When a moved knob applies."""
    page.get_by_role("radio", name=name).or_(page.get_by_role("button", name=name)).first.click()


def slots(page: Page) -> str:
    return page.get_by_role("spinbutton", name="Slots").first.input_value()


def events(page: Page) -> str:
    return page.locator(".events").inner_text()


def test_it_starts_and_the_stack_is_drawn_against_the_ceiling(page: Page) -> None:
    expect(page.get_by_text("Parkdeck", exact=True)).to_be_visible(timeout=SOON_MS)
    page.wait_for_selector(".parkdeck-plot .main-svg", timeout=READY_S * 1000)
    assert chart(page, "plot.layout.annotations.some((a) => a.text === 'ceiling<br>15.5 GiB')")
    assert chart(page, "plot.data.find((t) => t.name === 'ceiling').line.dash") == "dash"


def test_no_button_of_the_chart_uploads_it(page: Page) -> None:
    page.locator(".parkdeck-plot").hover()
    titles = chart(page, "[...plot.querySelectorAll('.modebar-btn')].map((b) => b.dataset.title || b.dataset.name)")
    assert isinstance(titles, list)
    assert len(titles) == 8
    assert not re.search("share|cloud|upload|edit", " ".join(titles), re.IGNORECASE)
    assert chart(page, "plot._context.plotlyServerURL") == ""


def test_the_stack_grows(page: Page) -> None:
    newest = "Array.from(plot._fullData.find((t) => t.name === 'running KV').y).at(-1)"
    wait_until(page, lambda: float(str(chart(page, newest))) > 0.1, "KV of running turns")
    points = "plot._fullData.find((t) => t.name === 'running KV').x.length"
    before = int(str(chart(page, points)))
    wait_until(page, lambda: int(str(chart(page, points))) > before, "more points")
    wait_until(page, lambda: "n/a" not in figure(page, "decode"), "a decode rate")


def test_zoom_and_element_are_kept_over_updates(page: Page) -> None:
    chart(page, "(plot.dataset.mark = 'kept', window.Plotly.relayout(plot, {'yaxis.range': [1, 9]}), 1)")
    before = int(str(chart(page, "plot._fullData.find((t) => t.name === 'running KV').x.length")))
    wait_until(
        page,
        lambda: int(str(chart(page, "plot._fullData.find((t) => t.name === 'running KV').x.length"))) > before,
        "update",
    )
    assert chart(page, "plot.dataset.mark") == "kept"
    assert chart(page, "Array.from(plot._fullLayout.yaxis.range)") == [1, 9]
    chart(page, "(window.Plotly.relayout(plot, {'yaxis.autorange': true}), 1)")


def test_q8_raises_the_paused_turns_that_fit(page: Page) -> None:
    def fits() -> tuple[int, int]:
        """At the present precision and at the other, by one tile."""
        tile = page.locator("[data-tile=paused_fit]").inner_text()
        now, other = tile.split("\n")[1], re.search(r"(?:q8|fp16): (\d+)", tile)
        assert other is not None
        return int(now), int(other.group(1))

    at_fp16, promised = fits()
    assert promised > at_fp16
    page.get_by_role("radio", name="q8").or_(page.get_by_role("button", name="q8")).first.click()
    wait_until(page, lambda: "fp16" in page.locator("[data-tile=paused_fit]").inner_text(), "the switch to q8")
    at_q8, at_other = fits()
    assert at_q8 > at_other
    wait_until(page, lambda: "q8" in events(page), "the event of the switch")


def test_a_watermark_moves(page: Page) -> None:
    before = low_watermark(page)
    page.get_by_role("slider", name="Low watermark").focus()
    for _ in range(5):
        page.keyboard.press("ArrowLeft")
    wait_until(page, lambda: bool("Low watermark" in events(page)), "the event of the watermark")
    page.wait_for_timeout(3000)
    assert low_watermark(page) < before


def test_a_preview_stands_there_before_a_change_that_only_apply_makes(page: Page) -> None:
    mode(page, "preview first")
    before, told = low_watermark(page), events(page).count("Low watermark")
    page.get_by_role("slider", name="Low watermark").focus()
    for _ in range(5):
        page.keyboard.press("ArrowLeft")
    preview = page.get_by_text(f"Low watermark {before - 5} %:")
    expect(preview).to_be_visible(timeout=SOON_MS)
    marked = page.get_by_text(re.compile(f"not applied, engine: {before} %"))
    expect(marked).to_be_visible()
    page.wait_for_timeout(2500)
    expect(marked).to_be_visible()
    assert (low_watermark(page), events(page).count("Low watermark")) == (before - 5, told)
    applied = page.get_by_text(f"Low watermark {before} → {before - 5} %")
    assert applied.count() == 0
    page.get_by_role("button", name="Apply", exact=True).click()
    expect(applied.first).to_be_visible(timeout=SOON_MS)
    expect(marked).to_have_count(0, timeout=SOON_MS)
    assert low_watermark(page) == before - 5
    mode(page, "apply at once")
    expect(preview).to_have_count(0, timeout=SOON_MS)


def test_the_policy_changes(page: Page) -> None:
    choose(page, "Tier policy", "recompute-only")
    wait_until(page, lambda: "recompute-only" in events(page), "the event of the policy")


def test_all_policies_are_compared_and_one_is_put_in_force(page: Page, app: App, chrome: Browser) -> None:
    other = open_page(app, chrome, "/policies")
    expect(other.get_by_role("heading", name="In this session")).to_contain_text("measured")
    other.get_by_role("button", name="Compare policies").click()
    expect(other.get_by_role("progressbar")).to_be_visible()
    expect(other.get_by_text("of computing")).to_be_visible()
    texts = "() => document.querySelector('.parkdeck-plot').data.map((trace) => trace.text).flat()"
    drawn = other.evaluate(texts)
    assert len(drawn) == 4 * len(policies())
    # None of the six agents is foreground, so there is no TTFT.
    assert drawn[len(policies()) : 2 * len(policies())] == ["n/a"] * len(policies())
    assert all(re.search(r"\d", text) for text in drawn if text != "n/a")
    for name in ("resident-only", "recompute-only"):
        row = other.locator(f".st-key-policies_row_{name}")
        button = row.get_by_role("button", name="Apply")
        button.click()
        expect(other.get_by_text(f"{name} is in force.")).to_be_visible()
        expect(row.get_by_text("in force", exact=True)).to_be_visible()
        expect(button).to_be_disabled()
        expect(page.get_by_role("combobox", name="Tier policy")).to_have_value(name, timeout=SOON_MS)
    measured = other.locator(".st-key-policies_row_resident-only")
    expect(measured).to_contain_text(re.compile(r"in force\s[\d.]+\s(s|ms)"))
    other.close()


def test_a_refused_host_pool_says_so_and_nothing_changes(page: Page) -> None:
    box = page.get_by_role("spinbutton", name="Host pool").first
    before, told = box.input_value(), events(page).count("Host pool")
    box.fill("999999")
    box.press("Enter")
    refusal = page.get_by_text("A host pool of 999999")
    expect(refusal).to_be_visible()
    points = "plot._fullData.find((t) => t.name === 'running KV').x.length"
    after = int(str(chart(page, points))) + 3
    wait_until(page, lambda: int(str(chart(page, points))) > after, "a few refreshes")
    expect(refusal).to_be_visible()
    assert page.get_by_role("spinbutton", name="Host pool").first.input_value() == before
    assert events(page).count("Host pool") == told


def test_a_second_tab_agrees_and_a_reload_keeps_the_state(page: Page, app: App, chrome: Browser) -> None:
    other = open_page(app, chrome)
    other.wait_for_selector(".parkdeck-plot .main-svg")
    assert low_watermark(other) == low_watermark(page)
    expect(other.get_by_role("combobox", name="Tier policy")).to_have_value("recompute-only", timeout=SOON_MS)
    field = other.get_by_role("spinbutton", name="Slots").first
    field.fill("4")
    field.press("Enter")
    wait_until(page, lambda: slots(page) == "4", "the other tab's value here")
    other.close()
    page.reload()
    page.wait_for_selector(".parkdeck-plot .main-svg")
    wait_until(page, lambda: slots(page) == "4", "the value after a reload")
    wait_until(page, lambda: "recompute-only" in events(page), "the events after a reload")
    page.wait_for_timeout(2500)
    assert slots(page) == "4"


def test_a_turns_action_answers_in_a_sentence(page: Page) -> None:
    page.get_by_role("button", name="Foreground turn now").click()
    cancel = page.locator(".turns button.cancel").first
    cancel.wait_for()
    cancel.click()
    wait_until(page, lambda: bool(page.locator(".turns .message").inner_text().strip()), "the answer")


def test_the_keyboards_focus_stays_over_refreshes(page: Page) -> None:
    page.get_by_role("button", name="Foreground turn now").click()
    row = page.locator(".turns tbody tr").filter(has_text="foreground").first
    row.locator("button.pause").click()
    held = page.locator(".turns button.resume").first
    held.focus()
    focused = """() => [...document.querySelectorAll('*')].map((e) => e.shadowRoot?.activeElement)
        .find(Boolean)?.getAttribute('aria-label')"""
    before = page.evaluate(focused)
    page.wait_for_timeout(4000)
    assert before
    assert page.evaluate(focused) == before
    held.click()


def test_an_open_turn_is_told_live_its_text_grows_and_escape_closes_it(page: Page) -> None:
    page.get_by_role("button", name="Foreground turn now").click()
    row = page.locator(".turns tbody tr").filter(has_text="person-now").last
    row.locator(".name").press("Enter")
    pane = page.locator(".detail")
    expect(pane.locator(".prompt")).not_to_be_empty()
    seen: set[str] = set()

    def grew() -> bool:
        seen.add(pane.locator(".came").inner_text())
        return len(seen - {""}) > 1

    wait_until(page, grew, "growing text")
    shorter, longer = sorted(seen - {""}, key=len)[-2:]
    assert longer.lstrip("…").startswith(shorter[:20]) or longer.startswith("…")
    expect(pane.locator(".spans")).to_contain_text("decode")
    page.keyboard.press("Escape")
    expect(pane).to_be_hidden()


def downloaded(page: Page, link: Locator) -> Download:
    """As a user gets it, who clicks again where nothing comes of a click: on a busy machine one in many goes astray."""
    for _ in range(2):
        with contextlib.suppress(TimeoutError), page.expect_download(timeout=30_000) as waiting:
            link.click()
        if waiting.is_done():
            return waiting.value
    with page.expect_download() as waiting:
        link.click()
    return waiting.value


@pytest.mark.parametrize("name", ["timeline", "samples", "events"])
def test_the_csv_downloads_and_parses(page: Page, name: str) -> None:
    link = page.get_by_role("link", name=f"{name}.csv")
    if not link.is_visible():
        page.get_by_text("Download this session").click()
    came = downloaded(page, link)
    assert came.suggested_filename.endswith(f"-{name}.csv")
    text = Path(came.path()).read_text(encoding="utf-8-sig")
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert rows
    assert None not in rows[0]
    assert all(None not in row.values() for row in rows)
    if name == "timeline":
        assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", row["start_utc"]) for row in rows)


def test_a_tab_looks_at_the_running_engine_in_its_own_way(app: App, chrome: Browser) -> None:
    """What test_looking, test_turns and test_charts hold in detail over a scripted engine."""
    opened = open_page(app, chrome)
    expect(opened.locator(".turns .foot .more")).to_contain_text("tokens of context")
    opened.get_by_role("radio", name="2 min").check()
    opened.get_by_role("radio", name="this machine").check()
    opened.get_by_label("Refresh period").select_option("2")
    expect(opened).to_have_url(re.compile("(?=.*window=2min)(?=.*units=machine)(?=.*every=2)"))
    opened.locator(".turns .filter").fill("no such agent")
    expect(opened.locator(".turns .empty")).to_be_visible()
    opened.locator(".turns .filter").fill("")
    head = opened.locator(".turns th.context")
    head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "descending")
    for label, ending in (("Save as PNG", ".png"), ("Save the figures as CSV", ".csv")):
        with opened.expect_download() as waiting:
            opened.get_by_role("button", name=label).first.click()
        assert waiting.value.suggested_filename.endswith(ending)
    opened.get_by_role("button", name="Full screen").first.click()
    opened.keyboard.press("Escape")
    expect(opened.get_by_role("button", name="Full screen").first).to_be_visible()
    opened.keyboard.press("p")
    expect(opened.locator(".top .fresh")).to_have_text(re.compile("^paused, figures of"))
    expect(opened).to_have_url(re.compile("paused=yes"))
    opened.context.close()


def test_nothing_scrolls_sideways_and_nothing_is_fetched_from_elsewhere(app: App, chrome: Browser) -> None:
    for width in (1280, 1920):
        context = chrome.new_context(viewport={"width": width, "height": 1080})
        context.set_default_timeout(SOON_MS)
        opened = context.new_page()
        elsewhere: list[str] = []
        opened.on("request", _collector(elsewhere, app.url))
        opened.goto(app.url)
        opened.wait_for_selector(".parkdeck-plot .main-svg")
        opened.wait_for_selector(".turns .foot")
        wider = "[document.documentElement, document.querySelector('[data-testid=stMain]')]"
        assert opened.evaluate(f"() => {wider}.map((e) => e.scrollWidth - e.clientWidth)") == [0, 0]
        assert elsewhere == []
        context.close()


def test_ctrl_c_ends_it_within_five_seconds(page: Page, app: App) -> None:
    assert app.interrupt(within=6.0) == 0
    assert "Traceback" not in app.text()
    assert "Aborted" not in app.text()


def _collector(found: list[str], base: str) -> Callable[[Request], None]:
    """Takes down requests that do not go to the app."""

    def take(request: Request) -> None:
        if not _ours(request.url, base):
            found.append(request.url)

    return take


def _ours(url: str, base: str) -> bool:
    return url.startswith((base, base.replace("http", "ws"), "data:", "blob:"))
