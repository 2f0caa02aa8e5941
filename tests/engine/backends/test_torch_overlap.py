"""Copies beside the steps of the torch backend, stopped between two pieces: who may run, what may be written, what a
verb does to a copy that is under way.

pytest tests/engine/backends/test_torch_overlap.py
"""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from engine.backends.base import StepPlan, Work
from engine.backends.torch import copier, cpucopies
from engine.backends.torch.backend import TorchBackend
from engine.errors import CorruptCopy
from engine.geometry import KVDtype
from engine.turn import TurnId
from tests.engine.backends.conformance import GREEDY, leaves_nothing, run_steps, run_until
from tests.engine.backends.fake_executor import expected_tokens
from tests.engine.backends.lab import layout, make

A, B, C = TurnId(1), TurnId(2), TurnId(3)
WAIT_S = 30.0


class Cable:
    """Nothing gets through while it is pulled; `reached`: a copy has come to it."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._plugged = threading.Event()
        self._plugged.set()
        self.reached = threading.Event()
        self.fail = False
        real = cpucopies.copy_units

        def copy_units(*args: Any) -> None:
            self.reached.set()
            assert self._plugged.wait(WAIT_S)
            if self.fail:
                raise OSError("the cable is out")
            real(*args)

        patch.setattr(cpucopies, "copy_units", copy_units)
        patch.setattr(cpucopies, "BESIDE_BYTES", 1)

    def pull(self) -> None:
        self.reached.clear()
        self._plugged.clear()

    def plug(self) -> None:
        self._plugged.set()


@pytest.fixture
def cable(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cable]:
    made = Cable(monkeypatch)
    yield made
    made.plug()


def beside(arena_blocks: int = 64, host_blocks: int = 64) -> TorchBackend:
    backend = make(arena_blocks, host_blocks)
    backend.set_overlap(True)
    return backend


def opened(backend: TorchBackend, turn: TurnId, tokens: int) -> list[int]:
    """Computed, and what it says next."""
    prompt = [turn + 1] * tokens
    backend.open(turn, prompt, GREEDY)
    said = run_until(backend, turn, 1, budget=tokens)
    return expected_tokens([*prompt, *said], 12)


def plan(*turns: TurnId) -> StepPlan:
    return StepPlan(tuple(Work(turn, 64) for turn in turns))


def test_others_go_on_while_a_turn_leaves_and_its_blocks_are_nobodys(cable: Cable) -> None:
    backend = beside(arena_blocks=12)
    says, other_says = opened(backend, A, 100), opened(backend, B, 20)
    cable.pull()
    assert backend.swap_out(A) is not None
    holding = backend.holding(A)
    assert (holding.blocks, holding.leaving, holding.kv_tokens) == (0, 7, 100)
    assert backend.memory().blocks_free == 10
    assert cable.reached.wait(WAIT_S)
    assert run_steps(backend, [B], 8)[B] == other_says[:8]
    backend.open(C, [9] * 60, GREEDY)
    assert [step.turn for step in backend.step(plan(B, C)).turns] == [B], "C's blocks have not been left yet"
    assert backend.landed() == ()
    backend.check_integrity()
    cable.plug()
    assert run_until(backend, C, 2) == expected_tokens([9] * 60, 2)
    (landed,) = backend.landed()
    assert (landed.turn, landed.out, landed.error) == (A, True, None)
    assert landed.seconds >= landed.waited_s > 0
    backend.close(C)
    assert backend.swap_in(A) is not None
    assert run_until(backend, A, 3) == says[:3]


def test_a_turn_that_comes_is_left_out_until_its_copy_is_there(cable: Cable) -> None:
    backend = beside()
    says, other_says = opened(backend, A, 100), opened(backend, B, 20)
    assert backend.swap_out(A) is not None
    backend.settle()
    cable.pull()
    assert backend.swap_in(A) is not None
    assert backend.holding(A).blocks == 7
    assert backend.memory().host_used_bytes > 0, "the host copy stays until the blocks are sound"
    for said in other_says[:4]:
        (step,) = backend.step(plan(A, B)).turns
        assert (step.turn, step.sampled) == (B, said)
    cable.plug()
    assert run_until(backend, A, 3) == says[:3]
    assert backend.memory().host_used_bytes == 0


@pytest.mark.parametrize(
    "verb", ["close", "drop", "swap_in", "set_overlap", "set_kv_dtype", "set_host_pool", "shutdown"]
)
def test_no_verb_leaves_a_copy_half_made(cable: Cable, verb: str) -> None:
    """Called while the copy stands still in its midst: it is given up after the piece, or ends first."""
    backend = beside()
    says = opened(backend, A, 100)
    cable.pull()
    assert backend.swap_out(A) is not None
    assert cable.reached.wait(WAIT_S)
    threading.Timer(0.05, cable.plug).start()
    if verb == "shutdown":
        backend.shutdown()
        return
    given = {
        "set_overlap": (False,),
        "set_kv_dtype": (KVDtype.Q8,),
        "set_host_pool": (40 * layout(KVDtype.FP16).nbytes,),
    }
    getattr(backend, verb)(*given.get(verb, (A,)))
    backend.check_integrity()
    if verb == "drop":
        assert backend.holding(A).kv_tokens == 0
    if verb == "swap_in":
        assert backend.landed() == ()
    if verb in given:
        assert [one.error for one in backend.landed()] == [None]
        assert backend.swap_in(A) is not None
    if verb != "close":
        assert run_until(backend, A, 3, budget=128) == says[:3]
        backend.close(A)
    leaves_nothing(backend)


@pytest.mark.parametrize("way", ["out", "back"])
def test_a_copy_that_fails_costs_its_turn_alone(cable: Cable, way: str, caplog: pytest.LogCaptureFixture) -> None:
    backend = beside()
    says, other_says = opened(backend, A, 100), opened(backend, B, 20)
    cable.fail = way == "out"
    assert backend.swap_out(A) is not None
    backend.settle()
    if way == "back":
        backend.landed()
        cable.fail = True
        assert backend.swap_in(A) is not None
        assert [step.turn for step in backend.step(plan(A, B)).turns] == [B]
        backend.settle()
        assert [step.turn for step in backend.step(plan(A, B)).turns] == [B], "not before it is told"
    cable.fail = False
    (landed,) = backend.landed()
    assert (landed.turn, landed.out) == (A, way == "out")
    assert "cable" in (landed.error or "")
    assert "cable" in caplog.text
    backend.check_integrity()
    assert backend.holding(A).kv_tokens == 0
    assert run_until(backend, A, 3, budget=128) == says[:3]
    assert run_until(backend, B, 1) in ([token] for token in other_says)
    for turn in (A, B):
        backend.close(turn)
    leaves_nothing(backend)


def test_a_turn_called_back_whose_blocks_are_promised_waits_and_may_be_lost(cable: Cable) -> None:
    """C comes into the blocks that A is leaving. A's copy fails: it alone is recomputed, and told of once."""
    backend = beside(arena_blocks=12)
    says, c_says = opened(backend, A, 100), opened(backend, C, 60)
    assert backend.swap_out(C) is not None
    backend.settle()
    opened(backend, B, 40)
    backend.landed()
    cable.pull()
    assert backend.swap_out(A) is not None
    assert cable.reached.wait(WAIT_S)
    assert backend.swap_in(C) is not None
    assert backend.holding(A).leaving < 7
    backend.close(B)
    cable.fail = True
    threading.Timer(0.05, cable.plug).start()
    with pytest.raises(CorruptCopy, match="recomputed"):
        backend.swap_in(A)
    cable.fail = False
    backend.settle()
    backend.check_integrity()
    told = [(one.turn, bool(one.error)) for one in backend.landed()]
    assert A not in [turn for turn, _ in told]
    assert run_until(backend, A, 3, budget=128) == says[:3]
    assert run_until(backend, C, 3, budget=128) == c_says[:3]
    for turn in (A, C):
        backend.close(turn)
    leaves_nothing(backend)


