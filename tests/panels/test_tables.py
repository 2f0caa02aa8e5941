"""Turns, events, host pool, top line, states, hardware: what they say."""

import dataclasses
import json
import time
from concurrent.futures import Future
from typing import Any

import pytest

from engine.events import Event, EventKind
from engine.snapshot import HostState, Startup
from engine.telemetry.gpu import GpuSample, GpuState
from engine.telemetry.hardware import HardwareSample
from engine.turn import Phase, Tier, TurnId
from panels import asking, components, downloads, hardware, side, states, top, turns, units
from panels.page_state import PLAIN
from panels.scale import Scale
from tests.panels.fake_control import CARD, START_UTC, FakeControl


def rows_of(shown: turns.Table) -> list[dict[str, Any]]:
    return [dict(zip(turns.FIELDS, row, strict=True)) for row in shown.rows]


def test_rows_stay_where_they_are_whatever_their_phase() -> None:
    snapshot = FakeControl(at=75.0).snapshot
    other = {Phase.DECODE: Phase.BLOCKED, Phase.BLOCKED: Phase.DECODE}
    moved = tuple(row._replace(phase=other.get(row.phase, row.phase)) for row in snapshot.turns)
    first, then = (turns.table(dataclasses.replace(snapshot, turns=t), Scale(CARD)) for t in (snapshot.turns, moved))
    assert [row["id"] for row in rows_of(first)] == [row["id"] for row in rows_of(then)]
    assert rows_of(first)[0]["priority"] == "foreground"


def test_a_column_has_one_unit() -> None:
    snapshot = FakeControl(at=75.0).snapshot
    card, here = turns.table(snapshot, Scale(CARD)), turns.table(snapshot, Scale(None))
    assert (card.heads["kv"], here.heads["kv"]) == ("KV, GiB", "KV, MiB")
    assert card.heads["in_phase"] == "in phase,\u00a0s"
    resident = [
        (at_card, as_it_is) for at_card, as_it_is in zip(rows_of(card), rows_of(here), strict=True) if at_card["kv"]
    ]
    for at_card, as_it_is in resident:
        assert at_card["kv"] * 1024 == pytest.approx(as_it_is["kv"] * CARD.factor, abs=1.0)


def test_a_blocked_turn_names_its_tool_and_its_tier() -> None:
    row = next(r for r in rows_of(turns.table(FakeControl(at=75.0).snapshot, Scale(CARD))) if r["tool"])
    assert (row["phase"], row["tool"], row["tier"]) == ("blocked", "pytest", "host")


def test_a_turn_without_kv_says_none_not_zero() -> None:
    rows = rows_of(turns.table(FakeControl(at=75.0).snapshot, Scale(CARD)))
    assert {row["tier"] for row in rows if row["kv"] is None} == {"dropped"}
    assert all(row["kv"] > 0 for row in rows if row["tier"] != "dropped")


def test_what_may_be_asked_is_sent_in_the_order_of_the_buttons() -> None:
    by_id = {row["id"]: row for row in rows_of(turns.table(FakeControl(at=75.0).snapshot, Scale(None)))}
    assert (by_id[2]["can"], by_id[2]["held"]) == (0b1111, 0)
    assert (by_id[10]["can"], by_id[10]["held"]) == (0b1111, 1)
    assert by_id[11]["can"] == 0b1101, "what is in the host pool cannot be swapped out"
    assert by_id[12]["can"] == 0b1001, "what is dropped can only be paused and cancelled"


def test_an_action_keeps_its_column_and_says_whether_it_applies() -> None:
    by_id = {int(row.id): row for row in FakeControl(at=75.0).snapshot.turns}
    running, held, parked = by_id[2], by_id[10], by_id[11]
    assert turns.actions(running) == (("pause", True), ("swap_out", True), ("drop", True), ("cancel", True))
    assert turns.actions(held)[0] == ("resume", True)
    assert turns.actions(parked) == (("pause", True), ("swap_out", False), ("drop", True), ("cancel", True))
    dropped = parked._replace(tier=Tier.DROPPED, phase=Phase.WAITING)
    assert [applies for _, applies in turns.actions(dropped)] == [True, False, False, True]


