"""The twin as one function: deterministic, plain values in and out, and what a session of it says.

pytest tests/engine/twin/test_simulate.py
"""

import pickle
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from engine.cards.store import load_card
from engine.errors import BadKnob, Refused
from engine.events import EventKind
from engine.record.csv_export import export_session
from engine.record.csv_import import read_timeline
from engine.record.recorder import Recorder
from engine.turn import Phase, Priority
from engine.twin.setup import TwinSetup
from engine.twin.simulate import TwinProgress, simulate
from engine.twin_body import TwinConfig
from engine.workload.readers import load_workload, nearest
from engine.workload.script import AgentScript, Round, ScriptedTurn, Workload
from tests.engine.twin.small import Everything, small_card, small_setup, small_workload

GIB = 1 << 30


def same(setup: TwinSetup) -> dict[str, object]:
    return {name: value for name, value in asdict(simulate(setup)).items() if name != "wall_s"}


def one_turn(*rounds: Round) -> Workload:
    return Workload("one", (AgentScript("only", Priority.FOREGROUND, (ScriptedTurn(rounds),)),), agents_nominal=1)


def test_the_same_setup_gives_the_same_summary_also_after_a_pickle() -> None:
    setup = small_setup(hours=0.02)
    assert same(setup) == same(pickle.loads(pickle.dumps(setup)))  # noqa: S301 -- our own bytes
    assert same(setup) != same(replace(setup, workload=small_workload(2)))


def test_a_turn_alone_takes_its_prefill_and_its_steps() -> None:
    """The makespan by hand: one chunk of 200 tokens, then 9 steps at contexts 201 to 209."""
    card = load_card("rx9070xt")
    setup = TwinSetup(card, one_turn(Round(200, 10)), TwinConfig("ceiling"))
    summary = simulate(setup)
    per_token = 163_840
    steps = sum(card.decode_step_s(1, (200 + n) * per_token) for n in range(1, 10))
    assert summary.makespan_s == pytest.approx(200 / 962 + steps)
    assert summary.ttft_p50_s == summary.ttft_foreground_p50_s == pytest.approx(200 / 962)
    assert summary.itl_p50_s == pytest.approx(card.decode_step_s(1, 205 * per_token))
    assert (summary.turns, summary.finished, summary.generated_tokens, summary.prompt_tokens) == (1, 1, 10, 200)
    assert summary.peak_kv_bytes == 14 * 16 * per_token
    assert summary.swaps_out == summary.preemptions == summary.recomputed_tokens == 0


def test_a_tool_takes_its_time_and_the_clock_jumps_over_it() -> None:
    quick, slow = (simulate(TwinSetup(load_card("rx9070xt"), one_turn(Round(50, 5, "tool", ms), Round(10, 5)),
                                      TwinConfig("ceiling"))) for ms in (0, 800_000))  # fmt: skip
    assert slow.makespan_s is not None
    assert quick.makespan_s is not None
    assert slow.makespan_s - quick.makespan_s == pytest.approx(800, abs=0.1)
    assert slow.steps == quick.steps
    assert slow.wall_s < 30


def test_hours_end_the_run_and_agents_would_go_on() -> None:
    sink = Everything()
    summary = simulate(small_setup(hours=0.02), sinks=[sink])
    assert summary.makespan_s is None
    assert 72 <= summary.virtual_s < 73
    assert sink.events[-1].text == "the time of the run is over"
    assert max(interval.end_utc for interval in sink.intervals) == pytest.approx(summary.virtual_s)


def test_counts_are_those_of_the_events() -> None:
    sink = Everything()
    summary = simulate(small_setup(arena_tokens=800, hours=0.03), sinks=[sink])
    counted = {kind: sum(event.kind is kind for event in sink.events) for kind in EventKind}
    assert summary.preemptions == counted[EventKind.PREEMPT] > 0
    assert summary.swaps_out == counted[EventKind.SWAP_OUT] > 0
    assert summary.swaps_in == counted[EventKind.SWAP_IN] > 0
    moved = (EventKind.SWAP_OUT, EventKind.SWAP_IN)
    assert summary.swapped_bytes == sum(event.nbytes or 0 for event in sink.events if event.kind in moved)
    assert summary.turns == counted[EventKind.SUBMIT]
    assert summary.finished == counted[EventKind.FINISH]


