"""What a running engine keeps for measuring a change: a sample as soon as it is made, its latencies, one instant."""

import time
from collections.abc import Callable

from engine.changes import latest_change
from engine.effect import Stage, effect
from engine.host import Host
from engine.snapshot import Sample
from engine.turn import TurnRequest
from tests.engine.conftest import WAIT_S
from tests.engine.lab import prompt_of


def until(ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not ready():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.005)


def running(host: Host, turns: int) -> None:
    for salt in range(turns):
        host.submit(TurnRequest(f"agent {salt}", prompt_of(20, salt), 100_000, ignore_eos=True)).result(WAIT_S)
    until(lambda: any(sample.running == turns for sample in host.samples()))


def test_what_a_change_brings_about_is_counted_from_the_change(host: Host) -> None:
    running(host, 3)
    host.set_knobs({"max_running": 1}, "tab 1").result(WAIT_S)
    (event,) = [e for e in host.events() if e.name == "max_running"]

    def after() -> list[Sample]:
        return [sample for sample in host.samples() if sample.at >= event.at]

    until(lambda: len(after()) > 1)
    first, second = after()[:2]
    before = [sample for sample in host.samples() if sample.at < event.at][-1]
    assert first.running == before.running == 3
    assert first.counters.preemptions == before.counters.preemptions
    assert second.running == 1
    assert second.counters.preemptions == first.counters.preemptions + 2


def test_a_change_is_measured_on_a_running_engine(host: Host) -> None:
    running(host, 2)
    began = host.samples()[0].at
    until(lambda: host.snapshot.at - began > 2.0)
    host.set_knobs({"kv_dtype": "q8", "min_quantum_s": 0.5}, "tab 1").result(WAIT_S)
    change = latest_change(host.events())
    assert change is not None
    assert [event.name for event in change.events] == ["kv_dtype", "min_quantum_s"]
    assert {event.at for event in change.events} == {change.at}
    until(lambda: effect(change, host.events(), host.samples(), host.snapshot.at).after_s >= 1.5)
    shown = effect(change, host.events(), host.samples(), host.snapshot.at)
    assert shown.stage in (Stage.GROWING, Stage.DONE)
    for compared in (shown.headroom, shown.itl, shown.decode):
        for figure in (compared.before, compared.after):
            assert figure is not None
            assert figure.value > 0
    assert shown.paused_fit.before is not None
    assert shown.paused_fit.after is not None
    assert abs(shown.before_s - shown.after_s) < 1.0


def test_latencies_of_all_samples_are_all_tokens_that_had_one(host: Host) -> None:
    ended: list[object] = []
    ask = TurnRequest("agent", prompt_of(20), 41, ignore_eos=True)
    host.submit(ask, lambda update: ended.append(update) if update.finish else None).result(WAIT_S)
    until(lambda: bool(ended))
    until(lambda: host.samples()[-1].counters.generated_tokens == 41)
    assert sum(count for sample in host.samples() for _, count in sample.itl) == 40
