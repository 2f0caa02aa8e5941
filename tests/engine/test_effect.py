"""What a change did: equal spans, their spread, and what is not known (pure, over made-up samples)."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.changes import changes, latest_change, overruled
from engine.effect import MOST_S, Compared, Effect, Figure, Stage, Verdict, effect
from engine.events import Event, EventKind
from engine.geometry import KVDtype
from engine.snapshot import Bands, BandTurns, Counters, Rates, Sample

GAP_S = 0.25
MIB = 1 << 20


def event(at: float, name: str = "kv_dtype", old: str = "fp16", new: str = "q8", **more: object) -> Event:
    values: dict[str, object] = {"author": "tab 1", "text": f"{name} {old} → {new}", "seconds": 0.0} | more
    return Event(at, at, int(at * 10), EventKind.KNOB, name=name, old=old, new=new, **values)  # type: ignore[arg-type]


def sample(at: float, kv: int = 0, **more: object) -> Sample:
    bands = Bands(100 * MIB, 0, kv, 0, 0, 0, None, 400 * MIB, 0, BandTurns(1, 0, 0, 0))
    values: dict[str, object] = {"counters": Counters(), "running": 1, "paused_fit": 3} | more
    return Sample(at, at, 0, bands, KVDtype.FP16, 0, 0, waiting=0, paused=0, blocked=0, rates=Rates(), **values)  # type: ignore[arg-type]


def life(until: float, change_at: float, since: float = 0.0) -> list[Sample]:
    """A sample each GAP_S: from the change on half the KV, and 100 tokens a second instead of 50, in 10 ms each instead
    of 20 ms; a swap a second before, none since."""
    found = []
    for index in range(int((until - since) / GAP_S) + 1):
        at = since + index * GAP_S
        after = max(0.0, at - change_at)
        tokens = int(50 * (at - after)) + int(100 * after)
        counters = Counters(generated_tokens=tokens, swaps_out=int(at - after), recomputed_tokens=8 * int(at - after))
        itl = ((0.01, 20), (0.011, 5)) if after else ((0.02, 10), (0.022, 2))
        kv = (100 if after else 200) * MIB + index % 4 * MIB
        found.append(sample(at, kv, counters=counters, itl=itl, paused_fit=6 if after else 3))
    return found


def measured(change: Event, samples: list[Sample], *others: Event, now: float | None = None) -> Effect:
    events = sorted((change, *others), key=lambda e: e.at)
    (found,) = [c for c in changes(events) if change in c.events]
    return effect(found, events, samples, samples[-1].at if now is None else now)


def test_each_figure_before_and_after_with_its_middle_half() -> None:
    shown = measured(event(40.0), life(75.0, 40.0))
    assert (shown.stage, shown.before_s, shown.after_s) == (Stage.DONE, MOST_S, MOST_S)
    assert shown.headroom.before == Figure(199 * MIB, 198 * MIB, 200 * MIB)
    assert shown.headroom.verdict is Verdict.UP
    assert (shown.paused_fit.before, shown.paused_fit.after) == (Figure(3, 3, 3), Figure(6, 6, 6))
    assert shown.itl.before == Figure(0.02, 0.02, 0.02)
    assert shown.itl.after == Figure(0.01, 0.01, 0.01)
    assert shown.itl.verdict is Verdict.DOWN
    assert shown.decode.before is not None
    assert shown.decode.after is not None
    assert shown.decode.before.value == pytest.approx(50, abs=1)
    assert shown.decode.after.value == pytest.approx(100, abs=1)
    assert shown.swaps == Compared(Figure(30, 5, 5, 6), Figure(0, 0, 0, 6))
    assert shown.recomputed == Compared(Figure(240, 40, 40, 6), Figure(0, 0, 0, 6))


def test_the_after_span_grows_and_the_before_span_with_it() -> None:
    for passed in (1.0, 12.0, 29.75):
        shown = measured(event(40.0), life(40.0 + passed, 40.0))
        assert (shown.stage, shown.before_s, shown.after_s) == (Stage.GROWING, passed, passed)


def test_until_there_is_a_second_nothing_is_said() -> None:
    shown = measured(event(40.0), life(40.5, 40.0))
    assert (shown.stage, shown.before_s, shown.headroom) == (Stage.GROWING, 0.0, Compared())


def test_a_counter_is_a_count_and_what_was_not_measured_is_none() -> None:
    still = [sample(at * GAP_S, running=0, paused_fit=None) for at in range(200)]
    shown = measured(event(20.0), still)
    assert shown.itl == shown.decode == shown.paused_fit == Compared()
    assert shown.decode.verdict is Verdict.NONE
    assert shown.swaps.before == Figure(0, 0, 0, 6)
    assert shown.swaps.verdict is Verdict.SAME


def test_turns_that_run_and_get_no_token_have_a_rate_of_zero() -> None:
    shown = measured(event(20.0), [sample(at * GAP_S) for at in range(200)])
    assert shown.decode.after == Figure(0, 0, 0)


def test_the_time_of_the_switch_is_in_neither_span() -> None:
    samples = life(80.0, 40.0)
    slow = [s if not 38.0 < s.at < 40.0 else replace(s, paused_fit=99) for s in samples]
    shown = measured(event(40.0, seconds=2.0), slow)
    assert shown.paused_fit.before == Figure(3, 3, 3)
    assert shown.before_s == shown.after_s == MOST_S


def test_turns_that_left_for_the_switch_are_counted_and_others_are_not() -> None:
    def out(at: float, kind: EventKind = EventKind.SWAP_OUT) -> Event:
        return Event(at, at, 0, kind, "governor", "out")

    events = (out(38.5), out(39.2), out(39.5, EventKind.DROP), out(40.3))
    assert measured(event(40.0, seconds=1.0), life(50.0, 40.0), *events).left == 2
    assert measured(event(40.0), life(50.0, 40.0), out(40.0)).left == 0


@pytest.mark.parametrize("kind", [EventKind.KNOB, EventKind.SWARM])
def test_spans_end_at_the_changes_beside_this_one(kind: EventKind) -> None:
    before, after = (replace(event(at, "max_running", "8", "4"), kind=kind) for at in (34.0, 44.0))
    shown = measured(event(40.0), life(80.0, 40.0), before)
    assert (shown.stage, shown.before_s, shown.after_s, shown.previous) == (Stage.DONE, 6.0, 6.0, before)
    shown = measured(event(40.0), life(80.0, 40.0), before, after)
    assert (shown.stage, shown.before_s, shown.after_s, shown.next) == (Stage.DONE, 4.0, 4.0, after)


def test_the_time_of_the_next_switch_is_not_in_the_after_span() -> None:
    after = event(46.0, "kv_dtype", "q8", "fp16", seconds=2.0)
    assert measured(event(40.0), life(80.0, 40.0), after).after_s == 4.0


def test_changed_again_at_once_there_is_nothing_to_measure() -> None:
    again = event(40.4, "max_running", "8", "4")
    assert measured(event(40.0), life(80.0, 40.0), again).stage is Stage.NO_AFTER
    assert measured(again, life(80.0, 40.0), event(40.0)).stage is Stage.NO_BEFORE


def test_at_the_very_start_there_is_no_before() -> None:
    assert measured(event(0.1), life(30.0, 0.1)).stage is Stage.NO_BEFORE
    shown = measured(event(0.1), [], now=0.1)
    assert (shown.stage, shown.headroom) == (Stage.NO_BEFORE, Compared())


def test_samples_that_may_be_thinned_are_not_measured() -> None:
    assert measured(event(40.0), life(180.0, 40.0)).stage is Stage.DONE
    assert measured(event(40.0), life(240.0, 40.0)).stage is Stage.GONE


def test_a_difference_within_the_spread_is_called_so() -> None:
    assert Compared(Figure(10, 8, 12), Figure(11, 10.5, 11.5)).verdict is Verdict.WITHIN
    assert Compared(Figure(10, 8, 12), Figure(13, 9, 14)).verdict is Verdict.WITHIN
    assert Compared(Figure(10, 8, 12), Figure(13, 12.5, 14)).verdict is Verdict.UP
    assert Compared(Figure(13, 12.5, 14), Figure(10, 8, 12)).verdict is Verdict.DOWN
    assert Compared(Figure(10), Figure(13)).verdict is Verdict.UNSURE
    assert Compared(Figure(10), Figure(10)).verdict is Verdict.SAME
    assert Compared(None, Figure(13, 12.5, 14)).verdict is Verdict.NONE


def test_one_burst_in_one_part_is_no_evidence() -> None:
    assert Compared(Figure(12, 0, 0, 6), Figure(0, 0, 0, 6)).verdict is Verdict.WITHIN
    assert Compared(Figure(17, 2, 3, 6), Figure(0, 0, 0, 6)).verdict is Verdict.DOWN


times = st.lists(st.floats(0.01, 3.0), min_size=1, max_size=120)


@given(
    gaps=times,
    at=st.floats(0.0, 60.0),
    took=st.floats(0.0, 3.0),
    others=st.lists(st.floats(0.0, 90.0), max_size=4),
    deltas=st.lists(st.integers(0, 50), min_size=120, max_size=120),
)
def test_spans_are_equal_apart_and_within_their_neighbours(
    gaps: list[float], at: float, took: float, others: list[float], deltas: list[int]
) -> None:
    samples, now, swaps = [], 0.0, 0
    for gap, more in zip(gaps, deltas, strict=False):
        now, swaps = now + gap, swaps + more
        counters = Counters(generated_tokens=3 * swaps, swaps_out=swaps, recomputed_tokens=swaps)
        samples.append(sample(now, counters=counters, itl=((gap, more),) if more else ()))
    beside = [event(other, "max_running", "8", "4") for other in others if abs(other - at) > took]
    shown = measured(event(at, seconds=took), samples, *beside, now=now)
    assert shown.before_s <= MOST_S
    assert shown.after_s <= MOST_S
    assert abs(shown.before_s - shown.after_s) <= max(gaps) + 1e-9
    for compared in (shown.swaps, shown.recomputed, shown.decode, shown.itl):
        for figure in (compared.before, compared.after):
            if figure is not None:
                assert figure.value >= 0
                assert figure.low is None or 0 <= figure.low <= (figure.high or 0)
    if shown.before_s:
        assert shown.stage in (Stage.GROWING, Stage.DONE)
        assert shown.swaps.before is not None
        assert shown.swaps.after is not None
        assert shown.swaps.before.value + shown.swaps.after.value <= swaps
        lower = [b.at for b in beside if b.at <= at]
        inside = [s for s in samples if max(lower, default=0.0) <= s.at <= at - took]
        assert shown.before_s <= inside[-1].at - inside[0].at + 1e-9
    else:
        assert shown.headroom == Compared()


@given(st.lists(st.tuples(st.floats(0.001, 1.0), st.integers(1, 9)), min_size=1, max_size=30))
def test_latencies_count_once_for_each_token(latencies: list[tuple[float, int]]) -> None:
    from engine.stats import quantile

    samples = [sample(at * GAP_S, itl=tuple(latencies) if at == 43 else ()) for at in range(100)]
    shown = measured(event(10.5), samples)
    every = [seconds for seconds, count in latencies for _ in range(count)]
    assert shown.itl.before is None
    assert shown.itl.after is not None
    assert shown.itl.after.value == pytest.approx(quantile(every, 0.5))
    if len(every) >= 4:
        assert shown.itl.after.low == pytest.approx(quantile(every, 0.25))
        assert shown.itl.after.high == pytest.approx(quantile(every, 0.75))


# -- changes ----------------------------------------------------------------------------------------------------------


def test_knobs_of_one_set_belong_together_and_those_of_two_do_not() -> None:
    one, two = event(5.0), event(5.0, "max_running", "8", "4")
    later = replace(event(6.0, "max_running", "4", "8"), step=50)
    other = event(6.0, "policy", "walk-down", "resident-only", author="cli")
    found = changes((one, two, later, other))
    assert [c.events for c in found] == [(one, two), (later,), (other,)]
    assert found[0].text == "kv_dtype fp16 → q8; max_running 8 → 4"
    assert found[0].old == {"kv_dtype": KVDtype.FP16, "max_running": 8}
    assert latest_change((one, two, later, other)) == found[2]
    assert latest_change(()) is None
    assert len({c.key for c in found}) == 3


def test_a_knob_set_twice_at_one_instant_was_two_changes() -> None:
    assert len(changes((event(5.0), event(5.0, old="q8", new="fp16")))) == 2


def test_old_values_are_what_they_were() -> None:
    told = {"high_watermark": "0.95", "host_pool_bytes": "1048576", "min_quantum_s": "0.25", "policy": "walk-down"}
    (found,) = changes([event(5.0, name, old, "x") for name, old in told.items()])
    assert found.old == {"high_watermark": 0.95, "host_pool_bytes": MIB, "min_quantum_s": 0.25, "policy": "walk-down"}
    assert [type(value) for value in found.old.values()] == [float, int, float, str]


def test_who_has_changed_it_since() -> None:
    first, slots, back = event(5.0), event(6.0, "max_running", "8", "4"), event(7.0, old="q8", new="fp16", author="api")
    a, b, c = changes((first, slots, back))
    assert overruled(a, (a, b)) is None
    assert overruled(a, (a, b, c)) == (first, c)
    assert overruled(c, (a, b, c)) is None
