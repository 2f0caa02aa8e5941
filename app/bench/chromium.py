"""A headless Chromium over its own debugging protocol: opens a page, says what it shows, its CPU and its memory."""

import contextlib
import itertools
import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil
from websockets.sync.client import connect

from app.bench.bound import bound_to_us
from engine.errors import Refused

NAMES = ("chromium", "chromium-browser", "google-chrome")
VARIABLE = "PARKDECK_CHROMIUM"
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
BLANK = "about:blank"
STARTS_WITHIN_S = 60.0
ANSWERS_WITHIN_S = 60.0
SIZE = "1280,900"


def chromium() -> str | None:
    """The browser's path; PARKDECK_CHROMIUM wins. None: there is none."""
    return os.environ.get(VARIABLE) or next(filter(None, map(shutil.which, NAMES)), None)


@dataclass(frozen=True, slots=True)
class PageMemory:
    """Right after a collection. Bytes: `renderer` of the processes that draw pages, `heap` of the page's JavaScript;
    `nodes`: of its documents, those included that only a script still holds."""

    renderer: int
    heap: int
    nodes: int


class Chromium:
    """Use as a context manager. Raises Refused when it does not start, answer or show what is waited for."""

    def __init__(self, path: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="parkdeck-bench-", ignore_cleanup_errors=True)
        command = [
            path, *FLAGS, f"--window-size={SIZE}", "--remote-debugging-port=0", f"--user-data-dir={self._folder.name}",
            BLANK,
        ]  # fmt: skip
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=bound_to_us()
        )
        self._calls = itertools.count(1)
        self._open = contextlib.ExitStack()

    def __enter__(self) -> "Chromium":
        try:
            address = _wait(self._tab, STARTS_WITHIN_S, "the browser did not open a tab")
            self._socket = self._open.enter_context(connect(address, max_size=None))
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end()

    def _end(self) -> None:
        self._open.close()
        processes = self._family()
        for process in processes:
            with contextlib.suppress(psutil.Error):
                process.terminate()
        psutil.wait_procs(processes, timeout=10)
        self._process.wait(10)
        self._folder.cleanup()

    def open(self, url: str) -> None:
        self._call("Page.navigate", url=url)

    def value(self, expression: str) -> Any:
        """Of a JavaScript expression on the page; None where it throws."""
        return self._call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def wait_for(self, expression: str, what: str) -> None:
        _wait(lambda: self.value(expression), ANSWERS_WITHIN_S, f"the browser's page shows no {what}")

    def cpu_seconds(self) -> float:
        """Of all its processes that live, all cores."""
        total = 0.0
        for process in self._family():
            try:
                times = process.cpu_times()
            except psutil.Error:
                continue
            total += times.user + times.system
        return total

    def memory(self) -> PageMemory:
        self._call("Performance.enable")
        self._call("HeapProfiler.collectGarbage")
        found = {metric["name"]: metric["value"] for metric in self._call("Performance.getMetrics")["metrics"]}
        return PageMemory(self._renderers_rss(), int(found["JSHeapUsedSize"]), int(found["Nodes"]))

    def _renderers_rss(self) -> int:
        total = 0
        for process in self._family():
            with contextlib.suppress(psutil.Error):
                if "--type=renderer" in process.cmdline():
                    total += process.memory_info().rss
        return total

    def _family(self) -> list[Any]:
        try:
            first = psutil.Process(self._process.pid)
            return [first, *first.children(recursive=True)]
        except psutil.Error:
            return []

    def _tab(self) -> str | None:
        """The websocket of its tab, once it is there."""
        if self._process.poll() is not None:
            raise Refused(f"the browser ended with status {self._process.returncode}")
        try:
            port = (Path(self._folder.name) / "DevToolsActivePort").read_text(encoding="utf-8").split()[0]
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list", timeout=10) as answer:
                tabs = json.load(answer)
        except (OSError, IndexError):
            return None
        return next((tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page"), None)

    def _call(self, method: str, **parameters: Any) -> Any:
        call = next(self._calls)
        self._socket.send(json.dumps({"id": call, "method": method, "params": parameters}))
        while True:
            try:
                answer = json.loads(self._socket.recv(timeout=ANSWERS_WITHIN_S))
            except TimeoutError:
                raise Refused(f"the browser did not answer within {ANSWERS_WITHIN_S:g} s") from None
            if answer.get("id") == call:
                return answer.get("result", {"result": {}})


def _wait(look: Callable[[], Any], within: float, otherwise: str) -> Any:
    deadline = time.monotonic() + within
    while not (found := look()):
        if time.monotonic() > deadline:
            raise Refused(f"{otherwise} within {within:g} s")
        time.sleep(0.1)
    return found
