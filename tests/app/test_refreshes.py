"""What a page that is left open costs: its server's memory over a thousand refreshes, and the bytes of one refresh."""

from contextlib import closing

import psutil
import pytest

from app.bench.page_client import PageClient
from tests.browser.driver import running_app

FAKE = "tests/browser/fake_app.py"
MB = 1 << 20
WARM = 150
REFRESHES = 1_000
GROWN_MB = 20
REFRESH_BYTES = 250_000
REFRESH_MESSAGES = 45


@pytest.mark.timeout(400)
def test_a_thousand_refreshes_leave_the_servers_memory_flat() -> None:
    with running_app(FAKE, {"PARKDECK_SCENE": "crowded"}) as app, closing(PageClient(app.url, 20.0)) as client:
        client.wait(lambda seen: seen.charts >= WARM, 120.0)
        server = psutil.Process(app.process.pid)
        before = server.memory_info().rss
        client.wait(lambda seen: seen.charts >= WARM + REFRESHES, 240.0)
        grown = (server.memory_info().rss - before) / MB
    assert grown < GROWN_MB, f"{grown:.1f} MB in {REFRESHES} refreshes"


def test_a_refresh_with_five_hundred_turns_sends_little() -> None:
    with running_app(FAKE, {"PARKDECK_SCENE": "crowded"}) as app, closing(PageClient(app.url)) as client:
        first = client.wait(lambda seen: seen.charts >= 1)
        seen = client.wait(lambda seen: seen.charts >= 6).since(first)
    assert seen.points <= 1_000
    assert seen.nbytes / seen.charts < REFRESH_BYTES


def test_a_refresh_draws_what_is_new_and_no_more() -> None:
    """Streamlit's price is one for each element: knobs and swarm row that show nothing else are not drawn again."""
    with running_app(FAKE, {"PARKDECK_SCENE": "ticking"}) as app, closing(PageClient(app.url)) as client:
        first = client.wait(lambda seen: seen.charts >= 2)
        seen = client.wait(lambda seen: seen.charts >= 14).since(first)
    assert seen.messages / seen.charts < REFRESH_MESSAGES
