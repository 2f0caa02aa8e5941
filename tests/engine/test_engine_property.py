"""Any sequence of arrivals, blocks, operator's moves, knob changes and cancels: the books add up at each boundary, no
turn is lost, everything ends, and no token differs from the undisturbed run."""

from contextlib import suppress
from itertools import pairwise

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.errors import Refused
from engine.knobs import Knobs
from engine.policies import policies
from engine.turn import Phase, Priority, TurnId
from tests.engine.lab import Lab

VERBS = ("pause", "resume", "swap_out", "drop", "cancel", "block", "unblock")
ACT = st.one_of(
    st.tuples(st.just("arrive"), st.integers(1, 120), st.integers(1, 12), st.sampled_from(Priority), st.booleans()),
    st.tuples(st.sampled_from(VERBS), st.integers(0, 30)),
    st.tuples(st.just("knob"), st.sampled_from(("kv_dtype",)), st.sampled_from(("fp16", "q8"))),
    st.tuples(st.just("knob"), st.just("policy"), st.sampled_from(sorted(policies()))),
    st.tuples(st.just("knob"), st.just("max_running"), st.integers(1, 6)),
    st.tuples(st.just("knob"), st.just("high_watermark"), st.sampled_from((0.3, 0.6, 1.0))),
    st.tuples(st.just("knob"), st.just("low_watermark"), st.sampled_from((0.1, 0.3, 0.9))),
    st.tuples(st.just("knob"), st.just("prefill_chunk"), st.sampled_from((16, 48, 256))),
    st.tuples(st.just("knob"), st.just("host_pool_bytes"), st.sampled_from((0, 60_000, 400_000))),
    st.tuples(st.just("run"), st.integers(1, 25)),
)


class Driver:
    """Carries acts out on a lab; a refusal is a legal answer that must have changed nothing the next tick trips on."""

    def __init__(self, arena_tokens: int, host_tokens: int, overlap: bool = False) -> None:
        self.lab = Lab(arena_tokens, host_tokens, Knobs(max_running=3), overlap=overlap)
        self.turns: list[TurnId] = []

    def act(self, act: tuple[object, ...]) -> None:
        with suppress(Refused):
            self._act(*act)

    def _act(self, kind: str, *rest: object) -> None:
        lab = self.lab
        match kind, rest:
            case "arrive", (length, tokens, priority, blocks):
                tool = "pytest" if blocks else None
                salt = len(self.turns)
                self.turns.append(lab.ask(length, tokens, salt, priority=priority, then_block=tool, agent=f"a{salt}"))
            case "knob", (name, value):
                lab.commands.set_knobs({name: value}, "page")
            case "run", (count,):
                lab.ticks(count)
            case _, (number,) if self.turns:
                self._verb(kind, self.turns[number % len(self.turns)])
            case _:
                pass

    def _verb(self, verb: str, turn: TurnId) -> None:
        lab = self.lab
        if verb == "block":
            lab.commands.block(turn, "pytest", "page")
        elif verb == "unblock":
            lab.unblock(turn, (), 5)
        else:
            getattr(lab.commands, verb)(turn, "page")

    def _return(self, turn: TurnId) -> None:
        """A turn that fills the arena cannot go on; its client gives up."""
        try:
            self.lab.unblock(turn, (), 3)
        except Refused:
            self.lab.commands.cancel(turn, "page")

    def end(self) -> None:
        """Let go of all that is held, return every tool: all turns must end by themselves."""
        lab = self.lab
        for _ in range(40):
            for turn in lab.live():
                live = lab.core.ledger.turns[turn]
                if live.held:
                    lab.commands.resume(turn, "page")
                if live.phase is Phase.BLOCKED:
                    self._return(turn)
            lab.ticks(80)
            if not lab.live():
                return
        raise AssertionError(f"turns never ended: {[(t, lab.phase(t)) for t in lab.live()]}")


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(
    arena_tokens=st.integers(64, 400),
    host_tokens=st.sampled_from((0, 100, 2000)),
    overlap=st.booleans(),
    acts=st.lists(ACT, min_size=4, max_size=30),
)
def test_any_sequence_ends_with_the_right_tokens(
    arena_tokens: int, host_tokens: int, overlap: bool, acts: list
) -> None:
    driver = Driver(arena_tokens, host_tokens, overlap)
    for act in acts:
        driver.act(act)
        driver.lab.tick()
    driver.end()
    lab = driver.lab
    for turn in driver.turns:
        lab.assert_right(turn)
        assert lab.phase(turn) in (Phase.DONE, Phase.CANCELLED) or lab.errors[turn]
    counters = lab.core.counters
    assert counters.finished + counters.cancelled + counters.failed == counters.turns == len(driver.turns)
    assert lab.leaked() == (0, 0)
    for turn in driver.turns:
        spans = [i for i in lab.intervals if i.turn == turn]
        assert all(a.end_utc == b.start_utc for a, b in pairwise(spans)), "intervals have gaps"
