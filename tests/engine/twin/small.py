"""Small twins for tests: the RX 9070 XT's times on an arena of some hundred tokens, and agents drawn from a seed."""

import random
from dataclasses import dataclass, field, replace
from typing import ClassVar

from engine.backends.base import StepPlan, StepResult
from engine.backends.twin.backend import TwinBackend
from engine.cards.profile import CardProfile, Figure
from engine.cards.store import load_card
from engine.events import Event, Interval
from engine.geometry import BlockLayout, KVDtype
from engine.snapshot import Sample, Snapshot
from engine.turn import Priority, TurnId
from engine.twin.setup import TwinSetup
from engine.twin_body import TwinConfig, geometry_of
from engine.workload.script import AgentScript, Round, ScriptedTurn, Workload


def small_card(arena_tokens: int, link_gb_per_s: float = 50.0) -> CardProfile:
    """`arena_tokens` at fp16, in whole blocks."""
    card = load_card("rx9070xt")
    layout = BlockLayout(geometry_of(card.preset("ceiling").layout), KVDtype.FP16)
    taken = round(card.weights.amount) + round(card.runtime.amount)
    usable = Figure(taken + layout.blocks_for(arena_tokens) * layout.nbytes, "B", "assumed", "test")
    link = replace(card.link_out, value=link_gb_per_s)
    return replace(card, usable=usable, link_out=link, link_back=link)


def small_workload(seed: int, agents: int = 8, longest: int = 200, foreground: float = 0.3) -> Workload:
    rng = random.Random(seed)

    def turn() -> ScriptedTurn:
        rounds = [
            Round(rng.randint(1, longest), rng.randint(1, 50), "tool", rng.choice((0, 5, 300, 4000)))
            for _ in range(rng.randint(0, 3))
        ]
        last = Round(rng.randint(1, longest), rng.randint(1, 50))
        return ScriptedTurn((*rounds, last), rng.choice((0, 100, 3000)))

    scripts = tuple(
        AgentScript(
            f"agent-{number}",
            Priority.FOREGROUND if rng.random() < foreground else Priority.BACKGROUND,
            tuple(turn() for _ in range(3)),
            rng.uniform(0, 3000),
        )
        for number in range(agents)
    )
    return Workload("small", scripts, agents_nominal=agents)


def small_setup(seed: int = 1, arena_tokens: int = 1_000, **more: object) -> TwinSetup:
    asked: dict[str, object] = {"workload": small_workload(seed), "twin": TwinConfig("ceiling"), "seed": seed, **more}
    return TwinSetup(card=small_card(arena_tokens), **asked)  # type: ignore[arg-type]


@dataclass
class Everything:
    """A sink that keeps all it is told."""

    sessions: list[str] = field(default_factory=list)
    snapshots: list[Snapshot] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    intervals: list[Interval] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    behind: int = 0

    def begin(self, session: str, snapshot: Snapshot) -> None:
        self.sessions.append(session)
        self.snapshots.append(snapshot)

    def event(self, event: Event) -> None:
        self.events.append(event)

    def interval(self, interval: Interval) -> None:
        self.intervals.append(interval)

    def sample(self, sample: Sample) -> None:
        self.samples.append(sample)


class Listening(TwinBackend):
    """A twin that checks its books after each step, and keeps every sampled token with its instant. `kept` is the
    class's, as a run makes its own backend; whoever uses it makes a class of his own."""

    kept: ClassVar[list[tuple[float, TurnId, int]]]

    def step(self, plan: StepPlan) -> StepResult:
        result = super().step(plan)
        self.check_integrity()
        at = self.clock.now()
        self.kept.extend((at, step.turn, step.sampled) for step in result.turns if step.sampled is not None)
        return result
