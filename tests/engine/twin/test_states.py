"""The study's states on the twin's own ledger: RX 9070 XT, preset ceiling, the literal 15.5 GiB.

pytest tests/engine/twin/test_states.py
"""

import pytest

from app.bench.rig import Rig
from engine.body import Body
from engine.calibration.quick import measure_costs
from engine.cards.profile import GIB
from engine.cards.store import load_card
from engine.events import EventKind
from engine.geometry import KVDtype, blocks_for
from engine.turn import Phase, Tier, TurnId
from engine.twin_body import TwinConfig, card_knobs, modelled_model, twin_backend
from engine.virtual_clock import VirtualClock

AVERAGE, LONG = 6_144, 16_384
STAYS = 10_000


class Card(Rig):
    """The study's card: turns of `parked` tokens are computed and paused, then eight average turns run beside them."""

    def __init__(self, *parked: int, kv_dtype: KVDtype = KVDtype.FP16) -> None:
        card, clock = load_card("rx9070xt"), VirtualClock()
        backend = twin_backend(card, TwinConfig(preset="ceiling"), clock, kv_dtype)
        body = Body(backend, modelled_model(card, backend), measure_costs(backend), None, clock)
        super().__init__(body, card_knobs(card), clock=clock)
        self.parked: list[TurnId] = []
        for number, tokens in enumerate(parked):
            turn = self._decoding(tokens, f"parked {number}")
            self.commands.pause(turn, "test")
            self.parked.append(turn)
        clock.advance(1.5)
        for number in range(8):
            self._decoding(AVERAGE - 1, f"runs {number}")
        backend.check_integrity()

    def _decoding(self, tokens: int, agent: str) -> TurnId:
        """A turn of so many computed tokens that has a slot. Its prefill is pretended where there is room, so that the
        others do not grow meanwhile; where there is none the governor finds it, and it is computed."""
        turn = self.submit([1] * tokens, STAYS, agent=agent)
        if self.core.backend.memory().blocks_free > blocks_for(tokens):
            self.core.backend.pretend(turn, tokens - 1)
            self.core.ledger.find(turn).computed_once = tokens - 1
        for _ in range(200):
            if self.phase(turn) is Phase.DECODE:
                return turn
            self.tick()
        raise AssertionError(f"{agent} never got to decode")

    @property
    def used_gib(self) -> float:
        memory = self.core.backend.memory()
        held = (memory.blocks_total - memory.blocks_free) * memory.block_bytes
        return (memory.weights_bytes + memory.runtime_bytes + held) / GIB

    @property
    def moved(self) -> list[str | None]:
        return [e.agent for e in self.core.events if e.kind in (EventKind.SWAP_OUT, EventKind.DROP)]

    @property
    def resident(self) -> int:
        return sum(self.core.ledger.find(turn).tier is Tier.RESIDENT for turn in self.parked)


def test_eight_running_at_6k_fill_13_5_gib() -> None:
    card = Card()
    memory = card.core.backend.memory()
    assert (memory.weights_bytes + memory.runtime_bytes + memory.arena_bytes) / GIB == pytest.approx(15.5)
    assert card.used_gib == pytest.approx(13.5, abs=0.03)
    assert card.moved == []


@pytest.mark.parametrize(("paused", "used"), [(1, 14.44), (2, 15.375)])
def test_two_average_paused_turns_stay(paused: int, used: float) -> None:
    card = Card(*[AVERAGE] * paused)
    assert (card.resident, card.moved) == (paused, [])
    assert card.used_gib == pytest.approx(used, abs=0.03)


def test_the_third_average_paused_turn_forces_a_move() -> None:
    card = Card(*[AVERAGE] * 3)
    assert card.resident == 2
    assert len(card.moved) == 1
    assert card.used_gib == pytest.approx(15.375, abs=0.15)
    assert card.used_gib <= 15.5


def test_one_long_turn_alone_forces_a_move() -> None:
    card = Card(LONG)
    assert card.moved == ["parked 0"]
    held = card.core.backend.holding(card.parked[0])
    assert held.host_bytes / GIB == pytest.approx(2.5, abs=0.01)
    assert card.used_gib == pytest.approx(13.5, abs=0.15)


def test_at_q8_eleven_fit_and_the_twelfth_does_not() -> None:
    assert Card(kv_dtype=KVDtype.Q8).used_gib == pytest.approx(6 + 3.867, abs=0.02)
    eleven = Card(*[AVERAGE] * 11, kv_dtype=KVDtype.Q8)
    assert (eleven.resident, eleven.moved) == (11, [])
    twelve = Card(*[AVERAGE] * 12, kv_dtype=KVDtype.Q8)
    assert twelve.resident == 11
    assert len(twelve.moved) == 1


def test_at_q8_a_long_turn_stays() -> None:
    card = Card(LONG, kv_dtype=KVDtype.Q8)
    assert (card.resident, card.moved) == (1, [])
