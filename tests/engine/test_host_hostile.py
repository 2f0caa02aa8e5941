"""What clients and sinks may do to the host: values of the wrong kind, listeners and sinks that raise, odd orders of
start and stop. The engine runs on, or says loudly that it does not."""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from engine.control import Unblock
from engine.errors import Refused
from engine.events import Interval
from engine.host import Host
from engine.snapshot import HostState
from engine.turn import TurnId, TurnRequest, TurnUpdate
from tests.engine.lab import fake_body, prompt_of
from tests.engine.test_host import WAIT_S, Ear, Taken, until


def request(**changed: Any) -> TurnRequest:
    return replace(TurnRequest("agent", prompt_of(10), 4), **changed)


def works(host: Host) -> None:
    ear = Ear()
    host.submit(request(), ear).result(WAIT_S)
    until(lambda: bool(ear.finish))
    assert len(ear.tokens) == 4


ODD: list[Callable[[Host], "Future[Any]"]] = [
    lambda host: host.submit(request(prompt=("x",))),
    lambda host: host.submit(request(prompt="hello")),
    lambda host: host.submit(request(prompt=np.arange(3))),
    lambda host: host.submit(request(prompt=(1.0, 2.0))),
    lambda host: host.submit(request(priority=1)),
    lambda host: host.submit(request(sampling=None)),
    lambda host: host.submit(request(stop=None)),
    lambda host: host.submit(request(stop=(5,))),
    lambda host: host.submit(request(agent=7)),
    lambda host: host.submit(request(max_tokens="many")),
    lambda host: host.submit("turn"),  # type: ignore[arg-type]
    lambda host: host.cancel([1]),  # type: ignore[arg-type]
    lambda host: host.pause("1"),  # type: ignore[arg-type]
    lambda host: host.unblock(Unblock(TurnId(1), None)),  # type: ignore[arg-type]
    lambda host: host.unblock(Unblock([], ())),  # type: ignore[arg-type]
    lambda host: host.set_knobs({"high_watermark": 10**400}),
    lambda host: host.set_knobs({"max_running": 10**5000}),
    lambda host: host.set_knobs({"kv_dtype": "fp32"}),
    lambda host: host.set_knobs({"kv_dtype": ["q8"]}),
]


@pytest.mark.parametrize("ask", ODD)
def test_a_value_of_the_wrong_kind_is_refused_and_the_engine_runs_on(
    host: Host, ask: Callable[[Host], "Future[Any]"]
) -> None:
    with pytest.raises(Refused):
        ask(host).result(WAIT_S)
    works(host)


@pytest.mark.parametrize("fault", [SystemExit, KeyboardInterrupt, GeneratorExit, RuntimeError])
def test_a_listener_that_raises_anything_is_cut_off(host: Host, fault: type[BaseException]) -> None:
    def bad(update: TurnUpdate) -> None:
        raise fault

    host.submit(request(), bad).result(WAIT_S)
    works(host)


class Broken(Taken):
    def interval(self, interval: Interval) -> None:
        raise OSError("no space left")


def test_a_sink_that_raises_is_cut_off_and_the_others_go_on(capfd: pytest.CaptureFixture[str]) -> None:
    kept = Taken()
    host = Host(open_body=lambda config, report: fake_body(256, 256), sinks=[Broken(), kept])
    host.start()
    host.wait_ready(WAIT_S)
    works(host)
    assert any("a recorder failed" in event.text for event in host.events())
    assert host.stop(WAIT_S)
    assert kept.intervals
    assert host.snapshot.state is HostState.STOPPED
    assert "no space left" in capfd.readouterr().err


def test_a_start_right_after_a_stop_starts(host: Host) -> None:
    before = host.snapshot.session
    host.stop(0)
    host.start()
    until(lambda: host.snapshot.session != before and host.snapshot.state is HostState.IDLE)
    works(host)


def test_the_host_pool_stays_as_the_operator_left_it_over_a_restart() -> None:
    asked: list[int | None] = []

    def opening(config: Any, report: Any) -> Any:
        asked.append(config.host_bytes)
        return fake_body(256, 256)

    host = Host(open_body=opening)
    host.start()
    block = host.wait_ready(WAIT_S).memory.block_bytes  # type: ignore[union-attr]
    host.set_knobs({"host_pool_bytes": 2 * block}).result(WAIT_S)
    until(lambda: host.snapshot.knobs.host_pool_bytes == 2 * block)
    host.restart()
    host.wait_ready(WAIT_S)
    assert host.stop(WAIT_S)
    assert asked == [None, 2 * block]
