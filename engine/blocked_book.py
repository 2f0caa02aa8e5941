"""Adds up what engine/blocked.py tells: fed with the ledger's spans as they close, read at any instant of the same
clock. Pure, and bounded however long the run."""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import floor

from engine.blocked import AGENTS_SHOWN, BUCKET_S, TOOLS_SHOWN, WINDOW_S, AgentShare, Blocked, Share, ToolShare
from engine.history import Span
from engine.turn import Phase

BUCKETS = int(WINDOW_S / BUCKET_S)
TOOLS_KEPT = 256
ENDED_KEPT = 1_000


class _Sums:
    """Seconds blocked, served and queued: over all time, and for the window in buckets of BUCKET_S, each its number and
    the three. Whole buckets are forgotten and nothing is ever subtracted, so no rounding gathers."""

    __slots__ = ("all", "buckets")

    def __init__(self) -> None:
        self.all = [0.0, 0.0, 0.0]
        self.buckets: deque[list[float]] = deque()

    def add(self, kind: int, start: float, end: float) -> None:
        self.all[kind] += end - start
        last = floor(end / BUCKET_S)
        for at in range(max(floor(start / BUCKET_S), last - BUCKETS + 1), last + 1):
            part = min(end, (at + 1) * BUCKET_S) - max(start, at * BUCKET_S)
            if part > 0:
                self._bucket(at)[1 + kind] += part
        self._forget(last)

    def take(self, other: "_Sums") -> None:
        """All that `other` has seen is this one's too."""
        self.all = [mine + its for mine, its in zip(self.all, other.all, strict=True)]
        for at, *sums in other.buckets:
            bucket = self._bucket(int(at))
            bucket[1:] = [mine + its for mine, its in zip(bucket[1:], sums, strict=True)]
        if self.buckets:
            self._forget(int(self.buckets[-1][0]))

    def window(self, now: float) -> list[float]:
        """A new list: the sums from `edge(now)` on."""
        oldest = floor(now / BUCKET_S) - BUCKETS
        blocked = served = queued = 0.0
        for bucket in self.buckets:
            if bucket[0] > oldest:
                blocked, served, queued = blocked + bucket[1], served + bucket[2], queued + bucket[3]
        return [blocked, served, queued]

    def _forget(self, last: int) -> None:
        """What no window can want that ends in bucket `last` or later."""
        while self.buckets[0][0] <= last - BUCKETS:
            self.buckets.popleft()

    def _bucket(self, at: int) -> list[float]:
        """In order, though a long span reaches back over buckets that others have left out."""
        buckets = self.buckets
        place = len(buckets)
        while place and buckets[place - 1][0] > at:
            place -= 1
        if place and buckets[place - 1][0] == at:
            return buckets[place - 1]
        bucket = [float(at), 0.0, 0.0, 0.0]
        buckets.insert(place, bucket)
        return bucket


@dataclass(slots=True)
class _Agent:
    """`turns`: live ones."""

    sums: _Sums = field(default_factory=_Sums)
    turns: int = 0


def edge(now: float) -> float:
    """Where the window begins: a whole bucket's start."""
    return (floor(now / BUCKET_S) - BUCKETS + 1) * BUCKET_S


def kind_of(span: Span) -> int | None:
    """0 blocked, 1 served, 2 queued; None: held, or over."""
    if span.phase is Phase.BLOCKED:
        return 0
    if span.phase.running:
        return 1
    return 2 if span.queued else None


