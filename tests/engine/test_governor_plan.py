"""The step: decode beside prefill, whole chunks or none (S7)."""

import pytest

from engine.backends.base import Work
from engine.turn import Phase, Priority, TurnId
from tests.engine.simulator import COSTS, Simulator, knobs

FG, BG = Priority.FOREGROUND, Priority.BACKGROUND


def test_whole_chunks_or_none() -> None:
    sim = Simulator(blocks=400, knobs=knobs(prefill_chunk=64))
    for prompt in (100, 40, 20, 28):
        sim.submit(prompt, 3)
    assert sim.step().plan.work == (Work(TurnId(1), 64),)
    # 36 left of the first, then 40 does not fit the 28 left, 20 does, and 28 does not fit the 8 left
    assert sim.step().plan.work == (Work(TurnId(1), 36), Work(TurnId(3), 20))
    work = sim.step().plan.work
    assert work == (Work(TurnId(1), 1), Work(TurnId(3), 1), Work(TurnId(2), 40))


def test_foreground_prefills_first() -> None:
    sim = Simulator(blocks=400)
    sim.submit(200, 3)
    person = sim.submit(100, 3, FG)
    assert person is not None
    assert sim.step().plan.work == (Work(person.id, 64),)


def test_one_pending_token_is_a_decode_step() -> None:
    sim = Simulator(blocks=400)
    one = sim.submit(1, 3)
    long = sim.submit(500, 3)
    assert one is not None
    assert long is not None
    assert sim.step().plan.work == (Work(one.id, 1), Work(long.id, 64))


@pytest.mark.parametrize("chunk", [16, 64, 256])
@pytest.mark.parametrize("mates", [0, 3])
def test_where_chunks_end_does_not_depend_on_mates(chunk: int, mates: int) -> None:
    sim = Simulator(blocks=400, knobs=knobs(prefill_chunk=chunk))
    for n in range(mates):
        sim.submit(90 + 17 * n, 30)
    turn = sim.submit(333, 3)
    assert turn is not None
    ends = set()
    while turn.live:
        sim.step()
        if turn.kv <= 333:
            ends.add(turn.kv)
    assert ends - {0} == {*range(chunk, 333, chunk), 333}


def test_decode_is_not_starved_by_prompts_back_to_back() -> None:
    sim = Simulator(blocks=1000, knobs=knobs(max_running=4, prefill_chunk=128))
    talker = sim.submit(10, 400)
    assert talker is not None
    sim.step()
    chunk_step = COSTS.decode_base_s + COSTS.recompute_s(128)
    gaps, said, at = [], talker.generated, sim.now
    while talker.live and sim.now < 60:
        while len(sim.in_phase(Phase.WAITING)) < 3:
            sim.submit(1500, 4)
        sim.step()
        if talker.generated > said:
            gaps.append(sim.now - at)
            said, at = talker.generated, sim.now
    assert len(gaps) > 100
    assert max(gaps) <= 3 * chunk_step


@pytest.mark.parametrize(("largest_chunk", "yields_every"), [(7, 0), (1 << 20, 3)])
def test_a_body_that_does_less_than_planned_is_served(largest_chunk: int, yields_every: int) -> None:
    sim = Simulator(blocks=60, host_blocks=30, largest_chunk=largest_chunk, yields_every=yields_every)
    turns = [sim.submit(100 + 30 * n, 20, FG if n % 3 == 0 else BG) for n in range(8)]
    sim.drain(5000)
    assert [t.generated for t in turns if t] == [20] * 8