@pytest.mark.parametrize("verb", ["pause", "resume", "swap_out", "drop", "cancel"])
def test_an_action_reaches_the_engine_and_answers_in_a_sentence(verb: turns.Verb) -> None:
    control = FakeControl(at=75.0)
    done = turns.perform(control, verb, 4, "tab 2")
    assert control.calls == [(verb, 4, "tab 2")]
    assert (done.answer.tone, done.turn, done.future) == ("good", 4, None)
    assert "turn 4" in done.answer.text


def test_a_refused_action_shows_the_engines_sentence_and_has_no_undo() -> None:
    control = FakeControl(at=75.0, refuse="turn 4 is not known; it has ended")
    refused = turns.perform(control, "pause", 4, "tab 2")
    assert refused.answer == asking.Answer("turn 4 is not known; it has ended", "bad")
    assert turns.may_undo(refused, control.snapshot) is None
    assert turns.perform(control, "explode", 4, "tab 2").answer.tone == "bad"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("verb", "turn", "undo"),
    [
        ("pause", 4, "resume"),
        ("resume", 10, "pause"),
        ("swap_out", 4, "resume"),
        ("swap_out", 10, None),  # resuming would end its pause too
        ("swap_out", 11, None),  # a blocked turn comes back with its tool's result
        ("drop", 4, None),
        ("cancel", 4, None),
    ],
)
def test_what_can_be_taken_back_has_an_undo(verb: turns.Verb, turn: int, undo: turns.Verb | None) -> None:
    control = FakeControl(at=75.0)
    done = turns.perform(control, verb, turn, "tab 2")
    assert turns.may_undo(done, control.snapshot) == undo
    if undo:
        before = {row.id: row.held for row in FakeControl(at=75.0).snapshot.turns}[TurnId(turn)]
        turns.perform(control, undo, turn, "tab 2")
        assert {row.id: row.held for row in control.snapshot.turns}[TurnId(turn)] == before


def test_an_undo_goes_when_somebody_else_was_faster() -> None:
    control = FakeControl(at=75.0)
    done = turns.perform(control, "pause", 4, "tab 2")
    control.resume(TurnId(4))
    control.advance(1.0)
    assert turns.may_undo(done, control.snapshot) is None
    paused = turns.perform(control, "pause", 4, "tab 2")
    control.cancel(TurnId(4))
    assert turns.may_undo(paused, control.snapshot) is None


def test_an_answer_that_comes_late_is_told_then() -> None:
    late: Future[str] = Future()
    done = turns.Done(TurnId(4), asking.Answer("asked", "wait"), "resume", 1.0, late)
    assert turns.settled(done) is done
    late.set_result("agent 4 paused")
    assert turns.settled(done).answer == asking.Answer("agent 4 paused")


def test_an_engine_in_a_long_step_does_not_hold_the_page() -> None:
    never: Future[str] = Future()
    assert asking.outcome(never, "drop turn 4", patience=0.01).tone == "wait"


def test_what_is_sent_is_bounded() -> None:
    snapshot = FakeControl(at=75.0).snapshot
    long = snapshot.turns[1]._replace(agent="a" * 10_000, tool="t" * 10_000)
    many = tuple(long._replace(id=TurnId(i)) for i in range(1_200))
    shown = turns.table(dataclasses.replace(snapshot, turns=many), Scale(None))
    assert (len(shown.rows), shown.unsent) == (turns.SENT_ROWS, 200)
    assert len(json.dumps(shown.rows, separators=(",", ":"))) < turns.SENT_ROWS * 320


def test_five_hundred_turns_are_at_most_75_bytes_each_beside_their_names() -> None:
    shown = turns.table(FakeControl(at=75.0, crowd=488).snapshot, Scale(CARD))
    names = sum(len(row["agent"]) + len(row["tool"]) for row in rows_of(shown))
    assert len(shown.rows) == 500
    assert len(json.dumps(shown.rows, separators=(",", ":"))) - names < 500 * 75


