"""What the swarm shows of itself."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SwarmStatus:
    """`pace`: what `speed` is multiplied with so that speed 1 suits this engine (see `pace`). `agents`: how many are
    wanted, `live`: turns in the engine now, `blocked`: those waiting on a tool. The counts
    are since the start. `blocked_fraction` b: time blocked on tools / time that turns were live, None before the first
    turn. `problem`: the latest refusal or failure, one sentence. `notes`: what was cut to fit the model."""

    running: bool
    workload: str
    agents: int
    speed: float
    pace: float = 1.0
    live: int = 0
    blocked: int = 0
    turns_done: int = 0
    refused: int = 0
    failed: int = 0
    cancelled: int = 0
    blocked_fraction: float | None = None
    problem: str | None = None
    notes: tuple[str, ...] = ()