class BlockedBook:
    """Sums of all spans that have closed since `started_at`. Its size is bounded by the live turns, the ENDED_KEPT
    agents that ended last and TOOLS_KEPT names of tools: what is older stays in the sums of the session alone, so an
    agent that comes back after that begins anew, and the rarest tools are told as one."""

    def __init__(self, started_at: float) -> None:
        self._started_at = started_at
        self._swarm = _Sums()
        self._agents: dict[str, _Agent] = {}
        self._ended: dict[str, _Agent] = {}
        self._tools: dict[str, _Sums] = {}
        self._other_tools = _Sums()
        self._folded = 0

    def came(self, agent: str) -> None:
        """It has one live turn more."""
        known = self._agents.get(agent) or self._ended.pop(agent, None) or _Agent()
        known.turns += 1
        self._agents[agent] = known

    def left(self, agent: str) -> None:
        """One of its live turns ended; its last span has been added."""
        known = self._agents[agent]
        known.turns -= 1
        if known.turns:
            return
        self._ended[agent] = self._agents.pop(agent)
        if len(self._ended) > ENDED_KEPT:
            del self._ended[next(iter(self._ended))]
            self._folded += 1

    def add(self, agent: str, span: Span) -> None:
        """A span of one of its live turns has closed."""
        kind = kind_of(span)
        if kind is None:
            return
        start, end = span.start, span.end
        self._swarm.add(kind, start, end)
        self._agents[agent].sums.add(kind, start, end)
        if kind == 0 and span.tool is not None:
            self._tool(span.tool).add(kind, start, end)

    def read(self, now: float, running_on: Iterable[tuple[str, Span]]) -> Blocked:
        """`running_on`: agent and span, as open until `now`, of each live turn."""
        since = edge(now)
        swarm, swarm_window = list(self._swarm.all), self._swarm.window(now)
        opened: dict[str, list[tuple[int, float, float]]] = {}
        tools: dict[str, list[float]] = {}
        for agent, span in running_on:
            kind = kind_of(span)
            if kind is None or span.end <= span.start:
                continue
            whole, recent = span.end - span.start, max(0.0, span.end - max(span.start, since))
            swarm[kind] += whole
            swarm_window[kind] += recent
            opened.setdefault(agent, []).append((kind, whole, recent))
            if kind == 0 and span.tool is not None:
                sums = tools.setdefault(span.tool, [0.0, 0.0])
                sums[0] += recent
                sums[1] += whole
        agents = tuple(self._rows(now, opened))
        return Blocked(
            at=now,
            window=Share(now - max(since, self._started_at), *swarm_window),
            session=Share(now - self._started_at, *swarm),
            tools=self._tool_rows(now, tools),
            agents=agents,
            unshown=len(self._agents) + len(self._ended) + self._folded - len(agents),
        )

    def _tool(self, name: str) -> _Sums:
        known = self._tools.get(name)
        if known is None:
            if len(self._tools) >= TOOLS_KEPT:
                self._fold()
            known = self._tools[name] = _Sums()
        return known

    def _fold(self) -> None:
        """The half of the tools with fewer seconds become one; rarely, so that a name never seen before costs
        little."""
        for name in sorted(self._tools, key=lambda tool: self._tools[tool].all[0])[: TOOLS_KEPT // 2]:
            self._other_tools.take(self._tools.pop(name))

    def _tool_rows(self, now: float, opened: dict[str, list[float]]) -> tuple[ToolShare, ...]:
        rows = []
        for name in self._tools.keys() | opened.keys():
            known = self._tools.get(name)
            recent, whole = opened.get(name, (0.0, 0.0))
            if known is not None:
                recent, whole = recent + known.window(now)[0], whole + known.all[0]
            rows.append(ToolShare(name, recent, whole))
        rows.sort(key=lambda row: (-row.session_s, row.name or ""))
        shown, rest = rows[:TOOLS_SHOWN], rows[TOOLS_SHOWN:]
        other = self._other_tools
        whole = other.all[0] + sum(row.session_s for row in rest)
        if whole > 0:
            shown.append(ToolShare(None, other.window(now)[0] + sum(row.window_s for row in rest), whole))
        return tuple(shown)

    def _rows(self, now: float, opened: dict[str, list[tuple[int, float, float]]]) -> Iterator[AgentShare]:
        """Live agents by their coming, then the others, the last to end first."""
        room = AGENTS_SHOWN
        for live, agents in ((True, self._agents.items()), (False, reversed(self._ended.items()))):
            for name, agent in agents:
                if room <= 0:
                    return
                room -= 1
                blocked, served, queued = agent.sums.all
                life = blocked + served + queued
                recent_blocked, recent_served, recent_queued = agent.sums.window(now)
                recent_life = recent_blocked + recent_served + recent_queued
                for kind, whole, recent in opened.get(name, ()) if live else ():
                    life += whole
                    recent_life += recent
                    if kind == 0:
                        blocked += whole
                        recent_blocked += recent
                yield AgentShare(name, live, blocked, life, recent_blocked, recent_life)
