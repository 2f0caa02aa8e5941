"""What is asked of an element is handed on once each and in order, whatever is lost, late or told again on the way."""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from streamlit.runtime.scriptrunner import RerunData, RerunException
from streamlit.testing.v1 import AppTest

from panels import asked, components, effect_card, top, tour, turns
from panels.asked import MOST, Request, Taken, taking
from tests.browser.scenes import SCENES
from tests.panels.fake_deck import FakeDeck


class Browser:
    """One mount of an element: assets/js/asked.js without its clock."""

    def __init__(self, word: str) -> None:
        self.word = word
        self.count = 0
        self.waiting: list[tuple[int, Request]] = []

    def ask(self) -> Request:
        self.count += 1
        request = {"verb": f"{self.word} {self.count}"}
        self.waiting.append((self.count, request))
        return request

    def tell(self) -> Any:
        return json.loads(json.dumps({"from": self.word, "asks": self.waiting}))

    def drawn(self, taken: dict[str, Any]) -> None:
        if taken["from"] == self.word:
            self.waiting = [(number, request) for number, request in self.waiting if number > taken["number"]]


class Session(dict[str, Any]):
    """A tab's state. `ends`: another run is due, which ends this one at its next touch."""

    ends = False

    def __getitem__(self, key: str) -> Any:
        if self.ends:
            raise RerunException(RerunData())
        return super().__getitem__(key)


class Server:
    """The element's callback over a session. `done`: what its handler has been given; `patience`: after how many of
    them its run is ended, None: it is not."""

    def __init__(self) -> None:
        self.session = Session()
        self.done: list[Request] = []
        self.runs = 0
        self.patience: int | None = None

    def draw(self) -> dict[str, Any]:
        with self._page():
            self._callback, taken = taking("element", self._handle)
        return taken

    def run(self, told: Any, ends: bool = False, patience: int | None = None) -> None:
        self.session["element"] = {"asked": told}
        self.session.ends, self.patience = ends, patience
        with self._page(), suppress(RerunException):
            self._callback()
        self.session.ends = False

    def _handle(self, requests: Iterable[Request]) -> None:
        self.runs += 1
        for count, request in enumerate(requests, 1):
            self.done.append(request)
            if count == self.patience:
                raise RerunException(RerunData())

    @contextmanager
    def _page(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("streamlit.session_state", self.session)
            yield


UP = ["ask", "tell again", "the newer stays", "lost", "taken", "not reached", "ended after one"]
DOWN = ["drawn", "missed", "seen"]


@given(st.lists(st.sampled_from(UP + DOWN), max_size=60))
def test_each_is_handed_on_once_and_in_order(steps: list[str]) -> None:
    browser, server = Browser("a"), Server()
    asks: list[Request] = []
    told: list[Any] = []
    answers = [server.draw()]

    def take(step: str) -> None:
        match step:
            case "ask":
                asks.append(browser.ask())
                told.append(browser.tell())
            case "tell again" if browser.waiting:
                told.append(browser.tell())
            case "the newer stays":
                del told[:-1]
            case "lost":
                del told[:1]
            case "taken" if told:
                server.run(told.pop(0))
            case "not reached" if told:
                server.run(told.pop(0), ends=True)
            case "ended after one" if told:
                server.run(told.pop(0), patience=1)
            case "drawn":
                answers.append(server.draw())
            case "missed":
                del answers[:1]
            case "seen" if answers:
                browser.drawn(answers.pop(0))

    for step in steps:
        take(step)
        assert server.done == asks[: len(server.done)]
    while browser.waiting or told:
        for step in ("tell again", "taken", "drawn", "seen"):
            take(step)
    assert server.done == asks


@given(st.lists(st.sampled_from(["ask", "tell again", "taken", "mounted anew"]), max_size=40))
def test_a_new_mount_counts_anew_and_what_the_old_one_asked_is_not_done_again(steps: list[str]) -> None:
    server, told, asks = Server(), [], []
    browser = Browser("0")
    server.draw()
    for step in steps:
        match step:
            case "ask":
                asks.append(browser.ask())
                told.append(browser.tell())
            case "tell again":
                told.append(browser.tell())
            case "taken" if told:
                server.run(told.pop(0))
            case "mounted anew":
                browser = Browser(str(int(browser.word) + 1))
    for value in told:
        server.run(value)
    assert server.done == asks


def test_all_that_is_new_comes_in_one_call_and_none_comes_without() -> None:
    server, browser = Server(), Browser("a")
    server.draw()
    for _ in range(3):
        browser.ask()
    server.run(browser.tell())
    assert (len(server.done), server.runs) == (3, 1)
    server.run(browser.tell())
    assert server.runs == 1, "a rerun for nothing would cost the page a refresh"


def test_a_long_silence_is_made_good_in_parts() -> None:
    server, browser = Server(), Browser("a")
    server.draw()
    for _ in range(2 * MOST + 1):
        browser.ask()
    for part in (MOST, 2 * MOST, 2 * MOST + 1):
        server.run(browser.tell())
        assert len(server.done) == part
        browser.drawn(server.draw())
    assert not browser.waiting


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["from", "asks", "verb"]), inner),
)


