"""An engine on a virtual clock over the real torch backend and the exact fake executor: whatever is done to a turn, its
tokens must be `expected_tokens`."""

from collections.abc import Sequence
from dataclasses import replace

from app.bench.rig import Rig
from engine.backends.torch.backend import TorchBackend
from engine.body import Body
from engine.clock import EngineClock
from engine.costs import Costs
from engine.geometry import BlockLayout, KVDtype
from engine.knobs import Knobs
from engine.turn import TurnId
from tests.engine.backends.fake_executor import GEOMETRY, FakeExecutor, expected_tokens

STEP_S = 0.02
COSTS = Costs(1e9, 1e9, 1e3, 0.02, 0.001)


class LabClock(EngineClock):
    """Moves only when told to."""

    def __init__(self, at: float = 100.0) -> None:
        self.at = at
        super().__init__(monotonic=lambda: self.at, wall=lambda: 1_700_000_000.0)


def fake_body(arena_tokens: int, host_tokens: int, executor: FakeExecutor | None = None) -> Body:
    """Sizes in fp16 tokens."""
    layout = BlockLayout(GEOMETRY, KVDtype.FP16)
    arena, host = (layout.blocks_for(n) * layout.nbytes for n in (arena_tokens, host_tokens))
    backend = TorchBackend(executor or FakeExecutor(), arena, host, KVDtype.FP16)
    return Body(backend, None, COSTS, None)


class Lab(Rig):
    """A rig whose clock advances by STEP_S at each boundary. `overlap`: copies go on beside the steps."""

    def __init__(
        self,
        arena_tokens: int = 1024,
        host_tokens: int = 4096,
        knobs: Knobs | None = None,
        executor: FakeExecutor | None = None,
        overlap: bool = False,
    ) -> None:
        self.lab_clock = LabClock()
        knobs = replace(knobs or Knobs(), overlap_copies=overlap)
        super().__init__(fake_body(arena_tokens, host_tokens, executor), knobs, clock=self.lab_clock)
        self.prompts: dict[TurnId, tuple[int, ...]] = {}

    def ticks(self, count: int) -> None:
        for _ in range(count):
            self.tick()

    def tick(self) -> bool:
        worked = super().tick()
        self.lab_clock.at += STEP_S
        self.core.backend.check_integrity()
        self.check_seen()
        return worked

    def check_seen(self) -> None:
        """What the ledger keeps of turns without a slot is how they are."""
        ledger = self.core.ledger
        kept = ledger.view(False), [ledger.holding(turn) for turn in ledger]
        for turn in ledger:
            ledger.changed(turn)
        assert kept == (ledger.view(False), [ledger.holding(turn) for turn in ledger])

    def idle(self) -> None:
        """The clock of a lab advances by its ticks."""

    def ask(self, length: int, max_tokens: int, salt: int = 0, **more: object) -> TurnId:
        """Submit a prompt of `length` tokens that depends on `salt`."""
        prompt = prompt_of(length, salt)
        turn = self.submit(prompt, max_tokens, **more)  # type: ignore[arg-type]
        self.prompts[turn] = prompt
        return turn

    def finish(self, turns: Sequence[TurnId]) -> None:
        """Run until all have ended, on a clock that also passes while nobody runs."""
        self.run_until(lambda: all(self.phase(t).ended for t in turns))

    def assert_right(self, turn: TurnId) -> None:
        got = self.generated[turn]
        assert got == expected_tokens(self.prompts[turn], len(got))


def prompt_of(length: int, salt: int = 0) -> tuple[int, ...]:
    return tuple((salt * 31 + 7 * i * i + 3 * i + 1) % 96 for i in range(length))
