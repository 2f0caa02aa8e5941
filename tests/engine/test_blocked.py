"""The blocked fraction against a plain sum over all spans: b, what a slot could carry and what it carries, per agent
and per tool; nothing before anything ran; flat over a day."""

import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.blocked import AGENTS_SHOWN, BUCKET_S, TOOLS_SHOWN, WINDOW_S
from engine.blocked_book import ENDED_KEPT, BlockedBook, edge, kind_of
from engine.control import Unblock
from engine.history import Span
from engine.publish import Publisher
from engine.snapshot import HostState
from engine.turn import Phase, Tier
from engine.twin.simulate import simulate
from tests.engine.lab import Lab
from tests.engine.twin.small import Everything, small_setup

PHASES = (Phase.WAITING, Phase.PREFILL, Phase.DECODE, Phase.PAUSED, Phase.BLOCKED)


def span(start: float, end: float, phase: Phase, tool: str | None = None, held: bool = False) -> Span:
    return Span(start, end, phase, Tier.RESIDENT, tool if phase is Phase.BLOCKED else None, held)


def book_of(*spans: tuple[str, Span]) -> BlockedBook:
    book = BlockedBook(0.0)
    for agent, one in spans:
        book.came(agent)
        book.add(agent, one)
        book.left(agent)
    return book


def test_seconds_of_a_life_are_blocked_served_or_queued_and_held_ones_are_none() -> None:
    book = book_of(
        ("a", span(0, 2, Phase.WAITING)),
        ("a", span(2, 3, Phase.PREFILL)),
        ("a", span(3, 6, Phase.DECODE)),
        ("a", span(6, 16, Phase.BLOCKED, "bash")),
        ("a", span(16, 20, Phase.BLOCKED, "bash", held=True)),
        ("a", span(20, 30, Phase.PAUSED, held=True)),
        ("a", span(30, 32, Phase.PAUSED)),
    )
    share = book.read(40.0, ()).session
    assert (share.blocked_s, share.served_s, share.queued_s) == (14.0, 4.0, 4.0)
    assert share.b == pytest.approx(14 / 22)
    assert share.could_carry == pytest.approx(18 / 4)
    assert share.carries == pytest.approx(22 / 4)
    assert share.agents == pytest.approx(22 / 40)
    assert share.slots == pytest.approx(4 / 40)


def test_nothing_before_anything_ran_is_none_and_no_nought() -> None:
    share = BlockedBook(5.0).read(5.0, ()).window
    assert (share.b, share.could_carry, share.carries, share.agents, share.slots) == (None,) * 5
    waits = BlockedBook(0.0)
    waits.came("a")
    queued = waits.read(3.0, [("a", span(0, 3, Phase.WAITING))]).session
    assert queued.b == 0.0
    assert queued.could_carry is None
    assert queued.carries is None


def test_without_a_queue_a_busy_slot_carries_what_it_could_and_with_one_the_queue_more() -> None:
    served = ("a", span(0, 4, Phase.DECODE)), ("a", span(4, 10, Phase.BLOCKED, "bash"))
    alone = book_of(*served).read(10.0, ()).session
    assert alone.could_carry == alone.carries == pytest.approx(2.5)
    assert alone.could_carry == pytest.approx(1 / (1 - (alone.b or 0)))
    crowded = book_of(*served, ("b", span(0, 10, Phase.WAITING))).read(10.0, ()).session
    assert crowded.could_carry == pytest.approx(2.5)
    assert crowded.carries == pytest.approx(5.0)
    assert crowded.carries - crowded.could_carry == pytest.approx(crowded.queued_s / crowded.served_s)


def test_the_mean_agents_of_a_busy_slot_are_counted_instant_by_instant() -> None:
    """Two slots, five agents: the sums say what a look at each instant says."""
    phases = [(Phase.DECODE, Phase.BLOCKED, Phase.DECODE), (Phase.DECODE, Phase.DECODE, Phase.BLOCKED)]
    phases += [(Phase.WAITING, Phase.DECODE, Phase.DECODE), (Phase.BLOCKED,) * 3, (Phase.WAITING,) * 3]
    spans = [
        (f"a{n}", span(2 * i, 2 * i + 2, phase, "t")) for n, own in enumerate(phases) for i, phase in enumerate(own)
    ]
    share = book_of(*spans).read(6.0, ()).session
    busy = [sum(own[i] is Phase.DECODE for own in phases) for i in range(3)]
    assert busy == [2, 2, 2]
    assert share.carries == pytest.approx(5 / 2)
    assert (share.agents, share.slots) == (pytest.approx(5.0), pytest.approx(2.0))


