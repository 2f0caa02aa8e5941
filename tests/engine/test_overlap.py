"""Copies beside the steps, as the engine books them: once they have landed, and what bands and counters say of them.

pytest tests/engine/test_overlap.py
"""

from collections.abc import Iterator

import pytest

from engine.backends.torch.backend import TorchBackend
from engine.events import EventKind
from engine.knobs import Knobs
from engine.turn import Phase, Tier, TurnId
from tests.engine.backends.test_torch_overlap import Cable
from tests.engine.lab import Lab
from tests.engine.test_bands import bands_of

AUTHOR = "page"


@pytest.fixture
def cable(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cable]:
    made = Cable(monkeypatch)
    yield made
    made.plug()


@pytest.fixture
def lab() -> Iterator[Lab]:
    made = Lab(1600, 6000, Knobs(max_running=2), overlap=True)
    yield made
    made.close()


def two(lab: Lab) -> tuple[TurnId, TurnId]:
    """Both decode."""
    turns = (lab.ask(100, 60, 1), lab.ask(40, 60, 2))
    lab.run_until(lambda: all(lab.phase(turn) is Phase.DECODE for turn in turns))
    return turns


def kinds(lab: Lab) -> list[EventKind]:
    return [event.kind for event in lab.core.events if event.kind in (EventKind.SWAP_OUT, EventKind.SWAP_IN)]


def test_a_copy_is_booked_when_it_has_landed(lab: Lab, cable: Cable) -> None:
    away, runs = two(lab)
    cable.pull()
    lab.commands.swap_out(away, AUTHOR)
    lab.ticks(3)
    live = lab.core.ledger.find(away)
    assert live.tier is Tier.HOST
    assert (kinds(lab), list(lab.core.moves), lab.core.counters.swaps_out, live.swaps) == ([], [], 0, 0)
    block = lab.core.backend.memory().block_bytes
    bands = bands_of(lab)
    held = [lab.core.ledger.holding(lab.core.ledger.find(turn)) for turn in (away, runs)]
    assert bands.paused_kv == held[0].leaving * block > 0
    assert (bands.running_kv, bands.forced) == (held[1].blocks * block, 0)
    cable.plug()
    lab.core.settle()
    lab.tick()
    (move,) = lab.core.moves
    assert (move.kind, move.turn, kinds(lab)) == (EventKind.SWAP_OUT, away, [EventKind.SWAP_OUT])
    assert (bands_of(lab).paused_kv, live.swaps) == (0, 1)
    assert bands_of(lab).forced > 0
    counters = lab.core.counters
    assert counters.swap_out_bytes == move.nbytes
    assert counters.swap_seconds == pytest.approx(counters.hidden_seconds + counters.waited_seconds)
    lab.commands.resume(away, AUTHOR)
    lab.finish([away, runs])
    for turn in (away, runs):
        lab.assert_right(turn)
    assert kinds(lab) == [EventKind.SWAP_OUT, EventKind.SWAP_IN]
    assert lab.leaked() == (0, 0)


def test_a_cancel_in_the_midst_of_a_copy_frees_all_and_books_nothing(lab: Lab, cable: Cable) -> None:
    away, runs = two(lab)
    for _ in range(5):
        cable.pull()
        lab.commands.swap_out(away, AUTHOR)
        lab.tick()
        cable.plug()
        lab.commands.cancel(away, AUTHOR)
        lab.tick()
        away = lab.ask(100, 60, 1)
        lab.ticks(6)
        assert lab.phase(away) is Phase.DECODE
    assert set(kinds(lab)) <= {EventKind.SWAP_OUT}
    lab.finish([away, runs])
    lab.assert_right(runs)
    assert lab.leaked() == (0, 0)


def test_a_turn_resumed_while_it_leaves_stays_and_says_so(lab: Lab, cable: Cable) -> None:
    away, runs = two(lab)
    cable.pull()
    lab.commands.swap_out(away, AUTHOR)
    assert cable.reached.wait(30.0)
    lab.commands.resume(away, AUTHOR)
    cable.plug()
    lab.finish([away, runs])
    lab.assert_right(away)
    assert lab.core.counters.swaps_out == lab.core.counters.swaps_in
    assert lab.leaked() == (0, 0)


