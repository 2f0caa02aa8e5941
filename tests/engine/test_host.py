"""The host's thread: start, commands from other threads, faults, restart, stop (DESIGN rules 4 and 5)."""

import threading
import time
import weakref
from collections.abc import Callable

import numpy as np
import pytest

from engine.body import Body, BodyConfig, Report
from engine.clock import EngineClock, iso_utc
from engine.errors import ModelError, Refused, UnknownTurn
from engine.events import Event, Interval
from engine.host import Host, HostConfig
from engine.snapshot import HostState, Sample, Snapshot, Startup
from engine.turn import Finish, Phase, TurnId, TurnRequest, TurnUpdate
from tests.engine.backends.fake_executor import FakeExecutor, expected_tokens
from tests.engine.lab import fake_body, prompt_of

WAIT_S = 20.0


def until(ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not ready():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.005)


class Taken:
    """A sink that keeps everything."""

    behind = 0

    def __init__(self) -> None:
        self.sessions: list[str] = []
        self.events: list[Event] = []
        self.intervals: list[Interval] = []
        self.samples: list[Sample] = []

    def begin(self, session: str, snapshot: Snapshot) -> None:
        self.sessions.append(session)

    def event(self, event: Event) -> None:
        self.events.append(event)

    def interval(self, interval: Interval) -> None:
        self.intervals.append(interval)

    def sample(self, sample: Sample) -> None:
        self.samples.append(sample)


class Ear:
    """A client."""

    def __init__(self) -> None:
        self.updates: list[TurnUpdate] = []

    def __call__(self, update: TurnUpdate) -> None:
        self.updates.append(update)

    @property
    def tokens(self) -> list[int]:
        return [t for u in self.updates for t in u.tokens]

    @property
    def finish(self) -> Finish | None:
        return next((u.finish for u in self.updates if u.finish), None)


def ask(prompt: int = 20, tokens: int = 8) -> TurnRequest:
    return TurnRequest("agent", prompt_of(prompt), tokens, ignore_eos=True)


def test_a_turn_comes_back_token_by_token(host: Host) -> None:
    ear = Ear()
    host.submit(ask(), ear).result(WAIT_S)
    until(lambda: ear.finish is not None)
    assert ear.tokens == expected_tokens(prompt_of(20), 8)
    assert ear.updates[-1].phase is Phase.DONE
    assert ear.finish is Finish.LENGTH
    until(lambda: host.snapshot.state is HostState.IDLE)
    assert host.snapshot.turns == ()


def test_a_turns_detail_comes_at_a_token_boundary_and_says_how_it_ended(host: Host) -> None:
    turn = host.submit(ask(tokens=400)).result(WAIT_S)
    until(lambda: host.turn_detail(turn).result(WAIT_S).text_tokens > 3)
    host.cancel(turn).result(WAIT_S)
    assert host.turn_detail(turn).result(WAIT_S).ended.startswith("agent cancelled while ")
    with pytest.raises(Refused, match="turn 77 is not known"):
        host.turn_detail(TurnId(77)).result(WAIT_S)


def test_a_refusal_reaches_the_caller_and_the_engine_goes_on(host: Host) -> None:
    with pytest.raises(Refused, match="never fit"):
        host.submit(ask(1500)).result(WAIT_S)
    with pytest.raises(Refused, match="Slots 0"):
        host.set_knobs({"max_running": 0}).result(WAIT_S)
    assert host.snapshot.knobs.max_running == 8
    ear = Ear()
    host.submit(ask(), ear).result(WAIT_S)
    until(lambda: ear.finish is not None)


def test_commands_from_many_threads_are_each_answered(host: Host) -> None:
    ears = [Ear() for _ in range(24)]
    threads = [threading.Thread(target=lambda e=e: host.submit(ask(12, 5), e).result(WAIT_S)) for e in ears]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    until(lambda: all(e.finish for e in ears))
    assert {tuple(e.tokens) for e in ears} == {tuple(expected_tokens(prompt_of(12), 5))}


def test_a_listener_that_raises_is_cut_off_alone(host: Host) -> None:
    def broken(update: TurnUpdate) -> None:
        raise KeyError("mine")

    ear = Ear()
    host.submit(ask(), broken).result(WAIT_S)
    host.submit(ask(), ear).result(WAIT_S)
    until(lambda: ear.finish is not None)
    assert any("listener failed" in e.text for e in host.events())
    until(lambda: host.snapshot.turns == ())


