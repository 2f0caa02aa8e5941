"""A twin that is changed while it runs: figures of its card, overlap, pace; each at a token boundary, each an event.

pytest tests/engine/twin/test_live_card.py
"""

import random
from itertools import count

import pytest

from engine.body import open_body
from engine.card_command import set_card
from engine.cards.store import load_card
from engine.changes import changes, overruled
from engine.commands import Commands
from engine.core import Core, core_over
from engine.errors import Refused
from engine.events import Event, EventKind
from engine.live_card import LiveCard
from engine.loop import Loop
from engine.snapshot import ModelledCard
from engine.turn import TurnRequest
from engine.twin.live import live_config
from engine.virtual_clock import FASTEST, PacedClock

GIB = 1 << 30


class Table:
    """A twin at its boundaries, without a thread, so that nothing waits for its pace."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        config = live_config()
        body = open_body(config.body, lambda told: None)
        assert body.clock is not None
        self.core: Core = core_over(body, body.clock, config.knobs, self.events.append, lambda interval: None)
        self.commands = Commands(self.core, random.Random(1), count(1))
        self.loop = Loop(self.core)

    @property
    def live(self) -> LiveCard:
        assert self.core.live_card is not None
        return self.core.live_card

    @property
    def clock(self) -> PacedClock:
        assert isinstance(self.core.clock, PacedClock)
        return self.core.clock

    def turn(self, prompt: int, tokens: int = 50) -> None:
        self.commands.submit(TurnRequest("agent", (101,) * prompt, tokens), None, "test", self.clock.now())

    def step_s(self) -> float:
        before = self.clock.now()
        self.loop.tick()
        return self.clock.now() - before

    def set(self, **changes: object) -> ModelledCard:
        return set_card(self.core, changes, "tab 7")


@pytest.fixture
def table() -> Table:
    return Table()


def test_a_figure_counts_from_the_next_boundary_and_is_one_event(table: Table) -> None:
    table.turn(200)
    table.step_s()
    own, base = table.step_s(), load_card("rx9070xt").decode_base.amount
    changed = table.set(decode_base=2 * base)
    assert table.step_s() - own == pytest.approx(base, rel=1e-3)
    assert changed.changed == {"decode_base": base}
    (event,) = [one for one in table.events if one.kind is EventKind.CARD]
    assert (event.author, event.name, event.old, event.new) == ("tab 7", "decode_base", str(base), str(2 * base))
    assert event.text == "Decode step, base 16.898 → 33.796 ms"
    assert table.set(**changed.changed).changed == {}


def test_a_slower_prefill_and_link_are_what_turns_wait_for_and_what_the_governor_reckons_with(table: Table) -> None:
    table.core.ledger.knobs = table.core.knobs.changed({"prefill_chunk": 16_384})
    table.set(prefill=481.0, link_out=5e9, link_back=1e9)
    costs = table.core.costs
    assert (costs.swap_out_bytes_per_s, costs.swap_in_bytes_per_s) == (5e9, 1e9)
    assert costs.prefill_tokens_per_s == pytest.approx(481.0)
    table.turn(962)
    assert table.step_s() == pytest.approx(2.0, rel=0.02)
    turn = next(iter(table.core.ledger))
    held = table.core.backend.holding(turn.id).blocks * table.core.backend.memory().block_bytes
    before = table.clock.now()
    table.commands.swap_out(turn.id, "test")
    assert table.clock.now() - before == pytest.approx(held / 5e9)


def test_copies_that_overlap_cost_the_engine_nothing(table: Table) -> None:
    assert table.set(overlap=True).overlap
    table.turn(2_000)
    table.step_s()
    turn = next(iter(table.core.ledger))
    before = table.clock.now()
    table.commands.swap_out(turn.id, "test")
    assert table.clock.now() == before
    table.set(overlap=False)
    assert table.clock.now() > before, "what was under way has ended"
    assert [one.text for one in table.events if one.kind is EventKind.CARD] == [
        "Overlap of copies off → on",
        "Overlap of copies on → off",
    ]


def test_usable_memory_moves_the_line_and_never_below_what_turns_hold(table: Table) -> None:
    table.turn(4_096)
    for _ in range(40):
        table.step_s()
    before = table.core.backend.memory()
    table.set(usable=12.0 * GIB)
    now = table.core.backend.memory()
    assert now.arena_bytes == before.arena_bytes - round(3.5 * GIB)
    assert now.blocks_total - now.blocks_free == before.blocks_total - before.blocks_free
    table.core.backend.check_integrity()
    with pytest.raises(Refused, match=r"Usable memory of 6.10 GiB leaves 0.10 GiB .* turns hold 0\.\d+ GiB of KV"):
        table.set(usable=6.1 * GIB, link_out=1e9)
    assert dict(table.live.state().now)["link_out"] == 50e9, "all or nothing"
    table.set(usable=15.5 * GIB)
    assert table.live.state().changed == {}


def test_a_live_turn_that_could_never_fit_any_more_keeps_the_memory(table: Table) -> None:
    table.turn(20_000)
    with pytest.raises(Refused, match=r"agent has 20,000 tokens, and .* would fit"):
        table.set(usable=8.0 * GIB)


def test_the_pace_is_set_live(table: Table) -> None:
    assert table.set(pace=10.0).pace == table.clock.pace == 10.0
    assert table.set(pace=FASTEST).pace == FASTEST
    assert [one.text for one in table.events if one.kind is EventKind.CARD] == ["Pace 1x → 10x", "Pace 10x → max"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"pace": 0.0}, "cannot run at 0x"),
        ({"pace": "fast"}, "no number"),
        ({"overlap": 1}, "neither yes nor no"),
        ({"weights": 1.0}, "'weights' of a card cannot be changed"),
        ({"link_out": 0.0}, "Copy to host 0 GB/s is out of range"),
        ({"prefill": float("nan")}, "is not a number"),
        ({"prefill": True}, "is not a number"),
        ({"prefill": 10**400}, "is not a number"),
        ({"pace": 10**400}, "no number"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence_and_changes_nothing(
    table: Table, change: dict[str, object], why: str
) -> None:
    before = table.live.state()
    with pytest.raises(Refused, match=why):
        table.set(decode_base=0.03, **change)
    assert table.live.state() == before
    assert table.events == []


def test_the_value_in_force_is_no_change(table: Table) -> None:
    table.set(**dict(table.live.state().now), pace=1.0, overlap=False)
    assert table.events == []
    assert table.live.state() is table.live.state()


def test_a_change_of_figures_is_a_change_with_its_old_values_and_the_pace_is_none(table: Table) -> None:
    before = table.live.version
    table.set(link_out=25e9, overlap=True)
    assert table.live.version == before + 2
    table.set(pace=10.0)
    assert table.live.version == before + 2
    (found,) = changes(table.events)
    assert (found.of_card, found.author) == (True, "tab 7")
    assert found.text == "Copy to host 50 → 25 GB/s; Overlap of copies off → on"
    assert found.old == {"link_out": 50e9, "overlap": False}
    table.set(**found.old)
    assert overruled(found, changes(table.events)) is not None
    assert not table.live.state().changed
