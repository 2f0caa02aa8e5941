"""The same agents against a peer, which plays them in its own process and tells what came of it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numba

from app.bench.against import PEERS
from app.bench.peer_process import PeerProcess
from app.bench.policies_load import Load
from app.bench.report import Cell
from engine.costs import Costs
from engine.errors import Refused
from engine.models.loaded import ServedModel
from engine.stats import quantile
from engine.workload.pace import pace_for
from engine.workload.text import PromptSource, library_files

PEER = "vllm"
ROUNDS = replace(PEERS[PEER], module="vllm_rounds")
SCHEDULINGS = ("fcfs", "priority")
COMPILES_S, PLAYS_S = 900.0, 1800.0

Program = list[dict[str, Any]]
"""Agents as peers/vllm_rounds.py plays them."""


@dataclass(frozen=True, slots=True)
class Played:
    """`ttfts`: of the foreground, seconds; `about`: how the peer was set, one sentence."""

    title: str
    makespan_s: float
    ttfts: Sequence[float]
    prefilled: int
    generated: int
    preemptions: int
    about: str

    def ttft(self, q: float) -> float:
        """Of the foreground; NaN without any."""
        value = quantile(self.ttfts, q)
        return float("nan") if value is None else value

    def cells(self, base_s: float | None) -> dict[str, Cell]:
        """Beside a base's makespan. What a peer does not tell, or has not, is left out."""
        return {
            "makespan_s": round(self.makespan_s, 2),
            "of_base": round(self.makespan_s / base_s, 3) if base_s else None,
            "TTFT_p50_s": round(self.ttft(0.5), 3),
            "TTFT_p95_s": round(self.ttft(0.95), 3),
            "TTFT_p99_s": round(self.ttft(0.99), 3),
            "prefilled": self.prefilled,
            "preempted": self.preemptions,
        }


def program(load: Load, model: ServedModel, costs: Costs | None) -> Program:
    """The load's agents with the very tokens and waits that they have here."""
    source = PromptSource(model.tokenizer, load.seed, library_files()[:1] or None)
    pace = pace_for(costs, load.workload.scale)
    agents: Program = []
    for place in range(load.agents):
        script = load.script(place)
        turns = [
            {
                "think_s": turn.think_ms / 1e3 / pace,
                "rounds": [
                    {
                        # As the player names what it cuts: agent, its number, its turn from 1, the round.
                        "tokens": list(source.cut(f"{script.name}/{place}/{number}/{index}", one.appended)),
                        "output": one.output,
                        "wait_s": one.wait_ms / 1e3 / pace,
                    }
                    for index, one in enumerate(turn.rounds)
                ],
            }
            for number, turn in enumerate(script.turns, start=1)
        ]
        arrival_s = script.arrival_ms / 1e3 / pace
        agents.append({"priority": int(script.priority), "arrival_s": arrival_s, "turns": turns})
    return agents


def played(process: PeerProcess, scheduling: str, model: str, kv_tokens: int, agents: Program) -> Played:
    """Open the peer and have it play. Raises Refused for whatever goes wrong and for an answer that cannot be."""
    threads = numba.get_num_threads()
    opened = process.ask("open", COMPILES_S, model=model, scheduling=scheduling, kv_tokens=kv_tokens, threads=threads)
    answer = process.ask("play", PLAYS_S, agents=agents)
    wanted = sum(one["output"] for agent in agents for turn in agent["turns"] for one in turn["rounds"])
    if answer["generated"] != wanted:
        raise Refused(
            f"{ROUNDS.title} generated {answer['generated']:,} of {wanted:,} tokens; its figures do not count"
        )
    caching = "with" if opened["prefix_caching"] else "without"
    about = (
        f"{ROUNDS.title} {opened['version']} as it is by default ({caching} prefix caching, {opened['max_num_seqs']} "
        f"turns at most, chunks of {opened['chunk']:,} tokens), but for blocks of 32 tokens in place of 128, and "
        f"{opened['kv_tokens']:,} tokens of KV; {threads} threads each. {ROUNDS.weights}."
    )
    return Played(
        ROUNDS.title, float(answer["makespan_s"]), answer["foreground_ttft_s"], int(answer["prefilled"]),
        int(answer["generated"]), int(answer["preemptions"]), about,
    )  # fmt: skip