TURNS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "c"]),
        st.floats(0, 200),
        st.lists(
            st.tuples(st.sampled_from(PHASES), st.floats(0.01, 90), st.sampled_from(["bash", "web"]), st.booleans()),
            min_size=1,
            max_size=8,
        ),
    ),
    max_size=8,
)


@given(TURNS, st.floats(0, 400))
def test_whatever_comes_the_sums_are_those_of_all_spans(
    turns: list[tuple[str, float, list[tuple[Phase, float, str, bool]]]], now: float
) -> None:
    book = BlockedBook(0.0)
    closed: list[tuple[str, Span]] = []
    opened: list[tuple[str, Span]] = []
    for agent, start, states in turns:
        at = start
        for phase, seconds, tool, held in states:
            one = span(at, at + seconds, phase, tool, held)
            at += seconds
            if one.end <= now:
                closed.append((agent, one))
            elif one.start < now:
                opened.append((agent, span(one.start, now, phase, tool, held)))
    for agent, _, _ in turns:
        book.came(agent)
    for agent, one in sorted(closed, key=lambda pair: pair[1].end):
        book.add(agent, one)
    found = book.read(now, opened)
    every = [*closed, *opened]

    def total(kind: int, since: float = 0.0, agent: str | None = None, tool: str | None = None) -> float:
        return sum(
            max(0.0, one.end - max(one.start, since))
            for who, one in every
            if kind_of(one) == kind and agent in (None, who) and tool in (None, one.tool)
        )

    since = edge(now)
    assert now - WINDOW_S <= since <= now - WINDOW_S + BUCKET_S
    for share, begin in ((found.session, 0.0), (found.window, since)):
        assert share.blocked_s == pytest.approx(total(0, begin), abs=1e-6)
        assert share.served_s == pytest.approx(total(1, begin), abs=1e-6)
        assert share.queued_s == pytest.approx(total(2, begin), abs=1e-6)
    for row in found.agents:
        assert row.blocked_s == pytest.approx(total(0, agent=row.name), abs=1e-6)
        assert row.life_s == pytest.approx(sum(total(k, agent=row.name) for k in range(3)), abs=1e-6)
        assert row.window_blocked_s == pytest.approx(total(0, since, row.name), abs=1e-6)
        assert row.window_life_s == pytest.approx(sum(total(k, since, row.name) for k in range(3)), abs=1e-6)
    for named in found.tools:
        assert named.session_s == pytest.approx(total(0, tool=named.name), abs=1e-6)
        assert named.window_s == pytest.approx(total(0, since, tool=named.name), abs=1e-6)
    assert sum(named.session_s for named in found.tools) == pytest.approx(found.session.blocked_s, abs=1e-6)


def test_sixteen_tools_are_told_by_name_and_the_rest_as_one_however_many_there_were() -> None:
    book = BlockedBook(0.0)
    book.came("a")
    for n in range(1_000):
        book.add("a", span(n, n + (0.9 if n < 990 else 1.0), Phase.BLOCKED, f"rare {n}"))
    for n in range(20):
        book.add("a", span(1_000 + 10 * n, 1_000 + 10 * n + 5 + n / 10, Phase.BLOCKED, f"tool {n}"))
    found = book.read(1_300.0, [("a", span(1_290.0, 1_300.0, Phase.BLOCKED, "tool 0"))])
    assert [tool.name for tool in found.tools] == ["tool 0", *(f"tool {n}" for n in range(19, 4, -1)), None]
    assert len(found.tools) == TOOLS_SHOWN + 1
    assert sum(tool.session_s for tool in found.tools) == pytest.approx(found.session.blocked_s)
    assert sum(tool.window_s for tool in found.tools) == pytest.approx(found.window.blocked_s)
    assert found.tools[0].session_s == pytest.approx(15.0)


