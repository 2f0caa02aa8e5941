"""A real engine ticked by a bench: the same core, commands and loop as the host's, without its thread, so that a bench
can act at exactly the token boundary it means."""

import random
import time
from collections.abc import Callable, Sequence
from itertools import count

from engine.body import Body, BodyConfig, open_body
from engine.clock import EngineClock
from engine.commands import Commands
from engine.control import Unblock
from engine.core import core_over
from engine.errors import Refused
from engine.events import Interval
from engine.geometry import KVDtype
from engine.knobs import Knobs
from engine.loop import Loop
from engine.models.loaded import LoadedModel, ServedModel
from engine.models.progress import silent
from engine.models.resolve import load_model
from engine.turn import Phase, Priority, TurnId, TurnRequest, TurnUpdate

AUTHOR = "bench"
STUCK_S = 120.0


class Rig:
    """One engine on one body. `generated` holds each turn's generated tokens, in order."""

    def __init__(self, body: Body, knobs: Knobs | None = None, seed: int = 0, clock: EngineClock | None = None) -> None:
        self.clock = clock or EngineClock()
        self.intervals: list[Interval] = []
        self.core = core_over(body, self.clock, knobs or Knobs(), lambda event: None, self.intervals.append)
        self.commands = Commands(self.core, random.Random(seed), count(1))
        self.loop = Loop(self.core)
        self.generated: dict[TurnId, list[int]] = {}
        self.errors: dict[TurnId, str] = {}

    def submit(
        self,
        prompt: Sequence[int],
        max_tokens: int,
        *,
        agent: str = "bench",
        priority: Priority = Priority.BACKGROUND,
        then_block: str | None = None,
        stop: tuple[str, ...] = (),
    ) -> TurnId:
        request = TurnRequest(
            agent, tuple(prompt), max_tokens, priority=priority, ignore_eos=True, then_block=then_block, stop=stop
        )
        turn = self.commands.submit(request, self._listen, AUTHOR, self.clock.now())
        self.generated[turn] = []
        return turn

    def unblock(self, turn: TurnId, tokens: Sequence[int], max_tokens: int, then_block: str | None = None) -> None:
        self.commands.unblock(Unblock(turn, tuple(tokens), max_tokens, then_block), AUTHOR, self.clock.now())

    def phase(self, turn: TurnId) -> Phase:
        live = self.core.ledger.turns.get(turn)
        return live.phase if live else self.core.ledger.ended[turn]

    def live(self) -> list[TurnId]:
        return list(self.core.ledger.turns)

    def tick(self) -> bool:
        """One token boundary and step; False when there was nothing to do."""
        return self.loop.tick().worked

    def run_until(self, done: Callable[[], bool], at_boundary: Callable[[], None] | None = None) -> None:
        """Tick until `done`; `at_boundary` acts between two steps. Raises RuntimeError if nothing moves for STUCK_S."""
        moved_at = self.clock.now()
        while not done():
            if at_boundary is not None:
                at_boundary()
            if self.tick():
                moved_at = self.clock.now()
            elif self.clock.now() - moved_at < STUCK_S:
                self.idle()
            else:
                raise RuntimeError(f"the engine made no progress for {STUCK_S:g} s")

    def idle(self) -> None:
        """Let time pass at a boundary with nothing to do: a turn may have to wait, for its dwell for one."""
        time.sleep(0.001)

    def leaked(self) -> tuple[int, int]:
        """Blocks and host bytes still held; both 0 once every turn has ended."""
        self.core.backend.check_integrity()
        memory = self.core.backend.memory()
        return memory.blocks_total - memory.blocks_free, memory.host_used_bytes

    def close(self) -> None:
        self.core.backend.shutdown()

    def _listen(self, update: TurnUpdate) -> None:
        self.generated[update.turn].extend(update.tokens)
        if update.error:
            self.errors[update.turn] = update.error


def quiet_body(
    *,
    exact: bool = False,
    kv_dtype: KVDtype = KVDtype.FP16,
    arena_tokens: int | None = None,
    backend: str = "torch",
) -> Body:
    """The default model (or PARKDECK_MODEL), without a progress display."""
    config = BodyConfig(backend=backend, exact=exact, kv_dtype=kv_dtype, arena_tokens=arena_tokens)
    return open_body(config, lambda startup: None)


def loaded(body: Body) -> ServedModel:
    """The body's model; a bench on text needs one."""
    if body.model is None:
        raise Refused(f"the backend {body.backend.name} has no model; choose torch")
    return body.model


def default_model() -> LoadedModel:
    """The default model, or PARKDECK_MODEL's."""
    return load_model(None, silent)