def test_a_fault_in_one_turn_fails_that_turn_alone(host: Host, executor: FakeExecutor) -> None:
    def spoil(count: int, logits: np.ndarray) -> None:
        if count == 33:
            logits[:] = np.nan

    executor.spoil = spoil
    bad, good = Ear(), Ear()
    host.submit(ask(33, 8), bad).result(WAIT_S)
    host.submit(ask(10, 8), good).result(WAIT_S)
    until(lambda: bool(bad.finish and good.finish))
    assert bad.finish is Finish.ERROR
    assert "score" in (bad.updates[-1].error or "")
    assert good.tokens == expected_tokens(prompt_of(10), 8)


def test_a_warning_of_the_backend_is_shown_while_it_holds_and_is_one_event(host: Host, executor: FakeExecutor) -> None:
    executor.warn = "Keys of layer 0 are too uneven for q8"
    host.set_knobs({"kv_dtype": "q8"}).result(WAIT_S)
    until(lambda: host.snapshot.warning == executor.warn)
    host.note("Swarm at speed 2", "page").result(WAIT_S)
    host.set_knobs({"kv_dtype": "fp16"}).result(WAIT_S)
    until(lambda: host.snapshot.warning is None)
    texts = [e.text for e in host.events()]
    assert texts.count(executor.warn) == 1
    assert "Swarm at speed 2" in texts


