"""The twin behind a host: its own thread, commands and agents from others, at a pace of real time.

pytest tests/engine/twin/test_live.py
"""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from engine.body import BodyConfig, chosen_backend, open_body
from engine.cards.store import load_card
from engine.changes import changes
from engine.errors import Refused
from engine.geometry import KVDtype
from engine.host import Host
from engine.snapshot import HostState
from engine.turn import Finish, TurnRequest
from engine.twin.live import live_config
from engine.twin_body import TwinConfig
from engine.workload.swarm import Swarm
from tests.engine.test_host import WAIT_S, Ear, until
from tests.engine.twin.small import small_workload

PACE = 50.0


@pytest.fixture
def host() -> Iterator[Host]:
    host = Host(live_config(twin=TwinConfig(pace=PACE)))
    host.start()
    host.wait_ready(WAIT_S)
    yield host
    assert host.stop(WAIT_S)


def test_the_snapshot_says_that_it_is_modelled(host: Host) -> None:
    shown = host.snapshot
    assert (shown.backend, shown.model, shown.card) == ("twin", "modelled: 9B at Q4_K_M", None)
    assert shown.bands is not None
    assert shown.bands.ceiling == round(15.5 * 2**30)
    assert shown.bands.other is None
    assert (shown.knobs.max_running, shown.knobs.long_turn_tokens, shown.average_turn_tokens) == (8, 16_384, 6_144)
    assert host.events()[0].text == "modelled: 9B at Q4_K_M ready on twin"


def test_a_turn_takes_its_modelled_time_and_no_less_real_time_than_its_pace_gives(host: Host) -> None:
    ear = Ear()
    before = host.now
    host.submit(TurnRequest("agent", (101,) * 900, 40), ear).result(WAIT_S)
    until(lambda: ear.finish is not None)
    assert ear.finish is Finish.LENGTH
    assert len(ear.tokens) == 40
    modelled = 900 / 962 + 39 * 0.0177
    assert host.now - before >= modelled
    assert len("".join(update.text for update in ear.updates)) == 40


def test_agents_and_an_operator_from_other_threads(host: Host) -> None:
    swarm = Swarm(host, small_workload(4), clock=lambda: host.now, real_s=host.real_s, agents=12)
    swarm.start()
    until(lambda: host.snapshot.counters.finished > 3)
    changed = host.set_knobs({"kv_dtype": "q8", "max_running": 4}, "test").result(WAIT_S)
    assert changed.max_running == 4
    until(lambda: host.snapshot.memory is not None and host.snapshot.memory.block_bytes == 1_351_680)
    done = host.snapshot.counters.finished
    until(lambda: host.snapshot.counters.finished > done + 3)
    assert host.snapshot.state is HostState.RUNNING
    assert swarm.status.problem is None
    assert swarm.stop()
    until(lambda: not host.snapshot.turns)


def test_a_restart_keeps_the_knobs_and_begins_another_session(host: Host) -> None:
    first = host.snapshot
    host.restart(backend="twin")
    again = host.wait_ready(WAIT_S)
    assert again.session != first.session
    assert again.knobs == first.knobs
    assert again.backend == "twin"


def test_a_pace_that_cannot_be_kept_is_told() -> None:
    host = Host(live_config(twin=TwinConfig(pace=1000.0)))
    host.start()
    host.wait_ready(WAIT_S)
    host.set_knobs({"max_running": 64}, "test").result(WAIT_S)
    for number in range(64):
        host.submit(TurnRequest(f"agent {number}", (101,), 100_000))
    until(lambda: host.snapshot.warning is not None)
    assert "not at the 1000x asked for" in (host.snapshot.warning or "")
    assert host.stop(WAIT_S)


def test_the_body_is_the_cards_and_opens_at_once() -> None:
    assert chosen_backend("twin") == "twin"
    config = BodyConfig(backend="twin", card="rtx5090", kv_dtype=KVDtype.Q8, host_bytes=10 << 30)
    body = open_body(config, lambda startup: None)
    memory = body.backend.memory()
    assert memory.weights_bytes + memory.runtime_bytes + memory.arena_bytes == 31 << 30
    assert memory.host_asked_bytes == 10 << 30
    assert body.backend.kv_dtype is KVDtype.Q8
    prefill = load_card("rtx5090").prefill.amount
    assert body.costs.prefill_tokens_per_s == pytest.approx(prefill)
    with pytest.raises(Refused, match="there is no card"):
        open_body(replace(config, card="nowhere"), lambda startup: None)


def test_a_sample_is_taken_as_soon_as_the_card_is_changed_and_none_for_the_pace(host: Host) -> None:
    host.submit(TurnRequest("agent", (101,) * 900, 4_000), Ear()).result(WAIT_S)
    host.set_card({"link_out": 25.0e9, "decode_base": 0.03}, "test").result(WAIT_S)
    (change,) = changes(host.events())
    assert change.of_card
    until(lambda: any(sample.at == change.at for sample in host.samples()))
    host.set_card({"pace": 20.0}, "test").result(WAIT_S)
    assert changes(host.events()) == (change,)
