"""A calibration over a real host: one probe at a time, refused beside turns, called off at once, no trace left."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TypeVar

import pytest

from engine.backends.base import Backend
from engine.calibration.calibrator import Progress, calibrate
from engine.calibration.card import Machine, card_of
from engine.calibration.plan import DEFAULT, QUICK, Depth, batches, chunks
from engine.calibration.probes import DecodeProbe, EngineFacts, FactsProbe, PrefillProbe, Probe
from engine.calibration.quick import measure_costs
from engine.cards.read import check_profile
from engine.cards.store import THIS_MACHINE
from engine.errors import CorruptCopy, Refused
from engine.geometry import KVDtype
from engine.host import Host
from engine.layout import Store
from engine.snapshot import HostState
from engine.turn import TurnRequest
from tests.engine.backends.fake_executor import FakeExecutor
from tests.engine.lab import fake_body, prompt_of

T = TypeVar("T")
WAIT_S = 20.0
SHORT = Depth(2, 60.0, (16, 32), (16, 48), 1 << 20)
MACHINE = Machine("a processor, 2 cores", "8 GiB of memory", "tiny", 1_700_000_000.0)


@dataclass
class Counting:
    """Asks on; `before` is called ahead of each probe."""

    host: Host
    before: Callable[[], None] = lambda: None
    asked: list[object] = field(default_factory=list)

    def probe(self, probe: Probe[T], session: str) -> "Future[T]":
        self.before()
        self.asked.append(probe)
        return self.host.probe(probe, session)


def test_it_measures_each_point_in_rounds_and_leaves_an_idle_engine(host: Host) -> None:
    before, seen = host.snapshot, list[Progress]()
    asker = Counting(host)
    measured = calibrate(asker, host.snapshot.session, SHORT, 4, seen.append)
    facts = measured.facts
    assert facts.memory.blocks_free == facts.memory.blocks_total
    assert [point.block_bytes for point in measured.copies] == sorted(facts.copy_sizes)
    assert [point.chunk for point in measured.prefills] == [16, 32]
    assert {(point.turns, point.context) for point in measured.decodes} == {(n, c) for n in (1, 2, 4) for c in (16, 48)}
    assert len(asker.asked) == 1 + 2 * (len(facts.copy_sizes) + 2 + 6)
    assert measured.fit.worst >= measured.fit.error >= 0
    fractions = [one.fraction for one in seen]
    assert fractions == sorted(fractions)
    assert 0 <= fractions[0] < fractions[-1] < 1
    after = host.snapshot
    assert (after.counters, after.step, after.turns) == (before.counters, before.step, ())
    host.submit(TurnRequest("agent", prompt_of(20), 4, ignore_eos=True)).result(WAIT_S)


def test_the_time_given_bounds_the_rounds(host: Host) -> None:
    asker = Counting(host)
    measured = calibrate(asker, host.snapshot.session, Depth(50, 0.0, (16,), (16,), 1 << 20), 1)
    assert len(asker.asked) == 1 + len(measured.facts.copy_sizes) + 1 + 1


def test_it_is_refused_beside_a_turn_whatever_that_waits_for(host: Host) -> None:
    turn = host.submit(TurnRequest("agent", prompt_of(20), 4, ignore_eos=True, then_block="tool")).result(WAIT_S)
    with pytest.raises(Refused, match="1 open turn; stop the swarm"):
        calibrate(host, host.snapshot.session, SHORT, 4)
    host.cancel(turn).result(WAIT_S)
    assert calibrate(host, host.snapshot.session, SHORT, 1).decodes


def test_a_turn_that_arrives_on_the_way_ends_it_in_a_sentence_and_is_served(host: Host) -> None:
    done = threading.Event()
    asker = Counting(host)

    def arrive() -> None:
        if len(asker.asked) == 5:
            request = TurnRequest("agent", prompt_of(20), 200, ignore_eos=True)
            host.submit(request, lambda update: done.set() if update.finish else None).result(WAIT_S)

    asker.before = arrive
    with pytest.raises(Refused, match="needs an engine without turns"):
        calibrate(asker, host.snapshot.session, SHORT, 4)
    assert done.wait(WAIT_S)


@pytest.mark.parametrize("probes", range(1, 22, 4))
@pytest.mark.parametrize("change", [{"kv_dtype": "q8"}, {"host_pool_bytes": 1 << 16}])
def test_an_engine_that_is_changed_on_the_way_ends_it(host: Host, probes: int, change: dict[str, object]) -> None:
    asker = Counting(host)

    def changed() -> None:
        if len(asker.asked) == probes:
            host.set_knobs(change).result(WAIT_S)

    asker.before = changed
    with pytest.raises(Refused, match="the engine was changed while it was measured"):
        calibrate(asker, host.snapshot.session, SHORT, 4)
    assert len(asker.asked) == probes + 1


@pytest.mark.parametrize("wait", [True, False], ids=["ready again", "while it starts"])
def test_a_restart_on_the_way_ends_it_and_the_new_engine_is_not_measured(host: Host, wait: bool) -> None:
    asker = Counting(host)

    def restarted() -> None:
        if len(asker.asked) == 5:
            host.restart()
            if wait:
                host.wait_ready(WAIT_S)

    asker.before = restarted
    with pytest.raises(Refused, match="the engine was restarted"):
        calibrate(asker, host.snapshot.session, SHORT, 4)


def test_a_cancel_is_looked_at_while_the_engine_measures(host: Host, executor: FakeExecutor) -> None:
    """One step that would not end: the caller is free at once, the engine when the step is over."""
    release, busy = threading.Event(), threading.Event()

    def hang(tokens: object) -> None:
        busy.set()
        release.wait(WAIT_S)

    executor.fail = hang
    began = time.monotonic()
    with pytest.raises(Refused, match="called off; nothing was written"):
        calibrate(host, host.snapshot.session, SHORT, 4, cancelled=busy.is_set)
    assert time.monotonic() - began < WAIT_S / 2
    release.set()
    executor.fail = lambda tokens: None
    assert calibrate(host, host.snapshot.session, SHORT, 1).decodes


def test_a_step_that_fails_refuses_the_measurement_and_the_engine_goes_on(host: Host, executor: FakeExecutor) -> None:
    def fail(tokens: object) -> None:
        raise ValueError("out of luck")

    executor.fail = fail
    with pytest.raises(Refused, match=r"could not be measured: .*out of luck"):
        calibrate(host, host.snapshot.session, SHORT, 4)
    executor.fail = lambda tokens: None
    assert host.snapshot.state is HostState.IDLE
    facts = host.probe(FactsProbe(), host.snapshot.session).result(WAIT_S)
    assert facts.memory.blocks_free == facts.memory.blocks_total


@pytest.mark.parametrize("fault", [CorruptCopy("a checksum is wrong"), MemoryError("no 128 MiB")])
def test_a_copy_that_fails_refuses_the_measurement_and_the_engine_goes_on(
    host: Host, fault: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*given: object) -> None:
        raise fault

    with monkeypatch.context() as patched:
        patched.setattr("engine.backends.torch.backend.probe_copy", fail)
        with pytest.raises(Refused, match=f"Copies could not be measured: {fault}"):
            calibrate(host, host.snapshot.session, SHORT, 4)
    assert calibrate(host, host.snapshot.session, SHORT, 1).copies


def test_a_stopped_engine_refuses(host: Host) -> None:
    assert host.stop(WAIT_S)
    with pytest.raises(Refused, match="restart it first"):
        calibrate(host, host.snapshot.session, SHORT, 4)
    host.start()
    host.wait_ready(WAIT_S)


def test_quick_costs_are_of_the_same_probes() -> None:
    backend = fake_body(1024, 0).backend
    costs = measure_costs(backend)
    one = costs.decode_base_s + costs.decode_per_turn_s
    assert one > 0
    assert costs.prefill_tokens_per_s > 0
    backend.check_integrity()


@pytest.mark.parametrize("arena_tokens", [16, 32, 48, 160, 1024])
@pytest.mark.parametrize("depth", [QUICK, DEFAULT])
def test_what_is_planned_fits_every_arena(arena_tokens: int, depth: Depth) -> None:
    backend = fake_body(arena_tokens, 0).backend
    facts = FactsProbe().run(backend)
    for chunk, start in chunks(facts, depth):
        assert PrefillProbe(chunk, start).run(backend).chunk == chunk
    numbers = {turns for turns, _ in batches(facts, depth, 8)}
    for turns, context in batches(facts, depth, 8):
        assert DecodeProbe(turns, context).run(backend).seconds > 0
    assert max(numbers) <= 8
    backend.check_integrity()


class Small:
    """A backend whose steps take at most 24 tokens, as vLLM's may."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def __getattr__(self, name: str) -> object:
        return getattr(self._backend, name)

    def step(self, plan: object) -> object:
        from dataclasses import replace

        work = tuple(replace(one, budget=min(one.budget, 24)) for one in plan.work)  # type: ignore[attr-defined]
        return self._backend.step(replace(plan, work=work))  # type: ignore[type-var]


