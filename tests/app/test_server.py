"""Host check, routes, shelf, settings."""

import asyncio
import dataclasses
import importlib
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient, WebSocketDenialResponse
from starlette.websockets import WebSocket, WebSocketDisconnect

from app import server, settings, shelf
from app.sizes import size_of
from engine.errors import BadKnob, Refused
from engine.geometry import KVDtype
from engine.snapshot import HostState, Snapshot
from panels import assets
from tests.panels.fake_control import FakeControl


async def hello(request: Any) -> PlainTextResponse:
    return PlainTextResponse("hello")


async def echo(websocket: WebSocket) -> None:
    await websocket.accept()
    await websocket.send_text("hello")
    await websocket.close()


def table(name: str) -> Iterator[bytes]:
    if name == "events":
        raise Refused("nothing is recorded yet; wait until the engine runs")
    return iter([b"a,b\r\n", b"1,2\r\n"])


def client(state: dict[str, object] | None = None) -> TestClient:
    own = server.routes(lambda: state or {"state": "running"}, table)
    routes = [Route("/", hello), WebSocketRoute("/ws", echo), *own]
    app = Starlette(routes=routes, middleware=[Middleware(server.HostCheck)])
    return TestClient(app, base_url="http://127.0.0.1:8501")


@pytest.mark.parametrize("host", ["localhost", "localhost:8501", "127.0.0.1:9", "[::1]:8501", "LOCALHOST"])
def test_loopback_names_pass(host: str) -> None:
    assert client().get("/", headers={"host": host}).text == "hello"


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:8501", "", "0.0.0.0"]
)
def test_other_hosts_are_refused(host: str) -> None:
    answer = client().get("/", headers={"host": host})
    assert answer.status_code == 421
    assert "PARKDECK_ALLOWED_HOSTS" in answer.text


def test_the_websocket_is_checked_too() -> None:
    with client().websocket_connect("ws://127.0.0.1:8501/ws") as socket:
        assert socket.receive_text() == "hello"
    with (
        pytest.raises((WebSocketDisconnect, WebSocketDenialResponse)),
        client().websocket_connect("ws://127.0.0.1:8501/ws", headers={"host": "evil.example"}),
    ):
        pass


def test_allowed_hosts_can_be_widened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARKDECK_ALLOWED_HOSTS", "deck.lan, other")
    assert client().get("/", headers={"host": "deck.lan:8501"}).text == "hello"
    assert client().get("/", headers={"host": "evil.example"}).status_code == 421


@pytest.mark.parametrize("name", assets.FILES)
def test_scripts_and_styles_are_kept_under_their_version_alone(name: str) -> None:
    answer = client().get(assets.address(name))
    assert answer.text == assets.content(name)
    assert answer.headers["content-type"] == f"text/{'css' if name.endswith('.css') else 'javascript'}; charset=utf-8"
    assert "immutable" in answer.headers["cache-control"]
    earlier = client().get(f"/assets/0123456789abcdef/{name}")
    assert earlier.text == assets.content(name)
    assert earlier.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("name", ["palette.toml", "..%2Ftheme%2Fpalette.toml", "cards.JS", "rx9070xt.toml"])
def test_no_other_file_is_served(name: str) -> None:
    answer = client().get(f"/assets/{assets.version()}/{name}")
    assert answer.status_code == 404
    assert "[meaning]" not in answer.text


def test_plotly_comes_from_the_installed_package_and_is_cached() -> None:
    answer = client().get("/assets/plotly.min.js")
    assert answer.status_code == 200
    assert len(answer.content) > 1_000_000
    assert "max-age=86400" in answer.headers["cache-control"]


def test_csv_files_are_streamed_as_attachments() -> None:
    answer = client().get("/export/timeline.csv")
    assert answer.text == "a,b\r\n1,2\r\n"
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"] == "attachment"
    assert client().get("/export/secrets.csv").status_code == 404
    nothing = client().get("/export/events.csv")
    assert (nothing.status_code, nothing.text.strip()) == (409, "nothing is recorded yet; wait until the engine runs")


def test_healthz() -> None:
    assert client({"state": "starting"}).get("/healthz").status_code == 200
    failed = client({"state": "failed", "error": "why"}).get("/healthz")
    assert (failed.status_code, failed.json()["error"]) == (503, "why")


