"""Whatever happens to turns, also what the backend does by itself: what is booked was counted and really moved."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.backends.base import Moved, StepPlan, StepResult
from engine.backends.torch.backend import TorchBackend
from engine.errors import Refused
from engine.events import EventKind
from engine.policies import policies
from engine.turn import Phase, TurnId
from tests.engine.lab import Lab

AUTHOR = "page"
VERBS = (
    "drop", "swap", "pause", "resume", "cancel", "tick", "unblock", "q8", "fp16", "corrupt", "small", "large", "evict"
)  # fmt: skip


class Watched(Lab):
    """Keeps what the backend says it moved. `evict`: in the next step the backend itself preempts the turn planned
    last, as vLLM does."""

    def __init__(self) -> None:
        super().__init__(arena_tokens=512, host_tokens=768)
        self.moved: list[tuple[EventKind, int, int, float]] = []
        self.evict = False
        backend = self.core.backend
        out, back, step = backend.swap_out, backend.swap_in, backend.step

        def swap_out(turn: TurnId) -> Moved | None:
            return self._keep(EventKind.SWAP_OUT, turn, out(turn))

        def swap_in(turn: TurnId) -> Moved | None:
            return self._keep(EventKind.SWAP_IN, turn, back(turn))

        def evicting(plan: StepPlan) -> StepResult:
            if not self.evict:
                return step(plan)
            self.evict = False
            victim = plan.work[-1].turn
            result = step(StepPlan(plan.work[:-1])) if len(plan.work) > 1 else StepResult((), 0.001)
            backend.drop(victim)
            return replace(result, preempted=(victim,))

        backend.swap_out, backend.swap_in, backend.step = swap_out, swap_in, evicting  # type: ignore[method-assign]

    def _keep(self, kind: EventKind, turn: TurnId, moved: Moved | None) -> Moved | None:
        if moved is not None:
            self.moved.append((kind, self.core.backend.holding(turn).kv_tokens, moved.nbytes, moved.seconds))
        return moved

    def corrupt(self) -> None:
        backend = self.core.backend
        assert isinstance(backend, TorchBackend)
        np.bitwise_xor(backend._pool._slab.array, 0x11, out=backend._pool._slab.array)

    def act(self, verb: str, turn: TurnId) -> None:
        live = self.core.ledger.turns.get(turn)
        if verb == "tick":
            self.ticks(2)
        elif verb in ("q8", "fp16"):
            self.commands.set_knobs({"kv_dtype": verb}, AUTHOR)
        elif verb in ("small", "large"):
            self.commands.set_knobs({"host_pool_bytes": 1 << 14 if verb == "small" else 1 << 18}, AUTHOR)
        elif verb == "corrupt":
            self.corrupt()
        elif verb == "evict":
            self.evict = True
        elif live is not None:
            self._act_on(verb, turn)

    def _act_on(self, verb: str, turn: TurnId) -> None:
        acts = self.commands
        if verb == "unblock":
            self.unblock(turn, range(24), 6)
        else:
            verbs = {"drop": acts.drop, "swap": acts.swap_out, "pause": acts.pause, "resume": acts.resume}
            (verbs | {"cancel": acts.cancel})[verb](turn, AUTHOR)


@settings(max_examples=60)
@given(
    st.sampled_from(list(policies())),
    st.lists(st.tuples(st.sampled_from(VERBS), st.integers(0, 4)), max_size=50),
)
def test_what_is_booked_is_what_was_counted_and_moved(policy: str, script: list[tuple[str, int]]) -> None:
    lab = Watched()
    lab.commands.set_knobs({"prefill_chunk": 32, "policy": policy}, AUTHOR)
    turns = [lab.ask(60 + 20 * salt, 12, salt, then_block="tool" if salt % 2 else None) for salt in range(5)]
    lab.ticks(6)
    for verb, which in script:
        try:
            lab.act(verb, turns[which])
        except Refused:
            continue
        lab.ticks(1)
        lab.core.backend.check_integrity()
    lab.evict = False
    for turn in list(lab.core.ledger):
        if turn.held:
            lab.commands.resume(turn.id, AUTHOR)
    for _ in range(400):
        if not lab.core.ledger.turns:
            break
        for turn in [t for t in lab.core.ledger if t.phase is Phase.BLOCKED]:
            lab.commands.cancel(turn.id, AUTHOR)
        lab.tick()
    assert not lab.core.ledger.turns
    moves, counters = list(lab.core.moves), lab.core.counters
    again = [move for move in moves if move.kind is EventKind.RECOMPUTE]
    copies = [move for move in moves if move.kind is not EventKind.RECOMPUTE]
    assert [(move.kind, move.tokens, move.nbytes, move.seconds) for move in copies] == lab.moved
    outs = [move for move in copies if move.kind is EventKind.SWAP_OUT]
    assert (len(outs), len(copies) - len(outs)) == (counters.swaps_out, counters.swaps_in)
    assert sum(move.nbytes for move in outs) == counters.swap_out_bytes
    assert sum(move.nbytes for move in copies) - counters.swap_out_bytes == counters.swap_in_bytes
    assert abs(sum(move.seconds for move in copies) - counters.swap_seconds) < 1e-9
    assert sum(move.tokens for move in again) == counters.recomputed_tokens
    assert len(again) == sum(event.kind is EventKind.RECOMPUTE for event in lab.core.events)
    assert all(move.tokens > 0 and move.seconds > 0 for move in moves)
    assert all((move.nbytes == 0) == (move.kind is EventKind.RECOMPUTE) for move in moves)
    memory = lab.core.backend.memory()
    assert (memory.blocks_free, memory.host_used_bytes) == (memory.blocks_total, 0)