def test_no_turns_says_what_to_do() -> None:
    empty = FakeControl(state=HostState.IDLE, at=5.0, empty=True)
    assert "Start the swarm" in turns.table(empty.snapshot, Scale(None)).empty
    failed = FakeControl(state=HostState.FAILED, at=5.0, error="a fault")
    assert "Restart it" in turns.table(failed.snapshot, Scale(None)).empty


def test_events_newest_first_in_utc_and_quiet_by_default() -> None:
    control = FakeControl(at=112.0)
    quiet, loud = (side.event_rows(control.events(), Scale(CARD), quiet=quiet) for quiet in (True, False))
    assert quiet[0]["text"] == "agent 7 back from host"
    assert loud[0]["text"] == "agent 7 waits on pytest"
    assert quiet[0]["time"] == "14:14:52"
    assert len({row["id"] for row in loud}) == len(loud)
    assert 'UTC<span class="newest">, newest first' in components.SIDE_HTML


def test_event_details_say_who_and_how_long() -> None:
    event = Event(1.0, START_UTC, 7, EventKind.SWAP_OUT, "governor", "x", nbytes=18 << 20, seconds=0.021)
    (row,) = side.event_rows([event], Scale(CARD))
    assert row["detail"] == "swap out, step 7, by governor, 18.0 MiB of this machine, 21.0 ms"
    assert row["note"] == "1,021\u00a0MiB, 21.0\u00a0ms", "a copy's bytes at the page's scale, each figure on one line"


def test_the_author_is_named_where_it_is_not_the_engine() -> None:
    authors = ("governor", "engine", "page", "cli")
    events = [dataclasses.replace(swap(i, author=author), nbytes=None) for i, author in enumerate(authors)]
    assert [row["note"] for row in side.event_rows(events, Scale(None))] == ["by cli", "by page", "", ""]


def test_repeated_events_in_a_row_are_one_line_with_their_bytes_and_span() -> None:
    events = [swap(i) for i in range(6)]
    (group,) = side.event_rows(events, Scale(None))
    assert group["text"] == "swap out × 6, 108 MiB"
    assert group["note"] == f"{units.clock(events[0].utc)} to {units.clock(events[-1].utc)}"
    assert [row["text"] for row in group["members"]] == [event.text for event in reversed(events)]
    (scaled,) = side.event_rows(events, Scale(CARD))
    assert scaled["text"] == f"swap out × 6, {units.size(6 * 18 * 2**20 * CARD.factor)}"
    assert "card scale" in scaled["detail"]


def test_a_group_keeps_its_id_while_others_join() -> None:
    first = [swap(i) for i in range(3)]
    before, after = (side.event_rows([*first, *more], Scale(None)) for more in ((), (swap(3), swap(4))))
    assert before[0]["id"] == after[0]["id"]
    assert before[0]["id"] not in {row["id"] for row in after[0]["members"]}


def test_two_alike_and_what_another_kind_parts_are_not_grouped() -> None:
    between = dataclasses.replace(swap(2), kind=EventKind.SWAP_IN)
    rows = side.event_rows([swap(0), swap(1), between, swap(3), swap(4)], Scale(None))
    assert [len(row["members"]) for row in rows] == [0] * 5
    knobs = [dataclasses.replace(swap(i), kind=EventKind.KNOB, name=name, author="page", nbytes=None)
             for i, name in enumerate(["high_watermark"] * 3 + ["low_watermark"] * 3)]  # fmt: skip
    texts = [row["text"] for row in side.event_rows(knobs, Scale(None))]
    assert texts == ["Low watermark × 3", "High watermark × 3"]


