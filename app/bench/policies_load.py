"""What the bench of policies plays: a workload cut and shortened until it is affordable, in the default arena's
proportions. Tokens and times shrink alike, so what is parked, and how long tools take beside the engine's work, stay.
"""

from dataclasses import dataclass, replace

from app.bench.report import Depth
from engine.cards.scale import standin_arena_tokens
from engine.cards.store import DEFAULT_CARD, load_card
from engine.costs import Costs
from engine.knobs import Knobs
from engine.turn import AVERAGE_TURN_TOKENS
from engine.twin.setup import TwinSetup
from engine.workload.readers import load_workload
from engine.workload.resize import average_tokens, first_rounds, sized, stretched
from engine.workload.script import AgentScript, Workload
from engine.workload.swarm import checked_agents

SLOTS, SEED = 8, 1
WORKLOAD = "tool-loops"
WARM_AGENTS = 12


@dataclass(frozen=True, slots=True)
class Extent:
    """`rounds` that each agent takes at least, in turns that hold `tokens` on the mean."""

    rounds: int
    tokens: int


DEPTHS: dict[Depth, Extent] = {"quick": Extent(6, 140), "default": Extent(20, 216), "full": Extent(20, 400)}
"""The quick one is too short for its p95 to tell policies apart: a chunk beside a step takes as long as a recompute."""


@dataclass(frozen=True, slots=True)
class Load:
    """`size`: its turns' length as a part of the file's."""

    workload: Workload
    agents: int
    size: float
    seed: int = SEED

    @property
    def average(self) -> int:
        return round(average_tokens(self.workload))

    @property
    def arena_tokens(self) -> int:
        """Eight average turns and two, as the default arena has it."""
        return standin_arena_tokens(SLOTS, self.average)

    @property
    def words(self) -> str:
        """What is played, for people."""
        turns = [turn for place in range(self.agents) for turn in self.script(place).turns]
        rounds = sum(len(turn.rounds) for turn in turns)
        return (
            f"{self.agents} agents of {self.workload.name} take {len(turns)} turns, {rounds} rounds, at "
            f"{self.size:.2f} of the file's tokens and times"
        )

    def script(self, place: int) -> AgentScript:
        """The agent at a place as the player has it: the file goes round, a copy has a name of its own and starts at a
        later turn."""
        copy, member = divmod(place, len(self.workload.agents))
        script = self.workload.agents[member]
        first = copy % len(script.turns)
        name = script.name if copy == 0 else f"{script.name}.{copy + 1}"
        return replace(script, name=name, turns=script.turns[first:] + script.turns[:first])

    def setup(self, policy: str) -> TwinSetup:
        return TwinSetup(
            card=load_card(DEFAULT_CARD),
            workload=self.workload,
            knobs=(*self.knobs, ("policy", policy)),
            agents=self.agents,
            seed=self.seed,
        )

    def warm_up(self) -> TwinSetup:
        """A turn of some agents, which overflow the arena: pages of the pool are touched, kernels there."""
        few = replace(self, workload=first_rounds(self.workload, 1), agents=min(self.agents, WARM_AGENTS))
        return few.setup(Knobs().policy)

    @property
    def knobs(self) -> tuple[tuple[str, object], ...]:
        """The default ones; a long turn is as much longer than the average as with the default arena."""
        long = round(Knobs().long_turn_tokens * self.average / AVERAGE_TURN_TOKENS)
        return ("max_running", SLOTS), ("long_turn_tokens", long)


def load_of(name: str | None, agents: int, extent: Extent) -> Load:
    """Of a workload's name or file. Raises Refused for what cannot be read or played."""
    workload = first_rounds(load_workload(name or WORKLOAD), extent.rounds)
    size = extent.tokens / average_tokens(workload)
    return Load(sized(workload, size, size), checked_agents(agents), size)


def on_card(load: Load, here: Costs, card: Costs, mean_context: float) -> Workload:
    """The load with turns as long as the card is made for; `here`: the costs that it is played at."""
    return stretched(load.workload, mean_context / average_tokens(load.workload), here, card)