def test_a_chunk_that_the_backend_cuts_is_told_at_its_real_size() -> None:
    backend = Small(fake_body(1024, 0).backend)
    assert PrefillProbe(64).run(backend).chunk == 24  # type: ignore[arg-type]


def test_the_card_says_what_was_measured_and_what_was_not(host: Host) -> None:
    measured = calibrate(host, host.snapshot.session, SHORT, 4)
    card = card_of(measured, MACHINE, slots=4, chunk=256)
    check_profile(card)
    memory, facts = measured.facts.memory, measured.facts
    assert card.id == THIS_MACHINE
    assert card.usable.amount == pytest.approx(memory.weights_bytes + memory.runtime_bytes + memory.arena_bytes)
    assert card.kv_budget_bytes == pytest.approx(memory.arena_bytes)
    assert card.pinned_host.amount == pytest.approx(memory.host_total_bytes)
    (preset,) = card.presets
    assert preset.layout.bytes_per_token(Store.FP16) == facts.geometry.bytes_per_token(KVDtype.FP16)
    own = next(point for point in measured.copies if point.block_bytes == memory.block_bytes)
    assert card.link_out.amount == pytest.approx(own.out_bytes_per_s)
    assert card.link_back.amount == pytest.approx(own.back_bytes_per_s)
    assert card.prefill.amount == pytest.approx(measured.prefills[-1].tokens_per_s)
    for point in measured.decodes:
        assert card.decode_step_s(point.turns, point.kv_bytes) == pytest.approx(
            measured.fit.seconds(point.turns, point.kv_bytes)
        )
    known = {name: getattr(card, name).known for name in ("usable", "decode_base", "prefill", "link_out", "slots")}
    assert known == dict.fromkeys(("usable", "decode_base", "prefill", "link_out"), "measured") | {"slots": "assumed"}
    for part in ("tiny", "torch", "2023-11-14"):
        assert part in card.decode_base.source
    assert card.calibration is not None
    assert card.calibration.at == "2023-11-14T22:13:20Z"
    assert isinstance(facts, EngineFacts)