def test_a_flipped_byte_is_found_before_the_turn_runs() -> None:
    backend = beside()
    says = opened(backend, A, 100)
    assert backend.swap_out(A) is not None
    backend.settle()
    parked = backend._turns[A].parked
    assert parked is not None
    backend._pool._slab.array[backend._pool._parked[parked.key].units[2] * backend._pool.unit + 70] ^= 1
    assert backend.swap_in(A) is not None
    backend.settle()
    assert [bool(one.error) for one in backend.landed()] == [False, True]
    assert run_until(backend, A, 3, budget=128) == says[:3]


def test_a_copy_at_another_precision_comes_back_while_the_engine_stands_still() -> None:
    backend = beside()
    says = opened(backend, A, 100)
    assert backend.swap_out(A) is not None
    backend.set_kv_dtype(KVDtype.Q8)
    moved = backend.swap_in(A)
    assert moved is not None
    assert moved.seconds is not None
    assert run_until(backend, A, 3) == says[:3]


def test_the_thread_starts_with_the_first_copy_and_ends_with_the_backend() -> None:
    def named() -> list[str]:
        return [one.name for one in threading.enumerate() if one.name == "parkdeck-copier"]

    before = len(named())
    backend = beside()
    opened(backend, A, 40)
    assert len(named()) == before
    backend.swap_out(A)
    assert len(named()) == before + 1
    backend.shutdown()
    assert len(named()) == before


def test_a_copy_rests_between_pieces_unless_somebody_waits(cable: Cable, monkeypatch: pytest.MonkeyPatch) -> None:
    """With rests of hours a copy is still over at once when a step cannot do without it."""
    monkeypatch.setattr(copier, "REST", 1e9)
    backend = beside()
    backend._traffic._copier._rest = 1e9
    says = opened(backend, A, 100)
    assert backend.swap_out(A) is not None
    backend.settle()
    assert backend.swap_in(A) is not None
    assert run_until(backend, A, 3) == says[:3]
