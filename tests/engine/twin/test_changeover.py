"""A twin in a real engine's place, and back to what ran before: one host, one command each way.

pytest tests/engine/twin/test_changeover.py
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from engine.body import Body, BodyConfig, Report, open_body
from engine.clock import Forward
from engine.errors import ModelError, Refused
from engine.geometry import KVDtype
from engine.host import Host, HostConfig
from engine.knobs import Knobs
from engine.snapshot import HostState
from engine.turn import Finish, TurnRequest
from tests.engine.lab import fake_body, prompt_of
from tests.engine.test_host import WAIT_S, Ear, Taken, until


@dataclass
class Opened:
    """Opens a fake real engine, or the twin. `asked`: each body's choice; `broken`: how the real one fails."""

    asked: list[BodyConfig] = field(default_factory=list)
    broken: str = ""
    taken: Taken = field(default_factory=Taken)

    def __call__(self, config: BodyConfig, report: Report) -> Body:
        self.asked.append(config)
        if config.backend == "twin":
            return open_body(config, report)
        if self.broken:
            raise ModelError(self.broken)
        return fake_body(512, 512)


@pytest.fixture
def opened() -> Opened:
    return Opened()


@pytest.fixture
def host(opened: Opened) -> Iterator[Host]:
    config = HostConfig(BodyConfig(model="default", backend="torch"), Knobs(max_running=3))
    host = Host(config, sinks=[opened.taken], open_body=opened)
    host.start()
    host.wait_ready(WAIT_S)
    yield host
    assert host.stop(WAIT_S)


def test_one_call_there_and_one_back_and_each_says_what_happens(host: Host, opened: Opened) -> None:
    real = host.snapshot
    said = host.start_twin("rx9070xt", "tab 1")
    stored = f"Session {real.session} stays stored."
    assert said == f"The engine stops, and the twin of RX 9070 XT starts in its place. {stored}"
    twin = host.wait_ready(WAIT_S)
    assert twin.twin
    assert twin.modelled is not None
    assert (twin.modelled.name, twin.modelled.pace) == ("RX 9070 XT", 1.0)
    assert twin.session.endswith("-modelled")
    assert (twin.knobs.max_running, twin.knobs.long_turn_tokens) == (8, 16_384)
    assert twin.bands is not None
    assert twin.bands.ceiling == round(15.5 * 2**30)
    with pytest.raises(Refused, match="the twin runs already"):
        host.start_twin("rx9070xt")
    said = host.leave_twin("tab 2")
    stored = f"The modelled session {twin.session} stays stored."
    assert said == f"The twin stops, and {real.model} on torch starts again. {stored}"
    back = host.wait_ready(WAIT_S)
    assert (back.twin, back.modelled, back.knobs) == (False, None, real.knobs)
    assert [config.backend for config in opened.asked] == ["torch", "twin", "torch"]
    assert opened.taken.sessions == [real.session, twin.session, back.session]
    ready = [event for event in opened.taken.events if "ready on" in event.text]
    assert [event.author for event in ready] == ["engine", "tab 1", "tab 2"]
    with pytest.raises(Refused, match="no twin runs"):
        host.leave_twin()


def test_knobs_that_an_operator_set_on_either_side_stay_on_that_side(host: Host, opened: Opened) -> None:
    pool = host.snapshot.knobs.host_pool_bytes
    changes = {"kv_dtype": "q8", "low_watermark": 0.5, "host_pool_bytes": pool // 2}
    left = host.set_knobs(changes, "test").result(WAIT_S)
    until(lambda: host.snapshot.knobs == left)
    host.start_twin("rx9070xt")
    assert host.wait_ready(WAIT_S).knobs.kv_dtype is KVDtype.FP16
    host.set_knobs({"max_running": 2}, "test").result(WAIT_S)
    until(lambda: host.snapshot.knobs.max_running == 2)
    host.leave_twin()
    back = host.wait_ready(WAIT_S)
    assert back.knobs.max_running == 3
    assert back.knobs.low_watermark == 0.5
    assert (opened.asked[-1].kv_dtype, opened.asked[-1].host_bytes) == (KVDtype.Q8, left.host_pool_bytes)


def test_turns_end_with_a_sentence_and_new_ones_go_to_the_twin(host: Host) -> None:
    ear, later = Ear(), Ear()
    host.submit(TurnRequest("agent", prompt_of(20), 400, ignore_eos=True), ear).result(WAIT_S)
    host.start_twin("rx9070xt")
    until(lambda: ear.finish is not None)
    assert ear.finish is Finish.ERROR
    host.wait_ready(WAIT_S)
    host.submit(TurnRequest("agent", (101,) * 20, 3), later).result(WAIT_S)
    until(lambda: later.finish is Finish.LENGTH)


def test_a_card_that_is_not_there_ends_nothing(host: Host) -> None:
    before = host.snapshot.session
    with pytest.raises(Refused, match="there is no card"):
        host.start_twin("nowhere")
    assert host.snapshot.session == before
    with pytest.raises(Refused, match="runs a real model"):
        host.set_card({"pace": 10.0}).result(WAIT_S)


def test_a_real_engine_that_fails_to_come_back_leaves_both_ways_open(host: Host, opened: Opened) -> None:
    host.start_twin("rx9070xt")
    host.wait_ready(WAIT_S)
    opened.broken = "the model file is gone"
    host.leave_twin()
    until(lambda: host.snapshot.state is HostState.FAILED)
    assert not host.snapshot.twin
    host.start_twin("rx9070xt")
    host.wait_ready(WAIT_S)
    opened.broken = ""
    host.leave_twin()
    assert host.wait_ready(WAIT_S).knobs.max_running == 3


def test_the_model_box_crosses_over_with_each_sides_own_sizes(host: Host, opened: Opened) -> None:
    host.restart(backend="twin", author="tab 1")
    assert host.wait_ready(WAIT_S).average_turn_tokens == 6_144
    host.restart(model="org/other", backend="torch", author="tab 1")
    back = host.wait_ready(WAIT_S)
    assert (back.average_turn_tokens, back.knobs.max_running) == (768, 3)
    assert (opened.asked[-1].model, opened.asked[-1].host_bytes) == ("org/other", None)


def test_a_clock_over_several_engines_never_runs_back() -> None:
    of_engine = iter((10.0, 50.0, 12.0, 13.0, 99.0, 14.0))
    clock = Forward(lambda: next(of_engine))
    assert [clock() for _ in range(6)] == [10.0, 50.0, 50.0, 51.0, 137.0, 137.0]
