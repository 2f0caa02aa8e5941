"""However many tabs open and run again, there is one engine, one poller and one recorder; none starts with a tab."""

import json
import time
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import psutil
import pytest

from app.bench.page_client import PageClient
from engine.record.database import list_sessions
from tests.browser.driver import App, running_app

SESSIONS = 3
RERUNS = 20
WITHIN_S = 120.0


def health(app: App) -> dict[str, Any]:
    with urllib.request.urlopen(f"{app.url}/healthz", timeout=30) as answer:
        found: dict[str, Any] = json.load(answer)
        return found


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not true():
        assert time.monotonic() < deadline, f"it did not come true within {WITHIN_S:g} s"
        time.sleep(0.1)


def wait_for_another(client: PageClient, had: int) -> None:
    client.wait(lambda seen: seen.whole > had)


@pytest.mark.timeout(300)
def test_three_tabs_two_of_them_in_the_same_instant_have_one_engine_and_no_thread_more(tmp_path: Path) -> None:
    """The engine's start takes seconds, and the first two tabs come in the middle of it."""
    with ExitStack() as opened:
        app = opened.enter_context(running_app("app", {"PARKDECK_DATA_DIR": str(tmp_path), "PARKDECK_SWARM": "off"}))
        assert health(app)["state"] == "starting"
        with ThreadPoolExecutor(2) as both:
            clients = list(both.map(lambda _: PageClient(app.url), range(2)))
        until(lambda: health(app)["state"] == "idle")
        clients.append(PageClient(app.url))
        for client in clients:
            opened.enter_context(closing(client))
            client.wait(lambda seen: seen.charts >= 1)
        server = psutil.Process(app.process.pid)
        before = server.num_threads()
        for _ in range(RERUNS):
            runs = [client.seen().whole for client in clients]
            for client in clients:
                client.rerun()
            for client, had in zip(clients, runs, strict=True):
                wait_for_another(client, had)
        # A thread of a rerun that has just ended may still be there.
        until(lambda: server.num_threads() <= before)
        engine = health(app)
        assert engine["state"] == "idle"
        until(lambda: float(health(app)["at_s"]) > float(engine["at_s"]))
    assert len(list_sessions(tmp_path / "sessions.sqlite")) == 1