@given(VALUES | st.fixed_dictionaries({"from": VALUES | st.just("b"), "asks": VALUES | st.lists(VALUES)}))
def test_what_is_malformed_is_ignored(value: Any) -> None:
    taken = Taken("a", 3)
    found = list(taken.take(value))
    assert all(isinstance(request, dict) for request in found)
    if not found:
        assert (taken.mount, taken.number) == ("a", 3)


@pytest.mark.parametrize(
    "value",
    [
        None,
        "asked",
        {},
        {"from": "", "asks": [[1, {}]]},
        {"from": "x" * 1000, "asks": [[1, {}]]},
        {"from": 1, "asks": [[1, {}]]},
        {"from": "a", "asks": {"1": {}}},
        {"from": "a", "asks": [None, 1, [], [1], [1, 2], [{}, 1], ["1", {}], [1.5, {}], [0, {}], [-1, {}], [1, {}, 0]]},
        {"from": "a", "asks": [[[], {}]] * 100_000},
    ],
)
def test_no_request_is_found_in(value: Any) -> None:
    assert list(Taken().take(value)) == []


STRANGE: list[Request] = [
    {},
    {"verb": None},
    {"verb": []},
    {"verb": "explode"},
    {"verb": "look"},
    {"verb": "look", "turn": "1"},
    {"verb": "pause", "turn": {}},
    {"verb": "set", "change": [1]},
    {"verb": "set", "change": {"window": [1], "paused": "no", "x": {}}},
    {"verb": "undo"},
    {"verb": "undo", "change": 5},
    {"verb": "dismiss", "change": None},
]


def script() -> None:
    import streamlit as st

    from app.pages import live

    live.page(st.session_state["deck"])
    for handler in st.session_state["handlers"].values():
        handler(st.session_state["requests"])


def page(monkeypatch: pytest.MonkeyPatch, requests: list[Request], *keys: str) -> tuple[AppTest, FakeDeck]:
    """The Live page after the elements `keys` have been asked for `requests`; the deck without its calls before."""
    deck = SCENES["noise"]()
    tab = AppTest.from_function(script, default_timeout=60)
    handlers: dict[str, asked.Handler] = {}

    def mount(element: Any, data: dict[str, Any], key: str, on_asked: asked.Handler) -> None:
        if key in keys:
            handlers[key] = on_asked

    monkeypatch.setattr(components, "_asking", mount)
    tab.session_state["deck"], tab.session_state["handlers"], tab.session_state["requests"] = deck, handlers, requests
    deck.control.calls.clear()
    tab.run()
    assert not tab.exception
    assert set(handlers) == set(keys)
    return tab, deck


def test_no_element_stumbles_over_strange_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    tab, deck = page(monkeypatch, STRANGE, top.KEY, turns.KEY, effect_card.KEY, tour.KEY)
    assert tab.query_params == {}
    assert deck.control.calls == []
    assert deck.tour.calls == []


def test_the_head_does_all_that_is_asked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    changes = [{"events": "all"}, {"units": "machine"}]
    tab, _ = page(monkeypatch, [{"verb": "set", "change": change} for change in changes], top.KEY)
    assert dict(tab.query_params) == {"events": "all", "units": "machine"}


def test_the_table_does_all_that_is_asked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asks = [{"verb": "look", "turn": 4}, {"verb": "pause", "turn": 5}, {"verb": "drop", "turn": 6}]
    tab, deck = page(monkeypatch, asks, turns.KEY)
    assert deck.control.calls == [("pause", 5, "tab 1"), ("drop", 6, "tab 1")]
    assert tab.session_state["turn_opened"].turn == 4
