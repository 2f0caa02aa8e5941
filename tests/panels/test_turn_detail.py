"""The pane of an open turn: what it says, when it asks the engine, and what it keeps of a turn that is over."""

import dataclasses
import json
from concurrent.futures import Future

import pytest

from engine.errors import Refused
from engine.snapshot import TurnDetail
from engine.turn import TurnId
from panels import turn_detail
from panels.scale import Scale
from panels.turn_detail import Opened
from tests.panels.fake_control import CARD, PROMPT, FakeControl


def detail_of(control: FakeControl, turn: int) -> TurnDetail:
    return control.turn_detail(TurnId(turn)).result()


@pytest.fixture
def control() -> FakeControl:
    return FakeControl(at=75.0)


@pytest.fixture
def opened(control: FakeControl) -> Opened:
    return Opened(control.snapshot.session, TurnId(11))


def test_it_says_what_the_turn_is_what_it_holds_and_what_it_paid(control: FakeControl) -> None:
    detail = detail_of(control, 11)
    facts, costs = dict(turn_detail.facts(detail, Scale(CARD))), dict(turn_detail.costs(detail, Scale(None)))
    assert facts["phase"].startswith("blocked: pytest, since 14:")
    assert (facts["KV here"], facts["host copy"]) == ("0 B", "957 MiB")
    assert costs["swapped out"] == "2 times, 36.0 MiB, 42.0 ms"
    assert costs["recomputed"] == "640 tokens, 1.33 s"
    assert costs["waited for a slot"] == "7.40 s, 6 % of its life"
    assert costs["preempted"] == "never"


def test_bytes_are_at_the_present_scale_and_the_note_says_so(control: FakeControl, opened: Opened) -> None:
    seen = turn_detail.follow(opened, control, opened.session)
    card, here = (turn_detail.pane(seen, scale, control.model) for scale in (Scale(CARD), Scale(None)))
    assert dict(card["facts"])["host copy"] != dict(here["facts"])["host copy"]
    assert card["note"].startswith("Bytes: card scale × 56.7.")
    assert here["note"].startswith("Bytes: this machine's bytes.")


def test_the_end_of_the_text_is_kept_and_what_is_cut_is_marked(control: FakeControl) -> None:
    detail = detail_of(control, 1)
    said = tuple(map(ord, "\ufffdabc" * 900))
    long = dataclasses.replace(detail, text_end=said, text_tokens=9_000)
    pane = turn_detail.pane(Opened("s", TurnId(1), detail=long), Scale(None), control.model)
    assert pane["prompt"] == PROMPT, "markup of a prompt is text"
    assert pane["text"][0] == "…"
    assert not pane["text"].startswith("…\ufffd")
    assert len(pane["text"]) <= turn_detail.TEXT_CHARACTERS + 1
    assert len(json.dumps(pane)) < 12_000
    assert turn_detail.pane(Opened("s", TurnId(1), detail=long), Scale(None), None)["no_text"].startswith("n/a")


def test_an_engine_in_a_long_step_is_asked_once_and_the_last_answer_stays(
    control: FakeControl, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn_detail, "PATIENCE_S", 0.01)
    opened = turn_detail.follow(opened, control, opened.session)
    asked: list[Future[TurnDetail]] = []

    def slow(self: FakeControl, turn: TurnId) -> "Future[TurnDetail]":
        asked.append(Future())
        return asked[-1]

    monkeypatch.setattr(FakeControl, "turn_detail", slow)
    for _ in range(3):
        waiting = turn_detail.follow(opened, control, opened.session)
        assert waiting.detail == opened.detail
        opened = waiting
    assert len(asked) == 1
    assert opened.detail is not None
    later = dataclasses.replace(opened.detail, at_utc=opened.detail.at_utc + 9)
    asked[0].set_result(later)
    assert turn_detail.follow(opened, control, opened.session).detail == later


def test_a_turn_that_ended_stays_with_how(control: FakeControl, opened: Opened) -> None:
    opened = turn_detail.follow(opened, control, opened.session)
    control.cancel(opened.turn)
    over = turn_detail.follow(opened, control, opened.session)
    assert over.detail is not None
    pane = turn_detail.pane(over, Scale(None), control.model)
    assert pane["over"] == "agent 7 cancelled while blocked"
    assert pane["text"]
    assert turn_detail.follow(over, control, opened.session) is over


def test_one_that_the_engine_forgot_or_of_an_earlier_life_keeps_what_was_seen(
    control: FakeControl, opened: Opened
) -> None:
    opened = turn_detail.follow(opened, control, opened.session)
    assert turn_detail.follow(opened, control, "another").over == "The engine has been started anew since."
    gone = turn_detail.follow(Opened(opened.session, TurnId(400)), control, opened.session)
    assert "turn 400 is not known" in gone.over
    assert turn_detail.pane(gone, Scale(None), control.model)["over"] == gone.over


def test_an_engine_that_stopped_says_so(opened: Opened, monkeypatch: pytest.MonkeyPatch, control: FakeControl) -> None:
    def refuse(self: FakeControl, turn: TurnId) -> "Future[TurnDetail]":
        future: Future[TurnDetail] = Future()
        future.set_exception(Refused("the engine has stopped; restart it first"))
        return future

    monkeypatch.setattr(FakeControl, "turn_detail", refuse)
    assert turn_detail.follow(opened, control, opened.session).over == "the engine has stopped; restart it first"
