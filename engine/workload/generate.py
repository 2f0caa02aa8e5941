"""Workloads of our own, drawn from a seed.

`python -m engine.workload.generate assets/workloads` writes the shipped ones.

Tool waits are log-normal with p50 0.3 s and p90 13.6 s on the card (TraceLab's published figures), so sigma =
ln(13.6 / 0.3) / 1.2816 = 2.976; longer than 30 s is cut to 30 s, which makes the mean E[min(X, 30 s)] = 3.75 s.
Waits and think times are multiplied by `scale`, how much slower the stand-in engine is than the card: 39 tok/s per
turn on the card against about 15 here, 2.6.

Blocked fraction b = time blocked on tools / time that turns are live. An agent alone that calls k tools in a turn of
prompt p, each appending a tokens, with outputs of o tokens, at r tok/s per turn and a prefill of f tok/s, has
    b = k W / (k W + (k + 1) o / r + (p + k a) / f),    W = 3.75 s x scale = 9.75 s
`swarm`: k = 5, p = 590, a = 34, o = 43, r = 15, f = 500 gives 48.8 / (48.8 + 17.2 + 1.5) = 0.72. Twenty agents fill 6.6
of 8 slots on the mean; their prefills hold each other up (a chunk of 256 tokens takes 0.5 s) and three of them are
people's, with few tools: played in simulated time b is 0.53, 0.58 and 0.63 at 12, 15 and 20 tok/s per slot. A turn
grows to about p + k a + (k + 1) o = 1,020 tokens and holds 769 over its life: the stand-in's average turn of 768.
`long-context`: k = 7, p = 1,300, a = 50, o = 50 grows to about 2,050 tokens; b is 0.55, 0.59 and 0.64 with 12 agents.
`full-card`: k = 19, p = 5,000, a = 50, o = 70 grows to about 7,300 tokens and holds 6k over its life, which is the
VRAM-ceiling study's turn; its times are the card's own (scale 1). Alone b is 0.6; twenty agents keep the card's eight
slots full and ask for twice the memory that it has.
`tool-loops`: k = 6, p = 520, a = 130, o = 34: much context and a short answer at each call (in TraceLab's published
samples a context is 17 and 100 times its answer on the median, here about 30 times), a person waiting for every third
agent. A turn grows to about 1,540 tokens.

Waits are drawn by strata (one from each n-th part of the distribution, in seeded order), so that a small file has the
quantiles of the distribution and b does not hang on luck.
"""

import math
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist

from engine.turn import Priority
from engine.workload.format import dump_workload
from engine.workload.script import AgentScript, Round, ScriptedTurn, Workload

WAIT_P50_S = 0.3
WAIT_P90_S = 13.6
WAIT_MOST_S = 30.0
CARD_TOKENS_PER_S = 39.0
STANDIN_TOKENS_PER_S = 15.0
STANDIN_SCALE = CARD_TOKENS_PER_S / STANDIN_TOKENS_PER_S

_NORMAL = NormalDist()
_SIGMA = math.log(WAIT_P90_S / WAIT_P50_S) / _NORMAL.inv_cdf(0.9)
_TOOLS_BY_WAIT = (("read_file", "edit", "grep"), ("bash", "list_dir", "write_file"), ("web_fetch", "pytest", "build"))


@dataclass(frozen=True, slots=True)
class Recipe:
    """Means of what is drawn: prompt, appended and output in tokens (each uniform within half of its mean to either
    side), tool calls per turn uniform from `calls[0]` to `calls[1]`; think times log-normal around `think_s`."""

    prefix: str
    agents: int
    priority: Priority
    turns: int
    prompt: int
    appended: int
    output: int
    calls: tuple[int, int]
    think_s: float


@dataclass(frozen=True, slots=True)
class WorkloadRecipe:
    name: str
    title: str
    seed: int
    agents_nominal: int
    arrivals_s: float
    parts: tuple[Recipe, ...]
    scale: float = STANDIN_SCALE


