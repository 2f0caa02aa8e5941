"""The policies' bench: what it plays, what a peer is given to play, and what it reports.

pytest tests/bench/test_policies.py
"""

import itertools
import sys
from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from app.bench import benches, checked
from app.bench.peers import vllm_rounds
from app.bench.policies import BASE, best_of, report, run
from app.bench.policies_load import DEPTHS, Load, load_of, on_card
from app.bench.policies_peer import Played, program
from app.bench.report import MET, MISSED, Bench
from engine.cards.store import load_card
from engine.errors import Refused
from engine.models.loaded import ServedModel
from engine.policies import policies
from engine.twin.setup import TwinSummary
from engine.twin.simulate import modelled_costs, simulate
from engine.twin_body import TwinConfig, modelled_model, twin_backend
from engine.virtual_clock import VirtualClock
from engine.workload.resize import average_tokens

CARD = load_card("rx9070xt")
COSTS = modelled_costs(CARD, TwinConfig())


@pytest.fixture(scope="module")
def load() -> Load:
    return load_of(None, 24, DEPTHS["quick"])


@pytest.fixture(scope="module")
def runs(load: Load) -> dict[str, TwinSummary]:
    """Every policy, modelled on the card with turns as long as it is made for."""
    workload = on_card(load, COSTS, COSTS, CARD.mean_context.amount)
    return {
        name: simulate(replace(load.setup(name), workload=workload, knobs=(("policy", name),))) for name in policies()
    }


def reported(runs: dict[str, TwinSummary], load: Load, theirs: dict[str, Played] | None = None) -> Bench:
    bench = Bench("policies")
    report(bench, load, runs, theirs or {}, runs)
    return bench


def test_it_is_a_bench_with_options_of_its_own() -> None:
    assert "policies" in benches()
    checked(Bench("policies", options={"agents": 24.0}, words={"workload": "swarm", "against": "vllm"}))
    with pytest.raises(Refused, match="takes no --minutes"):
        checked(Bench("policies", options={"minutes": 1.0}))
    with pytest.raises(Refused, match="with vllm alone"):
        run(Bench("policies", words={"against": "llamacpp"}))
    with pytest.raises(Refused, match="say which peer"):
        run(Bench("policies", words={"peer-python": "python"}))


def test_the_arena_has_the_default_proportions_and_some_agents_are_interactive(load: Load) -> None:
    assert load.average == pytest.approx(DEPTHS["quick"].tokens, rel=0.05)
    assert load.arena_tokens == 10 * load.average + 8 * 16
    assert 0 < sum(load.script(place).priority == 0 for place in range(24)) < 12
    assert {load.script(place).name for place in range(30)} >= {"coder-01", "coder-01.2"}


def test_on_the_card_turns_are_as_long_as_it_is_made_for(load: Load) -> None:
    workload = on_card(load, COSTS, COSTS, 6144)
    assert average_tokens(workload) == pytest.approx(6144, rel=0.01)
    longer = 6144 / average_tokens(load.workload)
    waits = [sum(turn.wait_ms for turn in one.agents[0].turns) for one in (load.workload, workload)]
    assert waits[1] / waits[0] == pytest.approx(longer, rel=0.15)


def test_every_policy_is_played_alike_and_ends(runs: dict[str, TwinSummary]) -> None:
    assert set(runs) == set(policies())
    assert len({(run.turns, run.prompt_tokens, run.generated_tokens) for run in runs.values()}) == 1
    assert all(run.failed == 0 and run.makespan_s for run in runs.values())
    assert runs[BASE].swapped_bytes == 0 < runs[BASE].recomputed_tokens
    assert all(0 < (run.busy_slots or 0) <= 8 for run in runs.values())
    assert all((run.ttft_foreground_p99_s or 0) >= (run.ttft_foreground_p95_s or 0) > 0 for run in runs.values())


def test_a_row_for_each_policy_measured_and_modelled(runs: dict[str, TwinSummary], load: Load) -> None:
    bench = reported(runs, load)
    assert [(row["figures"], row["policy"]) for row in bench.rows] == [
        (kind, name) for kind in ("measured", "modelled") for name in policies()
    ]
    assert [target.name.partition(":")[0] for target in bench.targets] == ["makespan", "foreground TTFT p95"]
    assert any(note.startswith("Modelled, not measured: ") for note in bench.notes)


def test_half_is_met_and_more_is_missed(runs: dict[str, TwinSummary], load: Load) -> None:
    base = replace(runs[BASE], makespan_s=100.0, ttft_foreground_p95_s=2.0)
    ones = {name: replace(base, makespan_s=90.0) for name in policies()} | {BASE: base}
    good = {**ones, "walk-down": replace(base, makespan_s=50.0, ttft_foreground_p95_s=1.0)}
    assert best_of(good) == "walk-down"
    assert reported(good, load).status == MET
    assert reported({**good, "walk-down": replace(good["walk-down"], makespan_s=51.0)}, load).status == MISSED


