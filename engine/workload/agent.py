"""One agent at play: where it stands in its script, and how long its turns were live and blocked."""

from dataclasses import dataclass

from engine.turn import TurnId
from engine.workload.script import AgentScript, Round, ScriptedTurn


@dataclass(slots=True)
class Agent:
    """Mutable, owned by the player's thread. `epoch` grows whenever what was asked for an earlier turn no longer
    counts; timers and answers carry the epoch they belong to. Times are the player's clock, seconds."""

    key: int
    name: str
    script: AgentScript
    loops: bool
    turn_index: int = 0
    taken: int = 0
    epoch: int = 0
    attempts: int = 0
    playing: ScriptedTurn | None = None
    round_index: int = 0
    turn: TurnId | None = None
    live_since: float | None = None
    blocked_since: float | None = None
    live_s: float = 0.0
    blocked_s: float = 0.0

    @property
    def scripted(self) -> ScriptedTurn:
        """The turn it takes next, or is taking."""
        return self.script.turns[self.turn_index % len(self.script.turns)]

    def begin(self, turn: ScriptedTurn) -> int:
        """Takes `turn` from its first round; returns the epoch that its answers must carry."""
        self.epoch += 1
        self.playing, self.round_index, self.turn = turn, 0, None
        self.taken += 1
        return self.epoch

    @property
    def round(self) -> Round | None:
        """The round being generated; None between turns."""
        return None if self.playing is None else self.playing.rounds[self.round_index]

    def live(self, turn: TurnId, now: float) -> None:
        """The engine took the turn."""
        self.turn = turn
        self.attempts = 0
        if self.live_since is None:
            self.live_since = now

    def block(self, now: float) -> None:
        self.blocked_since = now

    def unblock(self, now: float) -> Round | None:
        """Goes on to the next round and returns it; None when the script has none (the turn is then over)."""
        if self.blocked_since is not None:
            self.blocked_s += now - self.blocked_since
            self.blocked_since = None
        if self.playing is None or self.round_index + 1 >= len(self.playing.rounds):
            return None
        self.round_index += 1
        return self.round

    def end(self, now: float) -> None:
        """The turn is over, one way or another; what is still under way for it no longer counts."""
        self.epoch += 1
        if self.blocked_since is not None:
            self.blocked_s += now - self.blocked_since
        if self.live_since is not None:
            self.live_s += now - self.live_since
        self.live_since = self.blocked_since = self.turn = self.playing = None
        self.turn_index += 1

    def spent(self, now: float) -> tuple[float, float]:
        """(seconds live, seconds blocked) up to `now`, the present turn included."""
        live = self.live_s + (now - self.live_since if self.live_since is not None else 0.0)
        blocked = self.blocked_s + (now - self.blocked_since if self.blocked_since is not None else 0.0)
        return live, blocked