def test_memory_is_flat_over_a_day_of_thousands_of_agents() -> None:
    book = BlockedBook(0.0)
    sizes = []
    tracemalloc.start()
    per_hour = 125
    for hour in range(24):
        for n in range(per_hour):
            agent, at = f"agent {hour * per_hour + n}", 3_600 * hour + n * 28.8
            book.came(agent)
            book.add(agent, span(at, at + 2, Phase.DECODE))
            book.add(agent, span(at + 2, at + 5, Phase.BLOCKED, f"tool {hour * per_hour + n}"))
            book.left(agent)
        found = book.read(3_600.0 * (hour + 1), ())
        sizes.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert max(sizes[16:]) < max(sizes[8:16]) + 50_000
    assert found.session.b == pytest.approx(0.6)
    assert len(found.agents) == AGENTS_SHOWN == ENDED_KEPT
    assert found.agents[0].name == "agent 2999"
    assert found.unshown == 24 * per_hour - AGENTS_SHOWN


def test_an_agent_lives_from_its_submit_to_the_end_of_its_last_turn_and_time_between_turns_is_none_of_it() -> None:
    lab = Lab()
    first = lab.ask(20, 3, agent="a")
    assert lab.core.ledger.blocked(lab.lab_clock.at).session.life_s == 0.0
    lab.finish([first])
    once = lab.core.ledger.blocked(lab.lab_clock.at)
    lab.lab_clock.at += 500.0
    gap = lab.core.ledger.blocked(lab.lab_clock.at)
    assert gap.session.life_s == once.session.life_s > 0
    assert gap.session.b == 0.0
    assert gap.window.b is None
    (row,) = gap.agents
    assert (row.name, row.live, row.b, row.window_b) == ("a", False, 0.0, None)
    second = lab.ask(20, 3, agent="a", then_block="bash")
    lab.run_until(lambda: lab.phase(second) is Phase.BLOCKED)
    lab.lab_clock.at += 10.0
    blocked = lab.core.ledger.blocked(lab.lab_clock.at)
    (row,) = blocked.agents
    assert row.live
    assert row.blocked_s == pytest.approx(10.0, abs=0.1)
    assert [(tool.name, round(tool.session_s)) for tool in blocked.tools] == [("bash", 10)]
    lab.commands.unblock(Unblock(second, (1, 2), 3), "bench", lab.lab_clock.at)
    lab.finish([second])
    assert lab.core.ledger.blocked(lab.lab_clock.at).session.blocked_s == pytest.approx(10.0, abs=0.1)


def test_what_is_published_is_none_before_the_first_turn_a_second_old_at_most_and_what_the_spans_say() -> None:
    lab = Lab()
    publisher = Publisher("s", lab.core, None, 768, lambda sample: None)
    before = publisher.snapshot(HostState.IDLE, None, 0)
    assert before.blocked is None
    assert before.rates.blocked_fraction is None
    turn = lab.ask(20, 3, then_block="bash")
    lab.run_until(lambda: lab.phase(turn) is Phase.BLOCKED)
    seen = []
    for _ in range(40):
        lab.lab_clock.at += 0.25
        snapshot = publisher.snapshot(HostState.IDLE, None, 0)
        assert snapshot.blocked is not None
        assert snapshot.at - snapshot.blocked.at < 1.0
        assert snapshot.rates.blocked_fraction == snapshot.blocked.window.b
        seen.append(snapshot.blocked.session.blocked_s)
    assert all(later >= earlier for earlier, later in pairwise(seen))
    detail = lab.commands.turn_detail(turn)
    assert lab.core.ledger.blocked(lab.lab_clock.at).session.blocked_s == pytest.approx(detail.blocked_s)


def test_on_the_twins_clock_it_is_what_the_intervals_say() -> None:
    sink = Everything()
    simulate(small_setup(), sinks=[sink])
    last = sink.samples[-1]
    assert last.at < WINDOW_S - BUCKET_S, "all of the run is in the window"
    until = last.utc
    spans = [(i.phase, max(0.0, min(i.end_utc, until) - i.start_utc)) for i in sink.intervals]
    blocked = sum(seconds for phase, seconds in spans if phase is Phase.BLOCKED)
    assert blocked > 0
    assert last.rates.blocked_fraction == pytest.approx(blocked / sum(seconds for _, seconds in spans), abs=0.03)