SWARM = WorkloadRecipe(
    "swarm",
    "Coding agents in the background, three that people wait for",
    seed=9070,
    agents_nominal=20,
    arrivals_s=4.0,
    parts=(
        Recipe("coder", 17, Priority.BACKGROUND, 8, prompt=590, appended=34, output=43, calls=(3, 7), think_s=1.0),
        Recipe("person", 3, Priority.FOREGROUND, 8, prompt=280, appended=30, output=45, calls=(0, 2), think_s=12.0),
    ),
)
LONG_CONTEXT = WorkloadRecipe(
    "long-context",
    "Agents with long contexts: few fit beside each other, most must be parked",
    seed=2048,
    agents_nominal=12,
    arrivals_s=8.0,
    parts=(
        Recipe("reader", 11, Priority.BACKGROUND, 6, prompt=1300, appended=50, output=50, calls=(5, 9), think_s=1.0),
        Recipe("person", 1, Priority.FOREGROUND, 8, prompt=280, appended=30, output=45, calls=(0, 2), think_s=12.0),
    ),
)
TOOL_LOOPS = WorkloadRecipe(
    "tool-loops",
    "Coding agents with short answers between many tool calls; a person waits for every third one",
    seed=4265,
    agents_nominal=24,
    arrivals_s=4.0,
    parts=(
        Recipe("coder", 16, Priority.BACKGROUND, 6, prompt=520, appended=130, output=34, calls=(4, 8), think_s=1.0),
        Recipe("paired", 8, Priority.FOREGROUND, 6, prompt=520, appended=130, output=34, calls=(4, 8), think_s=4.0),
    ),
)
FULL_CARD = WorkloadRecipe(
    "full-card",
    "Agents of about 6k tokens each: eight fill an RX 9070 XT, and what is paused goes over",
    seed=15500,
    agents_nominal=20,
    arrivals_s=1.0,
    parts=(
        Recipe("coder", 17, Priority.BACKGROUND, 4, prompt=5000, appended=50, output=70, calls=(14, 24), think_s=0.5),
        Recipe("person", 3, Priority.FOREGROUND, 8, prompt=2400, appended=200, output=120, calls=(0, 2), think_s=12.0),
    ),
    scale=1.0,
)
SHIPPED = {
    "swarm.jsonl": SWARM,
    "long-context.jsonl": LONG_CONTEXT,
    "tool-loops.jsonl": TOOL_LOOPS,
    "full-card.jsonl": FULL_CARD,
}


def generate(recipe: WorkloadRecipe, scale: float | None = None) -> Workload:
    """The workload of a recipe, at its own scale if none is given; the same seed and scale give the same workload
    everywhere."""
    scale = recipe.scale if scale is None else scale
    rng = random.Random(recipe.seed)
    calls = [
        [[rng.randint(*part.calls) for _ in range(part.turns)] for _ in range(part.agents)] for part in recipe.parts
    ]
    waits = iter(_waits(rng, sum(sum(map(sum, agents)) for agents in calls)))
    agents = []
    for part, counts in zip(recipe.parts, calls, strict=True):
        for index, counts_of_agent in enumerate(counts):
            turns = tuple(_turn(rng, part, count, waits, scale) for count in counts_of_agent)
            arrival = round(rng.uniform(0.0, recipe.arrivals_s) * scale * 1000)
            agents.append(AgentScript(f"{part.prefix}-{index + 1:02d}", part.priority, turns, arrival))
    return Workload(
        recipe.name, tuple(agents), recipe.title, recipe.seed, round(scale, 4), agents_nominal=recipe.agents_nominal
    )


def _waits(rng: random.Random, count: int) -> list[tuple[float, str]]:
    """(seconds on the card, tool) for `count` calls, one from each count-th part of the distribution. Tools that take
    longer have names of their own, now and then a neighbour's."""
    drawn = []
    for stratum in range(count):
        quantile = (stratum + rng.uniform(0.02, 0.98)) / count
        seconds = min(WAIT_P50_S * math.exp(_SIGMA * _NORMAL.inv_cdf(quantile)), WAIT_MOST_S)
        group = min(max(int((quantile + rng.uniform(-0.08, 0.08)) * 3), 0), 2)
        drawn.append((seconds, rng.choice(_TOOLS_BY_WAIT[group])))
    rng.shuffle(drawn)
    return drawn


def _turn(
    rng: random.Random, part: Recipe, calls: int, waits: Iterator[tuple[float, str]], scale: float
) -> ScriptedTurn:
    rounds = []
    for index in range(calls + 1):
        appended = _around(rng, part.appended if index else part.prompt)
        output = _around(rng, part.output)
        if index == calls:
            rounds.append(Round(appended, output))
        else:
            seconds, tool = next(waits)
            rounds.append(Round(appended, output, tool, round(seconds * scale * 1000)))
    think = part.think_s * math.exp(0.5 * _NORMAL.inv_cdf(rng.uniform(0.02, 0.98)))
    return ScriptedTurn(tuple(rounds), round(think * scale * 1000))


def _around(rng: random.Random, mean: int) -> int:
    return rng.randint(mean - mean // 2, mean + mean // 2)


def write_shipped(folder: Path) -> list[Path]:
    """Writes every shipped workload into `folder` and returns the files' paths."""
    paths = []
    for name, recipe in SHIPPED.items():
        path = folder / name
        path.write_text(dump_workload(generate(recipe)), encoding="utf-8", newline="\n")
        paths.append(path)
    return paths


if __name__ == "__main__":
    write_shipped(Path(sys.argv[1]))