def test_a_failure_is_told_in_the_terminal_once_a_session(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(server, "LOOK_EVERY_S", 0.0)
    starting = FakeControl(state=HostState.STARTING).snapshot
    failed = dataclasses.replace(starting, state=HostState.FAILED, error="no such file", session="s1")
    again = dataclasses.replace(failed, error="no network", session="s2")
    seen = [starting, failed, failed, starting, again, again]

    class Control(FakeControl):
        @property
        def snapshot(self) -> Snapshot:
            return seen.pop(0)

    with pytest.raises(IndexError):
        asyncio.run(server.tell_failures(Control()))
    assert capsys.readouterr().err == "no such file\nno network\n"


def test_the_shelf_makes_one_thing_even_when_two_ask_in_the_same_instant() -> None:
    made: list[object] = []
    both = threading.Barrier(2)

    def make() -> object:
        made.append(object())
        return made[-1]

    def ask() -> None:
        both.wait()
        shelf.shelf("test-thing", make)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    shelf.clear("test-thing")
    assert len(made) == 1


def test_the_shelf_survives_its_own_module_being_thrown_out() -> None:
    """As Streamlit does when a file is edited."""
    thing = shelf.shelf("test-kept", object)
    kept = {name: sys.modules.pop(name) for name in list(sys.modules) if name == "app" or name.startswith("app.")}
    try:
        again = importlib.import_module("app.shelf")
        assert again is not shelf
        assert again.taken("test-kept") is thing
        assert again.shelf("test-kept", object) is thing
    finally:
        for name in [name for name in sys.modules if name == "app" or name.startswith("app.")]:
            del sys.modules[name]
        sys.modules.update(kept)
        shelf.clear("test-kept")


def test_settings_from_the_environment() -> None:
    config = settings.config_from(
        {
            "PARKDECK_AGENTS": "5",
            "PARKDECK_SPEED": "2.5",
            "PARKDECK_KV_DTYPE": "q8",
            "PARKDECK_POLICY": "recompute-only",
            "PARKDECK_CEILING": "15.5GiB",
            "PARKDECK_SWARM": "off",
            "PARKDECK_ENGINE": "Off",
            "PARKDECK_MODEL": "/models/x.gguf",
        }
    )
    assert (config.agents, config.speed, config.swarm, config.engine) == (5, 2.5, False, False)
    assert config.host.body.kv_dtype == KVDtype.Q8
    assert config.host.body.ceiling_bytes == 16_642_998_272
    assert config.host.body.model == "/models/x.gguf"
    assert config.host.knobs.policy == "recompute-only"
    assert settings.config_from({}).swarm
    assert settings.config_from({}).engine


@pytest.mark.parametrize(
    ("text", "nbytes"), [("1GiB", 1073741824), ("1 GB", 10**9), ("512MiB", 536870912), ("1000", 1000)]
)
def test_sizes_keep_gib_and_gb_apart(text: str, nbytes: int) -> None:
    assert size_of(text) == nbytes


@pytest.mark.parametrize("text", ["lots", "1.5.5GiB", "-1GiB", "1XiB", "", "nanGiB"])
def test_sizes_that_cannot_be_are_refused(text: str) -> None:
    with pytest.raises(Refused, match="is no size"):
        size_of(text)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("PARKDECK_SPEED", "0,5"),
        ("PARKDECK_SPEED", "-1"),
        ("PARKDECK_AGENTS", "nan"),
        ("PARKDECK_AGENTS", "2.5"),
        ("PARKDECK_AGENTS", "-3"),
        ("PARKDECK_POLICY", "nope"),
        ("PARKDECK_WORKLOAD", "nope"),
        ("PARKDECK_CEILING", "much"),
    ],
)
def test_bad_settings_are_one_sentence(variable: str, value: str) -> None:
    with pytest.raises(Refused):
        settings.config_from({variable: value})


def test_a_bad_knob_in_the_environment() -> None:
    with pytest.raises(BadKnob):
        settings.config_from({"PARKDECK_KV_DTYPE": "int3"})


def test_the_check_leaves_the_lifespan_alone() -> None:
    seen: list[str] = []

    async def inner(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["type"])

    asyncio.run(server.HostCheck(inner)({"type": "lifespan"}, None, None))  # type: ignore[arg-type]
    assert seen == ["lifespan"]


def test_every_script_of_ours_is_served() -> None:
    served = {part for parts in assets.FILES.values() for part in parts}
    ours = {f"js/{path.name}" for path in (assets.ASSETS / "js").iterdir()}
    assert ours <= served


def test_an_element_names_no_script_that_the_server_has_not() -> None:
    assert assets.address("tour.js") in assets.script("tour.js")
    with pytest.raises(KeyError):
        assets.script("js/tour.js")