def test_a_fault_of_the_engine_stops_it_loudly_and_a_restart_heals(
    host: Host, executor: FakeExecutor, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ear = Ear()
    host.set_knobs({"max_running": 3, "policy": "resident-only"}, "page").result(WAIT_S)
    host.submit(ask(20, 10_000), ear).result(WAIT_S)
    until(lambda: len(ear.tokens) > 2)
    monkeypatch.setattr("engine.loop.decide", lambda *a: 1 / 0)
    until(lambda: host.snapshot.state is HostState.FAILED)
    assert "ZeroDivisionError" in (host.snapshot.error or "")
    until(lambda: ear.finish is Finish.ERROR)
    with pytest.raises(Refused, match="restart it first"):
        host.submit(ask()).result(WAIT_S)
    assert "ZeroDivisionError" in capsys.readouterr().err
    monkeypatch.undo()
    host.restart(author="tab 1")
    host.wait_ready(WAIT_S)
    assert (host.events()[0].text, host.events()[0].author) == ("torch ready on torch", "tab 1")
    assert (host.snapshot.knobs.max_running, host.snapshot.knobs.policy) == (3, "resident-only")
    again = Ear()
    host.submit(ask(), again).result(WAIT_S)
    until(lambda: again.finish is not None)


def test_a_turns_number_is_not_given_again_after_a_restart(host: Host) -> None:
    """Who still knows a turn of the engine before must not reach a stranger's by its number."""
    earlier = [host.submit(ask(tokens=10_000)).result(WAIT_S) for _ in range(3)]
    host.restart()
    host.wait_ready(WAIT_S)
    stranger = host.submit(ask(tokens=400)).result(WAIT_S)
    assert stranger not in earlier
    for turn in earlier:
        with pytest.raises(UnknownTurn, match="is not known"):
            host.cancel(turn, "tab 1").result(WAIT_S)
    assert host.turn_detail(stranger).result(WAIT_S).ended == ""


def test_a_restart_frees_the_engine_before_it() -> None:
    bodies: list[weakref.ref[object]] = []

    def opening(config: BodyConfig, report: Report) -> Body:
        body = fake_body(256, 256)
        bodies.append(weakref.ref(body.backend))
        return body

    host = Host(open_body=opening)
    host.start()
    host.wait_ready(WAIT_S)
    host.restart()
    host.wait_ready(WAIT_S)
    assert bodies[0]() is None
    assert bodies[1]() is not None
    assert host.stop(WAIT_S)


def test_a_typo_ends_nothing_and_a_model_that_fails_leaves_the_way_back() -> None:
    opened: list[str | None] = []

    def opening(config: BodyConfig, report: Report) -> Body:
        opened.append(config.model)
        if config.model == "org/broken":
            raise ModelError("org/broken: not on Hugging Face")
        return fake_body(256, 256)

    host = Host(open_body=opening)
    host.start()
    ran = host.wait_ready(WAIT_S)
    with pytest.raises(ModelError, match="no such file"):
        host.restart("/no/such.gguf")
    assert host.snapshot.session == ran.session
    host.restart("org/broken")
    until(lambda: host.snapshot.state is HostState.FAILED)
    assert host.snapshot.ran_before == ran.model
    host.restart()
    assert host.wait_ready(WAIT_S).ran_before is None
    host.restart("org/other")
    host.wait_ready(WAIT_S)
    host.restart()
    host.wait_ready(WAIT_S)
    assert opened == [None, "org/broken", None, "org/other", "org/other"]
    assert host.stop(WAIT_S)


def test_the_start_shows_its_progress_and_a_model_error_is_one_sentence() -> None:
    seen: list[Startup | None] = []
    go_on = threading.Event()

    def opening(config: BodyConfig, report: Report) -> Body:
        report(Startup("download", 0.5, "half of it"))
        seen.append(host.snapshot.startup)
        go_on.wait(WAIT_S)
        raise ModelError("x.gguf is cut off at 8 bytes; fetch it again")

    host = Host(open_body=opening)
    assert host.snapshot.state is HostState.STOPPED
    host.start()
    until(lambda: bool(seen))
    assert host.snapshot.state is HostState.STARTING
    assert seen[0] == Startup("download", 0.5, "half of it")
    go_on.set()
    with pytest.raises(Refused, match="cut off at 8 bytes"):
        host.wait_ready(WAIT_S)
    assert host.stop(WAIT_S)


def test_stop_during_the_start_ends_at_the_next_report() -> None:
    reports = threading.Event()

    def opening(config: BodyConfig, report: Report) -> Body:
        while True:
            report(Startup("compile", None, "kernels"))
            reports.set()
            time.sleep(0.005)

    host = Host(open_body=opening)
    host.start()
    reports.wait(WAIT_S)
    assert host.stop(WAIT_S)
    assert host.snapshot.state is HostState.FAILED
    assert "called off" in (host.snapshot.error or "")


def test_stop_leaves_nobody_waiting() -> None:
    sink = Taken()
    host = Host(sinks=[sink], open_body=lambda config, report: fake_body(1024, 2048))
    host.start()
    host.start()
    host.wait_ready(WAIT_S)
    ear = Ear()
    host.submit(ask(20, 10_000), ear).result(WAIT_S)
    until(lambda: len(ear.tokens) > 2)
    assert host.stop(WAIT_S)
    assert ear.finish is Finish.ERROR
    assert "stopped" in (ear.updates[-1].error or "")
    with pytest.raises(Refused, match="has stopped"):
        host.cancel(ear.updates[0].turn).result(WAIT_S)
    assert sink.sessions == [host.snapshot.session]
    assert {i.phase for i in sink.intervals} >= {Phase.WAITING, Phase.DECODE}
    assert sink.samples
    assert threading.active_count() < 20


def test_every_sample_belongs_to_the_session_that_has_begun() -> None:
    order: list[str] = []

    class Ordered(Taken):
        def begin(self, session: str, snapshot: Snapshot) -> None:
            order.append(session)

        def sample(self, sample: Sample) -> None:
            order.append("sample")

    host = Host(sinks=[Ordered()], open_body=lambda config, report: fake_body(256, 256))
    for _ in range(2):
        host.start()
        host.wait_ready(WAIT_S)
        until(lambda: order[-1] == "sample")
        assert host.stop(WAIT_S)
    begun = [place for place, name in enumerate(order) if name != "sample"]
    assert (begun[0], len(begun)) == (0, 2)
    assert host.samples()


def test_two_starts_in_the_same_instant_make_one_engine() -> None:
    opened: list[int] = []

    def opening(config: BodyConfig, report: Report) -> Body:
        opened.append(1)
        time.sleep(0.2)
        return fake_body(256, 256)

    host = Host(open_body=opening)
    starters = [threading.Thread(target=host.start) for _ in range(8)]
    for thread in starters:
        thread.start()
    for thread in starters:
        thread.join(WAIT_S)
    host.wait_ready(WAIT_S)
    assert opened == [1]
    assert sum(t.name == "parkdeck-engine" for t in threading.enumerate()) == 1
    assert host.stop(WAIT_S)


def test_a_wall_clock_set_back_never_makes_a_span_negative() -> None:
    mono = iter((10.0, 11.0, 12.0))
    wall = iter((5_000.0, 1_400.0))
    clock = EngineClock(monotonic=lambda: next(mono), wall=lambda: next(wall))
    first, second = clock.utc(clock.now()), clock.utc(clock.now())
    assert second - first == 1.0
    assert iso_utc(0.25) == "1970-01-01T00:00:00.250Z"


def test_an_engine_that_lets_the_page_go_first_can_be_stopped_meanwhile() -> None:
    opened: list[BodyConfig] = []

    def opening(config: BodyConfig, report: Report) -> Body:
        opened.append(config)
        return fake_body(256, 256)

    host = Host(HostConfig(head_start_s=600.0), open_body=opening)
    host.start()
    assert host.snapshot.state is HostState.STARTING
    assert host.stop(WAIT_S)
    assert opened == []
