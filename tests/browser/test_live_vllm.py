"""The page over real vLLM: it starts, the stack moves, another precision is refused, Ctrl-C ends it."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from engine.backends.vllm import hooks
from tests.browser.driver import browser, running_app
from tests.browser.test_live import READY_S, SOON_MS, chart, figure, open_page, wait_until

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not hooks.installed(), reason="vLLM is not installed here; README says how"),
]


def test_the_live_page_over_vllm(tmp_path: Path) -> None:
    own = {"PARKDECK_DATA_DIR": str(tmp_path), "PARKDECK_AGENTS": "6", "PARKDECK_BACKEND": "vllm"}
    with browser() as chrome, running_app("app", own) as app:
        page = open_page(app, chrome)
        page.wait_for_selector(".parkdeck-plot .main-svg", timeout=READY_S * 1000)
        expect(page.get_by_text("on vllm").first).to_be_visible(timeout=SOON_MS)
        newest = "Array.from(plot._fullData.find((t) => t.name === 'running KV').y).at(-1)"
        wait_until(page, lambda: float(str(chart(page, newest))) > 0.1, "KV of running turns")
        wait_until(page, lambda: "n/a" not in figure(page, "decode"), "a decode rate")
        assert page.get_by_role("radio", name="fp32").is_checked()
        assert page.get_by_role("radio", name="q8").count() == 0
        assert app.interrupt(within=10.0) == 0
        assert "Traceback" not in app.text()
