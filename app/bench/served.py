"""The app in a process of its own, as `streamlit run app` starts it, under a given load."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import psutil

from app.bench.bound import bound_to_us
from app.bench.spans import Reading
from engine.errors import Refused
from engine.workload.format import dump_workload
from engine.workload.script import Workload

APP = Path(__file__).resolve().parents[1]
PREFIX = "PARKDECK_"
KEPT = frozenset({"PARKDECK_MODEL", "PARKDECK_CACHE_DIR"})
READY_WITHIN_S = 600.0
ENDS_WITHIN_S = 15.0
LOG_TAIL = 2_000


@dataclass(frozen=True, slots=True)
class ServerMemory:
    """Bytes of its process in memory, `host_pool` of them the pages that parked turns have ever filled."""

    rss: int
    host_pool: int
    threads: int
    live_turns: int

    @property
    def own(self) -> int:
        return self.rss - self.host_pool


class Served:
    """Use as a context manager. Raises Refused when the app does not start, with the end of what it printed."""

    def __init__(self, backend: str, load: Workload) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="parkdeck-bench-")
        here = Path(self._folder.name)
        written = here / "load.jsonl"
        written.write_text(dump_workload(load), encoding="utf-8")
        port = _free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._log = here / "log.txt"
        command = [sys.executable, "-m", "streamlit", "run", str(APP), "--server.port", str(port)]
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                env=_environment(os.environ, here, written, backend),
                stdout=output,
                stderr=subprocess.STDOUT,
                preexec_fn=bound_to_us(),
            )
        self._counted = psutil.Process(self._process.pid)

    def __enter__(self) -> "Served":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(ENDS_WITHIN_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(ENDS_WITHIN_S)
        self._folder.cleanup()

    def wait_ready(self) -> None:
        """Until the engine generates."""
        deadline = time.monotonic() + READY_WITHIN_S
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise Refused(f"the app ended with status {self._process.returncode}: {self._printed()}")
            health = self._health()
            if health is not None and health.get("state") == "failed":
                raise Refused(f"the engine did not start: {health.get('error')}")
            if health is not None and health.get("state") == "running" and health.get("generated_tokens"):
                return
            time.sleep(0.2)
        raise Refused(f"the app was not ready within {READY_WITHIN_S:g} s: {self._printed()}")

    def read(self) -> Reading:
        """Raises Refused when the app does not answer or its engine no longer runs."""
        health = self._serving()
        return Reading(float(health["at_s"]), int(health["generated_tokens"]))

    def cpu_seconds(self) -> float:
        """Of all cores, since the start."""
        times = self._counted.cpu_times()
        return float(times.user + times.system)

    def memory(self) -> ServerMemory:
        """Raises Refused as `read` does."""
        health = self._serving()
        rss, threads = int(self._counted.memory_info().rss), int(self._counted.num_threads())
        return ServerMemory(rss, int(health["host_held_bytes"]), threads, int(health["live_turns"]))

    def _serving(self) -> dict[str, float | str]:
        health = self._health()
        if health is None or health.get("state") != "running":
            raise Refused(f"the app's engine does not run any more ({health}): {self._printed()}")
        return health

    def _health(self) -> dict[str, float | str] | None:
        try:
            with urllib.request.urlopen(f"{self.url}/healthz", timeout=30) as answer:
                found: dict[str, float | str] = json.load(answer)
                return found
        except urllib.error.HTTPError as error:
            return dict(json.load(error)) if error.code == 503 else None
        except OSError:
            return None

    def _printed(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")[-LOG_TAIL:].strip()


def _environment(own: Mapping[str, str], folder: Path, load: Path, backend: str) -> dict[str, str]:
    """The caller's, without what would change the load; records go to a folder that is removed."""
    kept = {name: value for name, value in own.items() if not name.startswith(PREFIX) or name in KEPT}
    return kept | {
        "PARKDECK_BACKEND": backend,
        "PARKDECK_WORKLOAD": str(load),
        "PARKDECK_DATA_DIR": str(folder / "data"),
        "PARKDECK_CONFIG_DIR": str(folder / "config"),
    }


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port