@pytest.mark.parametrize("way", ["out", "back"])
def test_a_copy_that_fails_is_a_drop_of_its_turn_alone(lab: Lab, cable: Cable, way: str) -> None:
    away, runs = two(lab)
    cable.fail = way == "out"
    lab.commands.swap_out(away, AUTHOR)
    lab.core.settle()
    cable.fail = True
    lab.lab_clock.at += 2.0
    lab.commands.resume(away, AUTHOR)
    lab.tick()
    lab.core.settle()
    cable.fail = False
    assert [event.turn for event in lab.core.events if event.kind is EventKind.DROP] == [away]
    lab.finish([away, runs])
    for turn in (away, runs):
        lab.assert_right(turn)
    assert lab.core.counters.drops == 1
    assert lab.core.counters.recomputed_tokens > 0
    assert lab.leaked() == (0, 0)


@pytest.mark.parametrize("change", [{"kv_dtype": "q8"}, {"host_pool_bytes": 0}, {"overlap_copies": False}])
def test_a_knob_that_moves_memory_lets_copies_end_first(lab: Lab, change: dict[str, object]) -> None:
    away, runs = two(lab)
    lab.commands.swap_out(away, AUTHOR)
    lab.commands.set_knobs(change, AUTHOR)
    assert lab.core.backend.overlap is change.get("overlap_copies", True)
    assert kinds(lab) == [EventKind.SWAP_OUT]
    lab.commands.resume(away, AUTHOR)
    lab.finish([away, runs])
    for turn in (away, runs):
        lab.assert_right(turn)


@pytest.mark.parametrize("overlap", [False, True])
def test_a_turn_back_from_its_tool_waits_here_for_its_slot(overlap: bool) -> None:
    """Slots are taken, room is not: its KV is here before its slot is, which is counted, and told."""
    lab = Lab(1600, 6000, Knobs(max_running=1), overlap=overlap)
    asks = lab.ask(100, 5, 1, then_block="bash")
    lab.run_until(lambda: lab.phase(asks) is Phase.BLOCKED)
    lab.commands.swap_out(asks, AUTHOR)
    runs = lab.ask(40, 200, 2)
    lab.ticks(60)
    lab.unblock(asks, (), 5)
    lab.ticks(3)
    lab.core.settle()
    assert (lab.phase(asks), lab.core.ledger.find(asks).tier) == (Phase.WAITING, Tier.RESIDENT)
    counters = lab.core.counters
    assert (counters.prefetches, counters.prefetches_wasted) == (1, 0)
    assert counters.prefetched_bytes == counters.swap_in_bytes > 0
    assert any(event.text.endswith("back from host, ahead of its slot") for event in lab.core.events)
    lab.commands.cancel(runs, AUTHOR)
    lab.ticks(2)
    assert lab.phase(asks).running
    lab.commands.swap_out(asks, AUTHOR)
    assert lab.core.counters.prefetches_wasted == 0, "it has had its slot"
    lab.commands.cancel(asks, AUTHOR)
    assert lab.leaked() == (0, 0)
    lab.close()


def test_one_that_leaves_again_without_a_slot_was_brought_in_vain() -> None:
    lab = Lab(1600, 6000, Knobs(max_running=1))
    asks = lab.ask(100, 5, 1, then_block="bash")
    lab.run_until(lambda: lab.phase(asks) is Phase.BLOCKED)
    lab.commands.swap_out(asks, AUTHOR)
    lab.ask(40, 200, 2)
    lab.ticks(60)
    lab.unblock(asks, (), 5)
    lab.ticks(3)
    lab.commands.drop(asks, AUTHOR)
    assert (lab.core.counters.prefetches, lab.core.counters.prefetches_wasted) == (1, 1)
    assert isinstance(lab.core.backend, TorchBackend)
    lab.close()
