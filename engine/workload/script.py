"""A workload: agents with the turns they take, round by round. Plain data, whoever wrote it or wherever it came from.

A turn is a list of rounds. A round appends tokens (the first one's are the prompt, the later ones' a tool's result),
generates `output` tokens and then blocks on a tool; the last round has no tool, and ends the turn.
"""

import dataclasses
from dataclasses import dataclass

from engine.errors import Refused
from engine.turn import Priority

MAX_TOKENS = 10_000_000
MAX_WAIT_MS = 7 * 24 * 3600 * 1000.0


@dataclass(frozen=True, slots=True)
class Round:
    """`appended` and `output` in tokens, `wait_ms` the time the tool takes at speed 1; tool None: the turn ends here.

    Raises Refused for a count or time that is out of range.
    """

    appended: int
    output: int
    tool: str | None = None
    wait_ms: float = 0.0

    def __post_init__(self) -> None:
        _tokens("appended", self.appended, 0)
        _tokens("output", self.output, 1)
        _milliseconds("wait_ms", self.wait_ms)
        if self.tool is not None and (not isinstance(self.tool, str) or not self.tool):
            raise Refused(f"tool {self.tool!r} is not a name; give a text, or null for the last round")


@dataclass(frozen=True, slots=True)
class ScriptedTurn:
    """`think_ms`: how long the agent waits, at speed 1, before it takes this turn.

    Raises Refused when there is no round, no prompt, or a tool missing between rounds.
    """

    rounds: tuple[Round, ...]
    think_ms: float = 0.0

    def __post_init__(self) -> None:
        _milliseconds("think_ms", self.think_ms)
        if not self.rounds:
            raise Refused("a turn has no rounds; give at least one")
        if self.rounds[0].appended < 1:
            raise Refused("a turn's first round appends 0 tokens; its prompt needs at least 1")
        if any(one.tool is None for one in self.rounds[:-1]):
            raise Refused("a round before the last has no tool; only a turn's last round may have none")
        if self.rounds[-1].tool is not None:
            raise Refused(f"a turn's last round calls {self.rounds[-1].tool!r}; the last round must have no tool")

    @property
    def peak_tokens(self) -> int:
        """Context when the turn ends."""
        return sum(one.appended + one.output for one in self.rounds)

    @property
    def wait_ms(self) -> float:
        return sum(one.wait_ms for one in self.rounds)


@dataclass(frozen=True, slots=True)
class AgentScript:
    """One agent; it takes its turns in order and then from the start again. Raises Refused for an empty name or no
    turns."""

    name: str
    priority: Priority
    turns: tuple[ScriptedTurn, ...]
    arrival_ms: float = 0.0

    def __post_init__(self) -> None:
        _milliseconds("arrival_ms", self.arrival_ms)
        if not isinstance(self.name, str) or not self.name:
            raise Refused(f"agent {self.name!r} is not a name; give a text")
        if not self.turns:
            raise Refused(f"agent {self.name!r} has no turns; give at least one")


@dataclass(frozen=True, slots=True)
class Workload:
    """`agents_nominal`: how many agents keep the slots filled at speed 1. `scale`: factor from the card's time to this
    file's. `notes`: what was changed on loading, one sentence each. Raises Refused when there are no agents."""

    name: str
    agents: tuple[AgentScript, ...]
    title: str = ""
    seed: int | None = None
    scale: float = 1.0
    agents_nominal: int = 16
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.agents:
            raise Refused(f"workload {self.name!r} has no agents; give at least one")
        if len({agent.name for agent in self.agents}) < len(self.agents):
            raise Refused(f"workload {self.name!r} names an agent twice; give each its own name")

    @property
    def turns(self) -> int:
        return sum(len(agent.turns) for agent in self.agents)

    @property
    def mean_tokens(self) -> float:
        """Context of its turns when they end, on the mean."""
        return sum(turn.peak_tokens for agent in self.agents for turn in agent.turns) / self.turns


def fit(workload: Workload, max_tokens: int) -> Workload:
    """The workload with every turn at most `max_tokens` long (the model's context): the prompt is cut first, to no
    less than half of `max_tokens`, then rounds that no longer fit are left out. Says in `notes` what was cut. Raises
    Refused if `max_tokens` is under 2."""
    if max_tokens < 2:
        raise Refused(f"a context of {max_tokens} tokens holds no turn; it needs at least 2")
    shortened = lost_rounds = 0
    agents = []
    for agent in workload.agents:
        turns = []
        for turn in agent.turns:
            fitted = fit_turn(turn, max_tokens)
            shortened += fitted is not turn
            lost_rounds += len(turn.rounds) - len(fitted.rounds)
            turns.append(fitted)
        agents.append(dataclasses.replace(agent, turns=tuple(turns)))
    if not shortened:
        return workload
    note = (
        f"{shortened} of {workload.turns} turns were longer than the context of {max_tokens:,} tokens; their prompts "
        f"were cut and {lost_rounds} rounds left out."
    )
    return dataclasses.replace(workload, agents=tuple(agents), notes=(*workload.notes, note))


def fit_turn(turn: ScriptedTurn, limit: int) -> ScriptedTurn:
    """One turn cut to `limit` tokens as `fit` says; the same object when it fits already."""
    over = turn.peak_tokens - limit
    if over <= 0:
        return turn
    first = turn.rounds[0]
    prompt = min(first.appended, max(first.appended - over, limit // 2))
    kept = [dataclasses.replace(first, appended=prompt, output=min(first.output, limit - prompt))]
    used = kept[0].appended + kept[0].output
    for one in turn.rounds[1:]:
        if used + one.appended + one.output > limit:
            break
        kept.append(one)
        used += one.appended + one.output
    kept[-1] = dataclasses.replace(kept[-1], tool=None, wait_ms=0.0)
    return dataclasses.replace(turn, rounds=tuple(kept))


def _tokens(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MAX_TOKENS:
        raise Refused(f"{name} {value!r} is not a whole number of tokens from {least} to {MAX_TOKENS:,}")


def _milliseconds(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Refused(f"{name} {value!r} is not a number of milliseconds")
    # Not through math.isfinite, which overflows on a long integer; NaN is in no range.
    if not 0 <= value <= MAX_WAIT_MS:
        raise Refused(f"{name} {value!r} is outside 0 to {MAX_WAIT_MS:,.0f} ms (a week)")
