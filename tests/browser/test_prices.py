"""The Prices page over the scripted engine in a real browser. Tests wait on conditions."""

import base64
import re
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, WebSocketRoute, expect
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from tests.browser.driver import App, choose, running_app

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]
SOON_MS = 60_000
CHARTS = {"time": "A turn of", "tokens": "Tokens that fit", "context": "Over context"}
FIND = """(title) => [...document.querySelectorAll('.parkdeck-plot')].find((p) =>
    p._fullLayout?.title?.text?.startsWith(title))"""
TRIPS = "(plot.data.find((t) => t.name === 'measured: round trips')?.x.length ?? 0)"


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    own = str(tmp_path_factory.mktemp("own"))
    with running_app("tests/browser/fake_app.py", {"PARKDECK_SCENE": "moving", "PARKDECK_CONFIG_DIR": own}) as started:
        yield started


@pytest.fixture
def page(app: App, chrome: Browser) -> Iterator[Page]:
    opened = open_page(app, chrome)
    yield opened
    opened.context.close()
    assert "Traceback" not in app.text()


def open_page(
    app: App,
    chrome: Browser,
    width: int = 1280,
    theme: Any = "dark",
    between: Callable[[WebSocketRoute], None] | None = None,
) -> Page:
    """The page with the model whose figures the study has, at 6,900 tokens. `between`: what stands between the tab and
    its server."""
    context = chrome.new_context(viewport={"width": width, "height": 1300}, color_scheme=theme)
    context.set_default_timeout(SOON_MS)
    opened = context.new_page()
    if between:
        opened.route_web_socket(re.compile("_stcore/stream"), between)
    opened.goto(f"{app.url}/prices")
    drawn(opened)
    choose(opened, "Model", re.compile("^swap"))
    expect(opened.get_by_text("the study rounds 147,456 to 147,000")).to_be_visible()
    give(opened, "Context of the turn", "6900")
    expect(opened.get_by_text("A turn of 6,900 tokens holds 1.01 GB")).to_be_visible()
    drawn(opened)
    return opened


def drawn(page: Page) -> None:
    for title in CHARTS.values():
        page.wait_for_function(f"(title) => Boolean(({FIND})(title))", arg=title)


def field(page: Page, label: str) -> Locator:
    return page.get_by_role("spinbutton", name=f"{label}: number")


def give(page: Page, label: str, value: str) -> None:
    field(page, label).fill(value)
    field(page, label).press("Enter")


def chart(page: Page, name: str, script: str) -> Any:
    return page.evaluate(f"(title) => {{ const plot = ({FIND})(title); return {script}; }}", CHARTS[name])


def test_the_marks_stand_where_the_study_has_them(page: Page) -> None:
    page.wait_for_function(f"(title) => ({FIND})(title)._fullLayout.title.text.includes('6,900')", arg="A turn of")
    marks = chart(page, "time", "plot.data.filter((t) => t.mode === 'markers+text').map((t) => [t.y[0], t.x[0]])")
    by_lane = dict(map(tuple, marks))
    assert by_lane[4] == pytest.approx(0.0406, abs=1e-4)
    assert by_lane[2] == pytest.approx(7.17, abs=0.01)
    words = chart(
        page, "time", "[...plot.querySelectorAll('.textpoint, .xtick text')].map((e) => e.textContent.trim())"
    )
    assert {"40.6 ms", "20.3 ms", "7.17 s", "177×", "p50 0.3 s", "p90 13.6 s", "1 ms", "10 s", "1 min"} <= set(words)


def test_no_label_of_the_time_line_covers_another(page: Page) -> None:
    boxes = """[...plot.querySelectorAll('.textpoint text')].map((e) => e.getBoundingClientRect())
        .map((r) => [r.left, r.top, r.right, r.bottom])"""
    frame = "(({left, right}) => [left, right])(plot.getBoundingClientRect())"
    for context in ("16", "6900", "1000000"):
        give(page, "Context of the turn", context)
        title = f"A turn of {int(context):,} tokens"
        page.wait_for_function(f"(title) => Boolean(({FIND})(title))", arg=title)
        found = chart(page, "time", boxes)
        left, right = chart(page, "time", frame)
        assert len(found) == 7
        for index, (l1, t1, r1, b1) in enumerate(found):
            assert left <= l1 < r1 <= right
            assert not any(l1 < r2 and l2 < r1 and t1 < b2 and t2 < b1 for l2, t2, r2, b2 in found[index + 1 :])


