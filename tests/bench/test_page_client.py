"""The scripted tab: over the scripted page charts really arrive, and what is no live page is told, never counted."""

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.sync.server import ServerConnection, serve

from app.bench.overhead import check
from app.bench.page_client import SUBPROTOCOL, PageClient
from engine.errors import Refused
from tests.browser.driver import running_app

FAKE = "tests/browser/fake_app.py"


@contextmanager
def page(scene: str) -> Iterator[PageClient]:
    with running_app(FAKE, {"PARKDECK_SCENE": scene}) as app, closing(PageClient(app.url)) as client:
        yield client


def test_charts_with_new_points_arrive_at_each_refresh() -> None:
    with page("ticking") as client:
        first = client.wait(lambda seen: seen.charts >= 1)
        later = client.wait(lambda seen: seen.charts >= 4 and seen.asked >= 6)
    assert first.fragments >= 2, "the page and its sidebar refresh by themselves"
    assert first.points > 50
    assert later.points > first.points
    assert later.finished > first.finished
    assert later.since(first).nbytes > 10_000
    assert later.since(first).charts == later.charts - first.charts


def test_a_page_that_shows_the_same_again_sends_no_new_chart() -> None:
    with page("running") as client:
        first = client.wait(lambda seen: seen.charts >= 1)
        later = client.wait(lambda seen: seen.unchanged >= 3 and seen.asked >= 3)
    assert later.charts == first.charts
    with pytest.raises(Refused, match="0 charts"):
        check(later.since(first), 1.5)


def test_a_page_without_a_chart_is_refused() -> None:
    with page("starting") as client, pytest.raises(Refused, match=r"0 charts in 2 s"):
        client.wait(lambda seen: seen.charts >= 1, within=2.0)


@contextmanager
def server_that_says(*messages: ForwardMsg) -> Iterator[str]:
    def talk(socket: ServerConnection) -> None:
        socket.recv()
        for message in messages:
            socket.send(message.SerializeToString())

    with serve(talk, "127.0.0.1", 0, subprotocols=[SUBPROTOCOL]) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.socket.getsockname()[1]}"
        finally:
            server.shutdown()
            thread.join()


def test_an_error_on_the_page_is_told() -> None:
    message = ForwardMsg()
    message.delta.new_element.exception.type = "ValueError"
    message.delta.new_element.exception.message = "no such knob"
    with (
        server_that_says(message) as url,
        closing(PageClient(url)) as client,
        pytest.raises(Refused, match="ValueError: no such knob"),
    ):
        client.wait(lambda seen: seen.charts >= 1, within=10.0)


def test_a_page_that_goes_away_is_told() -> None:
    with (
        server_that_says() as url,
        closing(PageClient(url)) as client,
        pytest.raises(Refused, match="connection ended"),
    ):
        client.wait(lambda seen: seen.charts >= 1, within=10.0)


def test_nobody_there_is_one_sentence() -> None:
    with pytest.raises(Refused, match="did not take a client"):
        PageClient("http://127.0.0.1:9")