@pytest.mark.parametrize("kind", [EventKind.FAIL, EventKind.STALL, EventKind.REFUSE])
def test_what_went_wrong_stands_alone_and_says_so(kind: EventKind) -> None:
    rows = side.event_rows([dataclasses.replace(swap(i), kind=kind) for i in range(4)], Scale(None))
    assert [row["tone"] for row in rows] == ["bad"] * 4
    assert all(row["text"].startswith("failed: ") == (kind is EventKind.FAIL) for row in rows)


def test_a_day_of_events_is_a_bounded_list() -> None:
    kinds = (EventKind.SWAP_OUT, EventKind.SWAP_IN)
    events = [dataclasses.replace(swap(i), kind=kinds[i // 500 % 2]) for i in range(20_000)]
    rows = side.event_rows(events, Scale(None))
    assert len(rows) == 40
    assert rows[0]["text"].startswith("swap in × 500, ")
    assert {len(row["members"]) for row in rows} == {side.SENT_MEMBERS}
    mixed = [dataclasses.replace(swap(i), kind=kinds[i % 2]) for i in range(20_000)]
    assert len(side.event_rows(mixed, Scale(None))) == side.SHOWN_EVENTS


def swap(number: int, author: str = "governor") -> Event:
    at = 1.5 * number
    return Event(at, START_UTC + at, number, EventKind.SWAP_OUT, author, f"agent {number} to host: watermark",
                 turn=TurnId(number), nbytes=18 << 20, seconds=0.02)  # fmt: skip


def test_host_pool_in_bytes_and_tokens() -> None:
    state = side.pool(FakeControl(at=75.0).snapshot, Scale(CARD))
    assert state.line.endswith("of 57.0 GiB · 1 turn")
    assert state.tokens.startswith("768 of about 46,848 tokens")
    assert 0 < state.fraction < 0.1


def test_the_age_of_the_figures_is_that_by_the_engines_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wall clock may be set while the engine runs, and its own utc stays where it began."""
    snapshot = FakeControl(at=60.0).snapshot
    for wall in (snapshot.utc - 3600, snapshot.utc + 3600):
        monkeypatch.setattr(time, "time", lambda wall=wall: wall)
        assert top.shown(snapshot, PLAIN, None, now=60.0)["age_s"] == 0.0
        assert top.shown(snapshot, PLAIN, None, now=72.0)["age_s"] == 12.0
    assert top.shown(snapshot, PLAIN, None, now=59.0)["age_s"] == 0.0, "a snapshot of after the reading"


def test_progress_runs_on_over_the_stages() -> None:
    marks = [states.overall(Startup(stage, fraction, "")) for stage in states.STAGES for fraction in (0.0, 0.5)]
    assert marks == sorted(marks)
    assert states.overall(None) == 0.0
    assert states.next_stages("load") == "Then: compile, calibrate, and the engine runs."
    assert states.next_stages("calibrate") == "Then the engine runs."


def test_a_missing_sensor_is_not_zero() -> None:
    assert hardware.line(None) == "CPU n/a · memory n/a · GPU n/a"
    gpu = GpuSample("0000:03:00.0", "card", GpuState.ACTIVE)
    text = hardware.line(HardwareSample(1.0, None, None, None, 2 << 30, 1 << 30, True, None, 2, (gpu,)))
    assert text.startswith("CPU n/a · memory 1.00 GiB of 2.00 GiB (limit of the container) · this process n/a")
    assert text.endswith("card n/a, VRAM n/a of n/a, power n/a, temperature n/a")


def test_a_sleeping_gpu_is_asleep() -> None:
    gpu = GpuSample("0000:03:00.0", "card", GpuState.ASLEEP)
    assert hardware.line(HardwareSample(1.0, 1.0, 1.0, 1, 2, 1, False, None, 2, (gpu,))).endswith("card asleep")


def test_downloads_are_off_until_a_session_is_recorded() -> None:
    data = downloads.links("")
    assert [file["name"] for file in data["files"]] == ["timeline.csv", "samples.csv", "events.csv"]
    assert data["off"]
    assert not downloads.links("session-1")["off"]
