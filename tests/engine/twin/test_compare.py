"""Every policy on the same agents: the live engine's knobs and its arena's proportion on the card.

pytest tests/engine/twin/test_compare.py
"""

from dataclasses import replace

import pytest

from engine.cards.store import load_card
from engine.errors import Refused
from engine.layout import Store
from engine.policies import policies
from engine.twin.compare import Play, compared
from engine.workload.readers import load_workload
from engine.workload.resize import average_tokens, first_rounds
from tests.browser.scenes import SCENES

CARD = load_card("rx9070xt")
SWARM = load_workload("swarm")


def test_without_an_engine_turns_are_as_long_as_the_card_is_made_for() -> None:
    grid = compared(CARD, None, Play(SWARM, 16), None)
    assert grid.down.values == tuple(policies())
    assert len(grid.cells) == len(policies())
    assert average_tokens(grid.base.workload) == pytest.approx(CARD.mean_context.amount, rel=0.01)
    assert {cell.setup.first_knobs().policy for cell in grid.cells if cell.setup} == set(policies())


def test_turns_fill_as_much_of_the_card_as_they_fill_of_the_live_arena() -> None:
    live = SCENES["running"]().control.snapshot
    grid = compared(CARD, None, Play(SWARM, 12, 2.0, 5), live)
    knobs = grid.base.first_knobs()
    assert (grid.base.agent_count, grid.base.speed, grid.base.seed) == (12, 2.0, 5)
    assert (str(knobs.kv_dtype), knobs.high_watermark, knobs.max_running) == ("q8", 0.95, live.knobs.max_running)
    assert live.bands is not None
    here = average_tokens(first_rounds(SWARM, 6)) * live.bytes_per_token / live.bands.arena
    per_token = CARD.presets[0].layout.bytes_per_token(Store.Q8)
    there = average_tokens(grid.base.workload) * per_token / CARD.kv_budget_bytes
    assert there == pytest.approx(here, rel=0.02)
    assert knobs.host_pool_bytes == pytest.approx(6 * CARD.kv_budget_bytes)
    longer = average_tokens(grid.base.workload) / average_tokens(first_rounds(SWARM, 6))
    assert knobs.long_turn_tokens / live.knobs.long_turn_tokens == pytest.approx(longer, rel=0.01)


def test_an_engine_at_exact_precision_is_compared_at_one_that_the_card_has() -> None:
    live = SCENES["running"]().control.snapshot
    exact = replace(live, knobs=replace(live.knobs, kv_dtype="fp32"))  # type: ignore[arg-type]
    assert str(compared(CARD, None, Play(SWARM, 4), exact).base.first_knobs().kv_dtype) == "fp16"


def test_what_the_twin_cannot_run_is_refused() -> None:
    with pytest.raises(Refused, match="without agents"):
        compared(CARD, None, Play(SWARM, 0), None)
