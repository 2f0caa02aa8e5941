"""Starting the app as its users do, and a headless Chromium to look at it."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from app.bench.chromium import FLAGS, chromium

ROOT = Path(__file__).resolve().parents[2]
HOW = "no Chromium was found for the browser tests; on Debian or Ubuntu: apt-get install chromium"


@dataclass(slots=True)
class App:
    """A running server. `log` is what it printed."""

    url: str
    process: "subprocess.Popen[bytes]"
    log: Path

    def text(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def interrupt(self, within: float) -> int:
        """Ctrl-C; the exit status. Raises TimeoutExpired when it has not ended in time."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(within)


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    """Skips without a Chromium; where CI is set that is a failure."""
    path = chromium()
    if path is None:
        if os.environ.get("CI"):
            pytest.fail(HOW)
        pytest.skip(HOW)
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=list(FLAGS), headless=True)
        try:
            yield launched
        finally:
            launched.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def running_app(
    target: str, env: Mapping[str, str] | None = None, wait_s: float = 90.0, port: int | None = None
) -> Iterator[App]:
    """`streamlit run TARGET` from the repository's root, until the block ends; `port` None: any free one."""
    port = free_port() if port is None else port
    command = [sys.executable, "-m", "streamlit", "run", target, "--server.port", str(port)]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.txt"
        with log.open("wb") as output:
            process = subprocess.Popen(
                command, cwd=ROOT, env={**os.environ, **(env or {})}, stdout=output, stderr=subprocess.STDOUT
            )
        app = App(f"http://127.0.0.1:{port}", process, log)
        try:
            _wait_until_up(app, wait_s)
            yield app
        finally:
            if process.poll() not in (None, 0):
                print(f"the app ended by itself with status {process.returncode}:\n{app.text()[-4000:]}")
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait(10)


def _wait_until_up(app: App, wait_s: float) -> None:
    deadline = time.monotonic() + wait_s
    while time.monotonic() < deadline:
        if app.process.poll() is not None:
            raise AssertionError(f"the app ended with status {app.process.returncode}:\n{app.text()}")
        try:
            urllib.request.urlopen(f"{app.url}/_stcore/health", timeout=2).close()
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
        else:
            return
    raise AssertionError(f"the app did not answer within {wait_s:g} s:\n{app.text()}")


def choose(page: Page, label: str, option: str | re.Pattern[str]) -> None:
    """From a select box. The page has come to rest under it first: a list closes where its page scrolls, and the event
    of a scroll comes a frame after it."""
    field = page.get_by_role("combobox", name=label, exact=True)
    opens = field.locator("xpath=following-sibling::button[@aria-label='Open']")
    opens.scroll_into_view_if_needed()
    page.evaluate("() => new Promise((over) => requestAnimationFrame(() => requestAnimationFrame(over)))")
    opens.click()
    page.get_by_role("option", name=option).click()
