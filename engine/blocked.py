"""The blocked fraction b: how much of their life agents wait on tools; of each agent, each tool and the whole swarm,
over the last WINDOW_S and over the session. Values alone; engine/blocked_book.py adds them up.

What counts. Each second of a live turn is one of: blocked (its phase, also while an operator holds it: the tool runs
on), served (it has a slot: prefill or decode), queued (it wants a slot and has none), or held by the operator, which is
nobody's waiting and counts nowhere. Life is blocked + served + queued, and b = blocked / life: a share of wall clock,
the queue in it. An agent lives while it has a live turn, from its first submit to the end of its last one; between two
turns the deck does not know what it does (a person types, a client computes), so that time is neither blocked nor life.
Two turns that an agent has at once count as two agents, since each wants a slot of its own.

What it says of slots. Without a queue one slot could carry (blocked + served) / served agents, which is 1/(1-b) of a b
whose queue is left out: agents that wait for a slot do not make a slot carry more. What a busy slot carries is the mean
number of live agents over the mean number of busy slots, life / served (Little's law); a slot that is idle carries
nobody and is no part of it. The two differ by exactly queued / served: what is carried above what could be is queue.
"""

from dataclasses import dataclass
from typing import NamedTuple

WINDOW_S = 60.0
BUCKET_S = 3.0
TOOLS_SHOWN = 16
AGENTS_SHOWN = 1_000


@dataclass(frozen=True, slots=True)
class Share:
    """Sums of seconds of turns, over `span_s` seconds of the engine's clock."""

    span_s: float = 0.0
    blocked_s: float = 0.0
    served_s: float = 0.0
    queued_s: float = 0.0

    @property
    def life_s(self) -> float:
        return self.blocked_s + self.served_s + self.queued_s

    @property
    def b(self) -> float | None:
        """From 0 to 1; None: nobody lived."""
        return self.blocked_s / self.life_s if self.life_s > 0 else None

    @property
    def could_carry(self) -> float | None:
        """Agents that one slot could carry without a queue; None: no slot was ever busy."""
        return (self.blocked_s + self.served_s) / self.served_s if self.served_s > 0 else None

    @property
    def carries(self) -> float | None:
        """Mean live agents for each busy slot; None: no slot was ever busy."""
        return self.life_s / self.served_s if self.served_s > 0 else None

    @property
    def agents(self) -> float | None:
        """Mean live agents."""
        return self.life_s / self.span_s if self.span_s > 0 else None

    @property
    def slots(self) -> float | None:
        """Mean busy slots."""
        return self.served_s / self.span_s if self.span_s > 0 else None


class ToolShare(NamedTuple):
    """Seconds that turns were blocked on a tool. `name` None: all tools beside the TOOLS_SHOWN with most."""

    name: str | None
    window_s: float
    session_s: float


class AgentShare(NamedTuple):
    """One agent; `live`: it has a live turn. Seconds as in Share. A named tuple, as one is made for each agent at each
    reading."""

    name: str
    live: bool
    blocked_s: float
    life_s: float
    window_blocked_s: float
    window_life_s: float

    @property
    def b(self) -> float | None:
        """Over all of its life that is kept."""
        return self.blocked_s / self.life_s if self.life_s > 0 else None

    @property
    def window_b(self) -> float | None:
        return self.window_blocked_s / self.window_life_s if self.window_life_s > 0 else None


@dataclass(frozen=True, slots=True)
class Blocked:
    """One reading, at `at` of the engine's clock. `window`: the last WINDOW_S, up to one BUCKET_S less. `tools`: the
    TOOLS_SHOWN with most seconds of the session, then the rest as one, if there are any. `agents`: at most
    AGENTS_SHOWN, live ones first, then those that ended last; `unshown`: how many there were beside them."""

    at: float
    window: Share
    session: Share
    tools: tuple[ToolShare, ...] = ()
    agents: tuple[AgentShare, ...] = ()
    unshown: int = 0
