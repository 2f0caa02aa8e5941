"""What is asked of a twin, and what came out: plain values that go from process to process."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.cards.profile import CardProfile
from engine.costs import Costs
from engine.errors import Refused
from engine.knobs import Knobs
from engine.policies import checked
from engine.twin_body import TwinConfig, card_knobs
from engine.workload.script import Workload
from engine.workload.swarm import checked_agents, checked_speed

LONGEST_HOURS = 10_000.0


@dataclass(frozen=True, slots=True)
class TwinSetup:
    """One run of the twin. `agents` None: as many as the workload says. `hours`: for so long they take turns, over and
    over; None: each takes its turns once, and the run ends with the last. `knobs`: changes to those that the card
    begins with (`card_knobs`), in names and values of Knobs; a host pool that is not named is what the card may pin.
    `costs`: what governor and agents begin with, None: measured on the modelled card. `leap`: skip the boundaries at
    which nothing is decided; it changes no result. `began_utc`: epoch seconds at which the modelled time begins.

    Raises Refused for what cannot be run."""

    card: CardProfile
    workload: Workload
    twin: TwinConfig = field(default_factory=TwinConfig)
    knobs: tuple[tuple[str, object], ...] = ()
    agents: int | None = None
    hours: float | None = None
    speed: float = 1.0
    seed: int = 0
    costs: Costs | None = None
    leap: bool = True
    began_utc: float = 0.0

    def __post_init__(self) -> None:
        checked_agents(self.agent_count)
        checked_speed(self.speed)
        if not self.agent_count:
            raise Refused("a twin without agents has nothing to run; give at least one")
        if self.hours is not None and not 0 < self.hours <= LONGEST_HOURS:
            raise Refused(f"{self.hours:g} hours cannot be run; give more than 0 and at most {LONGEST_HOURS:,.0f}")
        self.first_knobs()

    @property
    def agent_count(self) -> int:
        return self.workload.agents_nominal if self.agents is None else self.agents

    @property
    def changes(self) -> Mapping[str, object]:
        return dict(self.knobs)

    def first_knobs(self) -> Knobs:
        """Raises BadKnob."""
        return checked(card_knobs(self.card).changed(self.changes))

    @property
    def host_bytes(self) -> int | None:
        """None: what the card may pin."""
        return self.first_knobs().host_pool_bytes if "host_pool_bytes" in self.changes else None


@dataclass(frozen=True, slots=True)
class TwinSummary:
    """All modelled but `wall_s`. `virtual_s`: how long it ran; `makespan_s`: until the last turn ended, None where the
    agents would have gone on. Latencies over all tokens of the run, seconds, None without any. `swapped_bytes`: out and
    back. `busy_slots`: turns that had a slot, on the mean over the run. `peak_kv_bytes`: the most that turns held in
    the arena. `steps`: of the engine; `leapt`: those of them for which the governor need not be asked."""

    session: str
    title: str
    virtual_s: float
    makespan_s: float | None
    turns: int
    finished: int
    failed: int
    refused: int
    ttft_p50_s: float | None
    ttft_p95_s: float | None
    ttft_foreground_p50_s: float | None
    ttft_foreground_p95_s: float | None
    ttft_foreground_p99_s: float | None
    itl_p50_s: float | None
    itl_p99_s: float | None
    prompt_tokens: int
    generated_tokens: int
    tokens_per_s: float
    preemptions: int
    swaps_out: int
    swaps_in: int
    swapped_bytes: int
    drops: int
    recomputed_tokens: int
    stalls: int
    blocked_fraction: float | None
    busy_slots: float | None
    peak_kv_bytes: int
    steps: int
    leapt: int
    wall_s: float
