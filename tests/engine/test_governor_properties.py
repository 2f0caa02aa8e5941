"""Whatever comes, in whatever order: the simulator checks every decision against the rules, here all must end.

Checked by the simulator at each boundary: slots, blocks and host bytes never overdrawn, room for the whole context of
all that start, no equal preempted, quantum and dwell kept, chunks whole, foreground served, stalls broken, wake_at
true, decide deterministic.
"""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.governor import STARVE_AFTER_S
from engine.knobs import Knobs
from engine.policies import policies
from engine.turn import Phase, Priority
from tests.engine.simulator import BLOCK, Simulator

FG, BG = Priority.FOREGROUND, Priority.BACKGROUND
POLICIES = st.sampled_from(list(policies()))
PARAMETERS = st.sampled_from(
    [(), (("swap-on-block.margin", 0.0),), (("min-waste.overlap", 100.0),), (("ttl.samples", 8.0),)]
)
FRACTIONS = st.sampled_from([0.05, 0.4, 0.7, 0.9, 1.0])
bounded = settings(max_examples=120)


@st.composite
def some_knobs(draw: st.DrawFn) -> Knobs:
    low, high = sorted((draw(FRACTIONS), draw(FRACTIONS)))
    return Knobs(
        policy=draw(POLICIES),
        high_watermark=high,
        low_watermark=low,
        long_turn_tokens=draw(st.sampled_from([40, 200, 5000])),
        max_running=draw(st.integers(1, 6)),
        min_quantum_s=draw(st.sampled_from([0.0, 0.25, 3.0])),
        prefill_chunk=draw(st.sampled_from([16, 64, 256])),
        abandon_after_s=draw(st.sampled_from([0.5, 10.0, 900.0])),
        parameters=draw(PARAMETERS),
    )


EVENTS = st.one_of(
    st.tuples(
        st.just("submit"),
        st.integers(1, 300),
        st.integers(1, 40),
        st.sampled_from([FG, BG, BG]),
        st.sampled_from([None, "bash"]),
    ),
    st.tuples(st.just("run"), st.integers(1, 25)),
    st.tuples(st.just("wait"), st.sampled_from([0.3, 1.0, 6.0, STARVE_AFTER_S])),
    st.tuples(st.just("unblock"), st.integers(0, 99), st.integers(0, 120), st.integers(1, 30)),
    st.tuples(st.sampled_from(["block", "cancel", "pause", "resume"]), st.integers(0, 99)),
    st.tuples(st.just("knobs"), some_knobs()),
    st.tuples(st.just("precision"), st.sampled_from([512, 1024, 2048])),
)


def play(sim: Simulator, event: tuple[Any, ...]) -> None:
    match event:
        case ("submit", prompt, generate, priority, tool):
            sim.submit(prompt, generate, priority, tool)
        case ("run", steps):
            sim.run(steps)
        case ("wait", seconds):
            sim.now += seconds
        case ("knobs", knobs):
            sim.knobs = knobs
        case ("precision", nbytes):
            sim.set_block_bytes(nbytes)
        case (verb, which, *rest):
            turns = sim.in_phase(Phase.BLOCKED) if verb == "unblock" else sim.live
            if turns:
                getattr(sim, verb)(turns[which % len(turns)], *rest)


@bounded
@given(
    blocks=st.sampled_from([8, 20, 60]),
    host_blocks=st.sampled_from([0, 6, 200]),
    knobs=some_knobs(),
    body=st.sampled_from([(1 << 20, 0), (1 << 20, 0), (7, 0), (1 << 20, 4)]),
    events=st.lists(EVENTS, max_size=40),
)
def test_any_sequence_keeps_the_rules_and_everything_ends(
    blocks: int, host_blocks: int, knobs: Knobs, body: tuple[int, int], events: list[tuple[Any, ...]]
) -> None:
    sim = Simulator(blocks=blocks, host_blocks=host_blocks, knobs=knobs, largest_chunk=body[0], yields_every=body[1])
    for event in events:
        play(sim, event)
    asked = sum(t.tokens + t.left for t in sim.live)
    sim.drain(200 + 20 * asked)
    assert all(t.phase.ended for t in sim.turns.values())
    assert all(t.error for t in sim.turns.values() if t.phase is Phase.FAILED)
    assert sim.free == sim.total
    assert sim.host_free == sim.host_bytes


@settings(bounded, max_examples=60)
@given(
    policy=POLICIES,
    sizes=st.lists(st.integers(1, 250), min_size=2, max_size=10),
    priority=st.sampled_from([FG, BG]),
    slots=st.integers(1, 4),
)
def test_equals_are_served_in_order_and_never_preempted_for_a_slot(
    policy: str, sizes: list[int], priority: Priority, slots: int
) -> None:
    """With room for all, turns start in the order of their arrival and none loses its slot."""
    sim = Simulator(blocks=sum(-(-s // BLOCK) + 3 for s in sizes), knobs=Knobs(policy=policy, max_running=slots))
    turns = [sim.submit(size, 12, priority) for size in sizes]
    started: list[int] = []
    while any(t and t.live for t in turns):
        sim.step()
        started += [t.id for t in sim.turns.values() if t.phase is not Phase.WAITING and t.id not in started]
        if sim.now > STARVE_AFTER_S:
            break
    assert started == sorted(started)
    assert sim.counts["preemptions"] == 0


@settings(bounded, max_examples=8)
@given(
    policy=POLICIES,
    slots=st.integers(1, 3),
    quantum=st.sampled_from([0.0, 0.25, 1.0]),
    prompts=st.lists(st.integers(1, 300), min_size=1, max_size=3),
    length=st.integers(2, 30),
    host_blocks=st.sampled_from([0, 100]),
)
def test_background_is_served_under_foreground_without_end(
    policy: str, slots: int, quantum: float, prompts: list[int], length: int, host_blocks: int
) -> None:
    """Each background turn gets its share within STARVE_AFTER_S, the time of one foreground turn, and the shares of
    those before it."""
    knobs = Knobs(policy=policy, max_running=slots, min_quantum_s=quantum)
    sim = Simulator(blocks=80, host_blocks=host_blocks, knobs=knobs)
    background = [t for p in prompts if (t := sim.submit(p, 400))]
    share = 2 * COST_OF_A_STEP + quantum + 300 / 1000
    bound = STARVE_AFTER_S + (len(prompts) + 1) * (share + (length + 12) * COST_OF_A_STEP)
    served = {t.id: (0, 0.0) for t in background}
    while sim.now < 2.5 * bound and any(t.live for t in background):
        while sum(t.priority is FG for t in sim.live) < slots + 1:
            sim.submit(20, length, FG)
        sim.step()
        for turn in background:
            generated, at = served[turn.id]
            if turn.generated > generated or not turn.live:
                served[turn.id] = turn.generated, sim.now
            else:
                assert sim.now - at <= bound


COST_OF_A_STEP = 0.1
