"""The bench rig lets time pass where a turn has to wait for it, and says when nothing moves."""

import pytest

from app.bench.rig import AUTHOR, STUCK_S
from engine.turn import Phase
from tests.engine.lab import Lab


class Waiting(Lab):
    """Its clock advances by 10 ms at each idle boundary, far less at the others."""

    def tick(self) -> bool:
        before = self.lab_clock.at
        worked = super().tick()
        self.lab_clock.at = before + 1e-6
        return worked

    def idle(self) -> None:
        self.lab_clock.at += 0.01


def test_a_turn_alone_that_must_wait_out_its_dwell_is_waited_for() -> None:
    rig = Waiting()
    turn = rig.ask(64, 8)
    rig.run_until(lambda: rig.phase(turn) is Phase.DECODE)
    rig.commands.drop(turn, AUTHOR)
    rig.commands.resume(turn, AUTHOR)
    rig.finish([turn])
    rig.assert_right(turn)


def test_an_engine_that_stands_still_is_an_error() -> None:
    rig = Waiting()
    turn = rig.ask(64, 8)
    rig.commands.pause(turn, AUTHOR)
    with pytest.raises(RuntimeError, match=f"no progress for {STUCK_S:g} s"):
        rig.finish([turn])