def test_overlap_never_makes_a_run_slower_where_copies_are_long() -> None:
    def makespan(overlap: bool) -> float:
        twin = TwinConfig("ceiling", overlap=overlap)
        card = small_card(900, link_gb_per_s=0.5)
        found = simulate(TwinSetup(card, small_workload(3, agents=10), twin, seed=3)).makespan_s
        assert found is not None
        return found

    assert makespan(overlap=True) < makespan(overlap=False)


def test_a_session_says_that_it_is_modelled_and_its_csv_comes_back(tmp_path: Path) -> None:
    recorder, sink = Recorder(tmp_path / "s.sqlite"), Everything()
    summary = simulate(small_setup(began_utc=1_800_000_000.0, hours=0.01), sinks=[recorder, sink])
    recorder.close()
    (first,) = sink.snapshots
    assert (first.backend, first.model, first.card) == ("twin", "modelled: 9B at Q4_K_M", None)
    assert "modelled" in summary.session
    assert summary.title == "Modelled: RX 9070 XT, 9B at Q4_K_M, preset ceiling"
    files = export_session(summary.session, tmp_path, recorder.path)
    assert [path.name for path in files] == ["timeline.csv", "samples.csv", "events.csv"]
    rows = list(read_timeline(files[0]))
    assert len(rows) == len(sink.intervals)
    assert rows[0].start_utc >= 1_800_000_000.0
    assert {interval.phase for interval in sink.intervals} >= {Phase.PREFILL, Phase.DECODE}


def test_progress_never_falls_and_may_call_it_off() -> None:
    seen: list[TwinProgress] = []
    simulate(small_setup(hours=0.01), seen.append)
    assert [one.fraction for one in seen] == sorted(one.fraction for one in seen)
    assert 0.9 < seen[-1].fraction <= 1.0

    def stop(progress: TwinProgress) -> None:
        if progress.virtual_s > 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulate(small_setup(hours=0.01), stop)


def test_what_cannot_be_run_is_refused_in_a_sentence() -> None:
    with pytest.raises(BadKnob, match="there is no knob 'slots'"):
        small_setup(knobs=(("slots", 3),))
    with pytest.raises(BadKnob, match="policy 'nope'"):
        small_setup(knobs=(("policy", "nope"),))
    with pytest.raises(Refused, match="at least one"):
        small_setup(agents=0)
    with pytest.raises(Refused, match="-1 hours"):
        small_setup(hours=-1.0)
    with pytest.raises(Refused, match=r"fixed state of 49.1 MiB .* K and V alone"):
        simulate(replace(small_setup(), twin=TwinConfig("qwen3.5-9b")))
    with pytest.raises(Refused, match="1e\\+06x real time"):
        TwinConfig(pace=1e6)


def test_agents_that_never_fit_are_refused_and_told() -> None:
    summary = simulate(TwinSetup(small_card(160), one_turn(Round(500, 5)), TwinConfig("ceiling")))
    assert (summary.refused, summary.turns) == (1, 0)


def test_what_a_card_plays_by_default_fills_it_and_a_paused_turn_has_to_leave() -> None:
    """Fifty thousand tokens take a minute to prefill at 962 tok/s; soon after the card is full and somebody moves."""
    card, sink = load_card("rx9070xt"), Everything()
    simulate(TwinSetup(card, load_workload(nearest(card.mean_context.amount)), hours=75 / 3600), sinks=[sink])
    fullest = max(sample.bands.used / sample.bands.ceiling for sample in sink.samples)
    assert 0.9 < fullest <= 1.0
    half_a_minute = next(sample for sample in sink.samples if sample.at > 30)
    assert half_a_minute.running == 8
    assert half_a_minute.bands.running_kv + half_a_minute.bands.paused_kv > 3 * GIB
    left = [event for event in sink.events if event.kind is EventKind.SWAP_OUT]
    assert left
    paused = {event.turn for event in sink.events if event.kind is EventKind.PREEMPT}
    assert any(event.turn in paused and event.nbytes and event.nbytes > GIB // 4 for event in left)
