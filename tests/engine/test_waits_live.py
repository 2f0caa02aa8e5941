"""An engine learns how long tools take, and the policies act on it: on the exact fake executor.

pytest tests/engine/test_waits_live.py
"""

import pytest

from engine.errors import BadKnob
from engine.events import EventKind
from engine.host import Host
from engine.knobs import Knobs
from engine.turn import Phase, Tier, TurnId
from engine.view import Reason
from engine.waits import KnownWaits, WaitRow
from tests.engine.conftest import WAIT_S
from tests.engine.lab import STEP_S, Lab
from tests.engine.test_host import until

AUTHOR = "test"
KNOWN = KnownWaits((("bash", 30.0),) * 8, "8 durations of 1 tool are known from stored sessions")


def blocked(lab: Lab, tool: str, salt: int = 0) -> TurnId:
    """A turn of 80 tokens that has just blocked."""
    turn = lab.ask(80, 4, salt, then_block=tool)
    lab.run_until(lambda: lab.phase(turn) is Phase.BLOCKED)
    return turn


@pytest.mark.parametrize("policy", ["swap-on-block", "min-waste", "ttl"])
def test_a_turn_that_blocks_for_long_leaves_at_once_and_comes_back_with_its_result(policy: str) -> None:
    lab = Lab(knobs=Knobs(policy=policy))
    lab.commands.learn_waits(KNOWN)
    lab.ticks(60)
    turn = blocked(lab, "bash")
    lab.run_until(lambda: lab.core.ledger.find(turn).tier is Tier.HOST)
    live = lab.core.ledger.find(turn)
    assert live.tier_since - live.phase_since <= 1.0 + 2 * STEP_S, "as soon as its dwell is over"
    (left,) = [event for event in lab.core.events.copy() if event.kind is EventKind.SWAP_OUT]
    assert left.text.endswith(f"to host: {Reason.POLICY}")
    lab.unblock(turn, (1, 2, 3), 4)
    lab.finish([turn])
    assert lab.leaked() == (0, 0)


def test_durations_are_learnt_from_a_block_to_its_result() -> None:
    lab = Lab()
    turn = blocked(lab, "bash")
    lab.ticks(25)
    lab.unblock(turn, (1,), 4, then_block="bash")
    lab.run_until(lambda: lab.phase(turn) is Phase.BLOCKED)
    rows = lab.core.waits.waits.rows
    assert [row.tool for row in rows] == [None, "bash"]
    assert rows[1].p50 == pytest.approx(25 * STEP_S, abs=2 * STEP_S)
    lab.commands.cancel(turn, AUTHOR)
    assert lab.core.waits.waits.rows[1].cut_short == 1
    assert lab.core.waits.waits.rows[1].ended == 1


def test_a_parameter_changes_live_is_an_event_and_can_be_taken_back() -> None:
    lab = Lab(knobs=Knobs(policy="swap-on-block"))
    lab.commands.set_knobs({"swap-on-block.margin": 5}, AUTHOR)
    (event,) = [event for event in lab.core.events.copy() if event.kind is EventKind.KNOB]
    assert (event.name, event.old, event.new) == ("swap-on-block.margin", "2.0", "5.0")
    assert event.text == "Margin of swap-on-block 2 → 5 x"
    with pytest.raises(BadKnob, match="Margin of swap-on-block 5000 x is outside 0 to 1000 x"):
        lab.commands.set_knobs({"swap-on-block.margin": 5000}, AUTHOR)
    with pytest.raises(BadKnob, match=r"there is no knob 'ttl.margin'"):
        lab.commands.preview({"ttl.margin": 1})
    assert lab.core.knobs.parameters == (("swap-on-block.margin", 5.0),)
    lab.commands.set_knobs({"swap-on-block.margin": 2.0}, AUTHOR)
    assert lab.core.knobs == Knobs(
        policy="swap-on-block", host_pool_bytes=lab.core.knobs.host_pool_bytes, kv_dtype=lab.core.knobs.kv_dtype
    )


def test_a_preview_of_a_policy_says_who_would_leave() -> None:
    lab = Lab()
    lab.commands.learn_waits(KNOWN)
    turn = blocked(lab, "bash")
    lab.ticks(60)
    told = lab.commands.preview({"policy": "swap-on-block"})
    assert [(leaver.turn, leaver.to) for leaver in told.leave] == [(turn, Tier.HOST)]
    assert lab.commands.preview({"policy": "swap-on-block", "swap-on-block.margin": 2.0}).leave == told.leave
    assert lab.core.ledger.find(turn).tier is Tier.RESIDENT


def test_what_was_known_before_reaches_the_snapshot_and_goes_on_over_a_restart(host: Host) -> None:
    host.know_waits(KNOWN)
    row = WaitRow("bash", 8, 30.0, 30.0, 0, 0, 0)
    until(lambda: row in host.snapshot.waits)
    assert any(event.text == KNOWN.said for event in host.events())
    host.restart()
    until(lambda: host.snapshot.state.serving and row in host.snapshot.waits)
    host.wait_ready(WAIT_S)
    assert any("known from the engine before" in event.text for event in host.events())