def test_the_table_is_the_studys(page: Page) -> None:
    rows = page.locator(".figures tbody tr")
    expect(rows).to_have_count(5)
    read = [" ".join(text.split()) for text in rows.all_inner_texts()]
    assert read == [
        "2,000 0.29 GB 11.8 ms 2.1 s 177×",
        "▸ 6,900 1.01 GB 40.6 ms 7.2 s 177×",
        "16,000 2.35 GB 94.1 ms 16.6 s 177×",
        "32,000 4.70 GB 188.2 ms 33.3 s 177×",
        "55,000 8.09 GB 323.4 ms 57.2 s 177×",
    ]


def zoom_in(page: Page, name: str) -> list[float]:
    """Drags over the middle of a chart as a user does, and returns the axis' range from then on."""
    chart(page, name, "plot.scrollIntoView({block: 'center'})")
    ground = "(({left, top, width, height}) => [left, top, width, height])"
    left, top, width, height = chart(page, name, f"{ground}(plot.querySelector('.nsewdrag').getBoundingClientRect())")
    before = chart(page, name, "Array.from(plot._fullLayout.xaxis.range)")
    page.mouse.move(left + width * 0.3, top + height * 0.2)
    page.mouse.down()
    page.mouse.move(left + width * 0.6, top + height * 0.8, steps=5)
    page.mouse.up()
    page.wait_for_function(
        f"([title, before]) => ({FIND})(title)._fullLayout.xaxis.range[0] > before", arg=[CHARTS[name], before[0] + 0.1]
    )
    after: list[float] = chart(page, name, "Array.from(plot._fullLayout.xaxis.range)")
    return after


def test_points_appear_while_it_is_looked_at_and_zoom_stays(page: Page) -> None:
    zoomed = zoom_in(page, "context")
    chart(page, "context", "(plot.dataset.mark = 'kept', 1)")
    before = chart(page, "context", TRIPS)
    page.wait_for_function(
        f"([title, before]) => {{ const plot = ({FIND})(title); return {TRIPS} > before + 2; }}",
        arg=[CHARTS["context"], before],
    )
    assert chart(page, "context", "plot.dataset.mark") == "kept"
    assert chart(page, "context", "Array.from(plot._fullLayout.xaxis.range)") == zoomed
    expect(page.get_by_text("Measured in this session")).to_be_visible()


@pytest.mark.parametrize(
    ("label", "value", "sentence"),
    [
        ("Context of the turn", "0", "Context 0 tokens is out of range"),
        ("Context of the turn", "", "Context is empty"),
        ("Bandwidth", "-3", "Bandwidth -3"),
        ("Bandwidth", "1e300", "Bandwidth 1e"),
        ("Prefill rate", "0", "Prefill rate 0"),
        ("Pinned host memory", "-1", "Pinned host memory -1"),
    ],
)
def test_a_bad_value_is_refused_in_the_field_and_the_charts_stay(
    page: Page, label: str, value: str, sentence: str
) -> None:
    give(page, label, value)
    refusal = page.get_by_text(sentence)
    expect(refusal).to_be_visible()
    assert chart(page, "time", "plot.layout.title.text") == "A turn of 6,900 tokens, 1.01 GB of KV"
    assert [chart(page, name, "plot.data.length > 0") for name in CHARTS] == [True] * 3
    give(page, label, "100")
    expect(refusal).to_be_hidden()


def test_this_machines_rate_is_marked_at_the_slider(page: Page) -> None:
    said = page.locator(".slider-mark .said")
    expect(said).to_have_text(["measured 4.62", "measured 480"])
    page.get_by_role("button", name="Use measured link").click()
    expect(field(page, "Bandwidth")).to_have_value("4.623")
    thumb = page.locator("[data-testid=stSliderThumbValue]", has_text="4.623")
    expect(thumb).to_be_visible()
    middles = [
        part.evaluate("(e) => { const r = e.getBoundingClientRect(); return (r.left + r.right) / 2; }")
        for part in (page.locator(".slider-mark .tick").first, thumb)
    ]
    assert middles[0] == pytest.approx(middles[1], abs=3)