def test_a_peer_is_held_against_its_best_in_each_figure(runs: dict[str, TwinSummary], load: Load) -> None:
    base = replace(runs[BASE], makespan_s=100.0, ttft_foreground_p95_s=2.0)
    ours = dict.fromkeys(policies(), base) | {"walk-down": replace(base, makespan_s=40.0, ttft_foreground_p95_s=1.0)}
    fcfs = Played("vLLM", 80.0, [4.0] * 9, 5_000, base.generated_tokens, 3, "About it.")
    bench = reported(ours, load, {"fcfs": fcfs, "priority": replace(fcfs, makespan_s=90.0, ttfts=[3.0] * 9)})
    values = {target.name: target.value for target in bench.targets}
    assert values["makespan: walk-down over vLLM's best"] == 0.5
    assert values["foreground TTFT p95: walk-down over vLLM's best"] == pytest.approx(1 / 3, abs=1e-3)
    assert {row["policy"] for row in bench.rows} >= {"vLLM fcfs", "vLLM priority"}
    assert any("5,000" in note and note.endswith("About it.") for note in bench.notes)


def model_of_the_card() -> ServedModel:
    return modelled_model(CARD, twin_backend(CARD, TwinConfig(), VirtualClock()))


def test_a_peer_gets_the_very_tokens_and_waits_of_the_run(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    few = replace(load, agents=26)
    agents = program(few, model_of_the_card(), COSTS)
    rounds = [one for agent in agents for turn in agent["turns"] for one in turn["rounds"]]
    seen = prompts_of(few, monkeypatch)
    assert sorted(tuple(one["tokens"]) for one in rounds) == sorted(seen)


def prompts_of(load: Load, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """What the engine is given when the load is played on it."""
    from engine.commands import Commands

    given: list[tuple[int, ...]] = []
    submit, unblock = Commands.submit, Commands.unblock

    def submitted(self: Commands, request: Any, *rest: Any) -> Any:
        given.append(tuple(request.prompt))
        return submit(self, request, *rest)

    def unblocked(self: Commands, result: Any, *rest: Any) -> Any:
        given.append(tuple(result.tokens))
        return unblock(self, result, *rest)

    monkeypatch.setattr(Commands, "submit", submitted)
    monkeypatch.setattr(Commands, "unblock", unblocked)
    simulate(load.setup(BASE))
    return given


class Core:
    """Gives each request one token a step."""

    def __init__(self) -> None:
        self.request_block_hasher = None
        self.asked: list[Any] = []
        self._live: dict[str, tuple[Any, Iterator[int]]] = {}

    def add_request(self, request: Any) -> None:
        self.asked.append(request)
        self._live[request.name] = (request, itertools.count(1000))

    def step_fn(self) -> tuple[dict[int, Any], bool]:
        outputs = []
        for name, (request, tokens) in list(self._live.items()):
            outputs.append(SimpleNamespace(request_id=name, new_token_ids=[next(tokens)]))
            request.params.max_tokens -= 1
            if not request.params.max_tokens:
                del self._live[name]
        return {0: SimpleNamespace(outputs=outputs)}, True


@pytest.fixture
def without_vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    def request(name: str, prompt: list[int], params: Any, pooling: None, **rest: Any) -> SimpleNamespace:
        return SimpleNamespace(name=name, prompt=prompt, params=params, **rest)

    made = {"vllm": {}, "vllm.v1": {}, "vllm.sampling_params": {"SamplingParams": SimpleNamespace}}
    for name, content in {**made, "vllm.v1.request": {"Request": request}}.items():
        module = ModuleType(name)
        module.__dict__.update(content)
        monkeypatch.setitem(sys.modules, name, module)


@pytest.mark.usefixtures("without_vllm")
def test_a_peer_asks_each_round_with_the_whole_context() -> None:
    two = {"think_s": 0.0, "rounds": [{"tokens": [1, 2], "output": 2, "wait_s": 0.0},
                                      {"tokens": [3], "output": 1, "wait_s": 0.0}]}  # fmt: skip
    core = Core()
    play = vllm_rounds._Play(core, [{"priority": 1, "arrival_s": 0.0, "turns": [two, two]}])
    play.run()
    assert [request.prompt for request in core.asked] == [[1, 2], [1, 2, 1000, 1001, 3]] * 2
    assert {request.priority for request in core.asked} == {1}
    assert (play.generated, play.rounds) == (6, 4)
    assert [len(values) for values in play.ttft] == [0, 4]
    assert play.ended >= play.began