def test_values_stay_when_another_page_is_looked_at(page: Page) -> None:
    give(page, "Bandwidth", "25")
    expect(page.locator("[data-tile=ratio] .value")).to_have_text("88.4×")
    page.get_by_role("link", name="Planner").click()
    expect(page.get_by_role("heading", name="Planner")).to_be_visible()
    page.get_by_role("link", name="Prices").click()
    expect(page.locator("[data-tile=ratio] .value")).to_have_text("88.4×")
    assert field(page, "Bandwidth").input_value() == "25"


def test_a_value_that_is_typed_right_before_a_step_to_another_page_stays(page: Page) -> None:
    for value, ratio in (("25", "88.4×"), ("50", "177×"), ("25", "88.4×")):
        field(page, "Bandwidth").fill(value)
        page.get_by_role("link", name="Planner").click()
        expect(page.get_by_role("heading", name="Planner")).to_be_visible()
        page.get_by_role("link", name="Prices").click()
        expect(page.locator("[data-tile=ratio] .value")).to_have_text(ratio)
        expect(field(page, "Bandwidth")).to_have_value(value)


class HeldBack:
    """Between a tab and its server: from `hold` to `release` the tab gets nothing."""

    def __init__(self) -> None:
        self._holds = False
        self._held: list[bytes] = []

    def __call__(self, socket: WebSocketRoute) -> None:
        self._socket, server = socket, socket.connect_to_server()

        def gets(message: str | bytes) -> None:
            if self._holds and isinstance(message, bytes):
                self._held.append(message)
            else:
                socket.send(message)

        server.on_message(gets)

    def hold(self) -> None:
        self._holds = True

    def until_answered(self, page: Page, runs: int) -> None:
        """Until so many runs of the page's script have ended."""
        for _ in range(600):
            if sum(ForwardMsg.FromString(message).HasField("script_finished") for message in self._held) >= runs:
                return
            page.wait_for_timeout(50)
        raise AssertionError(f"the server has not answered {runs} times")

    def release(self) -> None:
        self._holds = False
        for message in self._held:
            self._socket.send(message)


def test_a_tab_that_has_not_drawn_a_new_value_does_not_bring_the_old_one_back(app: App, chrome: Browser) -> None:
    between = HeldBack()
    page = open_page(app, chrome, between=between)
    between.hold()
    give(page, "Bandwidth", "25")
    between.until_answered(page, 1)
    # The next beat tells of all widgets as the tab knows them.
    page.emulate_media(color_scheme="light")
    between.until_answered(page, 2)
    between.release()
    expect(page.locator("[data-tile=ratio] .value")).to_have_text("88.4×")
    page.get_by_role("link", name="Planner").click()
    expect(page.get_by_role("heading", name="Planner")).to_be_visible()
    page.get_by_role("link", name="Prices").click()
    expect(page.locator("[data-tile=ratio] .value")).to_have_text("88.4×")
    page.context.close()


def test_the_charts_go_out_as_png(page: Page, tmp_path: Path) -> None:
    for name in CHARTS:
        url = chart(page, name, "window.Plotly.toImage(plot, {format: 'png', width: 1200, height: 500})")
        image = base64.b64decode(url.removeprefix("data:image/png;base64,"))
        (tmp_path / f"{name}.png").write_bytes(image)
        assert image[:8] == b"\x89PNG\r\n\x1a\n"
        assert struct.unpack(">II", image[16:24]) == (1200, 500)
        assert len(image) > 5_000


@pytest.mark.parametrize("theme", ["dark", "light"])
@pytest.mark.parametrize("width", [1280, 1920])
def test_nothing_scrolls_sideways(app: App, chrome: Browser, width: int, theme: str) -> None:
    page = open_page(app, chrome, width, theme)
    parts = "[document.documentElement, document.querySelector('[data-testid=stMain]')]"
    assert page.evaluate(f"() => {parts}.map((e) => e.scrollWidth - e.clientWidth)") == [0, 0]
    table = page.locator(".figures-frame")
    assert table.evaluate("(e) => e.scrollWidth - e.clientWidth") == 0
    ground = chart(page, "time", "plot.layout.paper_bgcolor")
    assert ground == ("#122226" if theme == "dark" else "#ffffff")
    page.context.close()
