"""Plays a workload against a Control: a heap of due times and a queue of what happened, no thread and no clock of its
own. `Swarm` runs it on a thread; a test or a bench runs it on any clock.

Every agent takes a turn, blocks on a tool when a round is generated, returns with the tool's result after the tool's
time, and after the last round starts its next turn. Tool and think times are divided by `speed` and by the engine's
`pace`.
"""

import itertools
from collections.abc import Iterable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue

from engine.control import AgentControl, Unblock
from engine.errors import Refused
from engine.events import EventKind
from engine.models.loaded import ServedModel
from engine.turn import Finish, Priority, TurnId, TurnRequest, TurnUpdate
from engine.workload.agent import Agent
from engine.workload.pace import pace_for
from engine.workload.script import AgentScript, Workload, fit, fit_turn
from engine.workload.status import SwarmStatus
from engine.workload.text import PromptSource
from engine.workload.timers import Happening, Timers

AUTHOR = "swarm"
MODEL_POLL_S = 0.5
BACKOFF_FIRST_S = 0.5
BACKOFF_MOST_S = 30.0


class Player:
    """Drive it from one thread: `advance(now)` does all that is due and says when it wants to be called again;
    `post` may be called from any thread. `now` is any clock in seconds that never runs backwards. `files`: what prompts
    are cut from, None: the standard library; `status_every_s`: the status is no older, as long as somebody advances."""

    def __init__(
        self,
        control: AgentControl,
        workload: Workload,
        *,
        speed: float = 1.0,
        seed: int = 0,
        files: tuple[Path, ...] | None = None,
        status_every_s: float = 0.0,
    ) -> None:
        self._control = control
        self._workload = workload
        self._speed = speed
        self._pace = 1.0
        self._paced: ServedModel | None = None
        self._seed = seed
        self._files = files
        self._status_every_s = status_every_s
        self._status_at = float("-inf")
        self._wanted = 0
        self._agents: dict[int, Agent] = {}
        self._members: dict[int, int] = {}
        self._keys = itertools.count()
        self._timers = Timers()
        self._inbox: SimpleQueue[Happening] = SimpleQueue()
        self._first: list[Happening] = []
        self._closed = False
        self._model: ServedModel | None = None
        self._source: PromptSource | None = None
        self._notes = workload.notes
        self._gone = (0.0, 0.0)
        self._counts = {"turns_done": 0, "refused": 0, "failed": 0, "cancelled": 0}
        self._problem: str | None = None
        self.status = SwarmStatus(False, workload.name, 0, speed)

    def post(self, happening: Happening) -> None:
        """Have `happening(now)` run in the next `advance`."""
        self._inbox.put(happening)

    @property
    def posted(self) -> bool:
        """Something waits for the next `advance`."""
        return not self._inbox.empty()

    @property
    def idle(self) -> bool:
        """No agent is left, and nothing waits."""
        return not self._agents and not self.posted

    def wait(self, timeout: float) -> None:
        """Until something was posted, or `timeout` seconds have passed."""
        try:
            self._first.append(self._inbox.get(timeout=max(timeout, 0.0)))
        except Empty:
            return

    def advance(self, now: float) -> float | None:
        """Does what was posted and is due; returns when it is to be called again, None: when something is posted."""
        self._read_inbox(now)
        while (timer := self._timers.pop_due(now)) is not None:
            agent = self._agents.get(timer.agent)
            if agent is not None and agent.epoch == timer.epoch:
                timer.action(now)
        if now - self._status_at >= self._status_every_s:
            self.publish(now)
        if not self._inbox.empty():
            return now
        return self._timers.next_due

    def set_agents(self, count: int, now: float) -> None:
        """Newcomers arrive as their scripts say; those that are too many leave, their turns are cancelled: background
        agents first, the latest in the workload's order before the others."""
        while len(self._members) > count:
            place = max(self._members, key=self._leaves_at)
            self._remove(self._agents[self._members.pop(place)], now)
        arriving = not self._members
        vacant = (place for place in itertools.count() if place not in self._members)
        while len(self._members) < count:
            place = next(vacant)
            self._members[place] = self._arrive(place, now, as_scripted=arriving, loops=True)
        self._wanted = count

    def play_once(self, count: int, now: float) -> None:
        """So many agents arrive as their scripts say, each takes its turns once and leaves."""
        for place in range(count):
            self._arrive(place, now, as_scripted=True, loops=False)

    def _arrive(self, place: int, now: float, *, as_scripted: bool, loops: bool) -> int:
        """The agent at a place of the workload, which goes round; returns its key. Copies start at another turn."""
        copy, member = divmod(place, len(self._workload.agents))
        script = self._workload.agents[member]
        name = script.name if copy == 0 else f"{script.name}.{copy + 1}"
        agent = self._add(name, script, loops)
        agent.turn_index = copy
        delay = script.arrival_ms / 1000 if as_scripted else 0.0
        self._after(now, delay, agent, partial(self._take_turn, agent), scaled=True)
        return agent.key

    def set_speed(self, speed: float, now: float) -> None:
        """Waits that are under way are stretched or shortened with it."""
        self._timers.stretch(self._speed / speed, now)
        self._speed = speed

    def once(self, script: AgentScript, now: float) -> None:
        """One more agent, which takes the script's turns once, the first one now."""
        self._take_turn(self._add(script.name, script, loops=False), now)

    def close(self, now: float, problem: str | None = None) -> None:
        """Cancels every turn, those whose submission is still under way too, and forgets the agents."""
        self._closed = True
        self._problem = problem or self._problem
        self.set_agents(0, now)
        for agent in list(self._agents.values()):
            self._remove(agent, now)
        self._read_inbox(now)
        self.publish(now)

    def _read_inbox(self, now: float) -> None:
        waiting = [*self._first, *(self._inbox.get() for _ in range(self._inbox.qsize()))]
        self._first.clear()
        for happening in waiting:
            happening(now)

    def _add(self, name: str, script: AgentScript, loops: bool) -> Agent:
        agent = Agent(next(self._keys), name, script, loops)
        self._agents[agent.key] = agent
        return agent

    def _leaves_at(self, place: int) -> tuple[Priority, int]:
        """The member with the highest leaves first."""
        return self._agents[self._members[place]].script.priority, place

    def _remove(self, agent: Agent, now: float) -> None:
        if agent.turn is not None:
            self._control.cancel(agent.turn, AUTHOR)
        agent.end(now)
        self._gone = _sum((self._gone, agent.spent(now)))
        del self._agents[agent.key]

    def _after(self, now: float, seconds: float, agent: Agent, action: Happening, *, scaled: bool) -> None:
        due = now + (seconds / (self._speed * self._pace) if scaled else seconds)
        self._timers.set(due, agent.key, agent.epoch, action, scaled=scaled)

    def _take_turn(self, agent: Agent, now: float) -> None:
        model = self._control.model
        if model is None:
            self._after(now, MODEL_POLL_S, agent, partial(self._take_turn, agent), scaled=False)
            return
        self._find_pace(model, now)
        turn = fit_turn(agent.scripted, model.max_context)
        epoch = agent.begin(turn)
        first = turn.rounds[0]
        prompt = self._tokens(model, agent, first.appended, now)
        if prompt is None:
            return
        request = TurnRequest(
            agent.name,
            prompt,
            max_tokens=first.output,
            priority=agent.script.priority,
            ignore_eos=True,
            then_block=first.tool,
        )
        future = self._control.submit(request, partial(self._listen, agent.key, epoch), AUTHOR)
        future.add_done_callback(partial(self._answered, agent.key, epoch))

    def _tokens(self, model: ServedModel, agent: Agent, count: int, now: float) -> tuple[int, ...] | None:
        """None: no text could be cut, and the agent's turn was given up."""
        try:
            if self._source is None or model is not self._model:
                self._source = self._meet(model)
            return self._source.cut(f"{agent.name}/{agent.key}/{agent.taken}/{agent.round_index}", count)
        except Refused as error:
            self._refusal(agent, str(error), now)
            return None

    def _meet(self, model: ServedModel) -> PromptSource:
        """A model that is new to the player: its tokenizer and its context."""
        source = PromptSource(model.tokenizer, self._seed, self._files)
        self._model = model
        self._notes = fit(self._workload, model.max_context).notes
        return source

    def _find_pace(self, model: ServedModel, now: float) -> None:
        """Once for each model, as soon as the engine's costs are measured."""
        costs = self._control.snapshot.costs
        if model is self._paced or costs is None:
            return
        pace = pace_for(costs, self._workload.scale)
        self._timers.stretch(self._pace / pace, now)
        self._pace, self._paced = pace, model

    def _listen(self, key: int, epoch: int, update: TurnUpdate) -> None:
        """On the engine's thread: only what ends a round is of interest."""
        if update.finish is not None or update.phase.ended:
            self.post(partial(self._heard, key, epoch, update))

    def _answered(self, key: int, epoch: int, future: "Future[TurnId]") -> None:
        """On whatever thread settles the submission. After `close` nobody reads the inbox: cancel at once."""
        self.post(partial(self._submitted, key, epoch, future))
        if self._closed and _error(future) is None:
            self._control.cancel(future.result(), AUTHOR)

    def _submitted(self, key: int, epoch: int, future: "Future[TurnId]", now: float) -> None:
        agent = self._agents.get(key)
        current = agent is not None and agent.epoch == epoch
        error = _error(future)
        if error is None:
            if agent is not None and current:
                agent.live(future.result(), now)
            elif agent is None:
                self._control.cancel(future.result(), AUTHOR)
        elif agent is not None and current:
            self._refusal(agent, error, now)

    def _refusal(self, agent: Agent, error: str, now: float) -> None:
        """The turn is given up; the agent tries its next one later, each time waiting twice as long."""
        self._counts["refused"] += 1
        self._problem = error
        # Once until it is taken again: it may be refused every half a minute.
        if agent.attempts == 0:
            self._control.note(f"a turn of {agent.name} was refused: {error}", AUTHOR, EventKind.REFUSE)
        if agent.turn is not None:
            self._control.cancel(agent.turn, AUTHOR)
        self._retry(agent, now)

    def _retry(self, agent: Agent, now: float) -> None:
        agent.end(now)
        delay = min(BACKOFF_FIRST_S * 2.0 ** min(agent.attempts, 16), BACKOFF_MOST_S)
        agent.attempts += 1
        if agent.loops:
            self._after(now, delay, agent, partial(self._take_turn, agent), scaled=False)
        else:
            self._remove(agent, now)

    def _heard(self, key: int, epoch: int, update: TurnUpdate, now: float) -> None:
        agent = self._agents.get(key)
        if agent is None or agent.epoch != epoch:
            return
        if update.finish is Finish.ERROR or update.error is not None:
            self._counts["failed"] += 1
            self._problem = update.error or "a turn failed without a reason"
            self._retry(agent, now)
        elif update.finish is Finish.TOOL and agent.round is not None:
            agent.live(update.turn, now)
            agent.block(now)
            self._after(now, agent.round.wait_ms / 1000, agent, partial(self._return, agent), scaled=True)
        else:
            self._counts["cancelled" if update.finish is Finish.CANCELLED else "turns_done"] += 1
            self._next_turn(agent, now)

    def _return(self, agent: Agent, now: float) -> None:
        """The tool's time is over: its result goes to the blocked turn. A turn that someone else blocked in its last
        round has nothing more to do and is cancelled."""
        one = agent.unblock(now)
        model = self._control.model
        turn = agent.turn
        if one is None or turn is None or model is None:
            if turn is not None:
                self._control.cancel(turn, AUTHOR)
            self._next_turn(agent, now)
            return
        tokens = self._tokens(model, agent, one.appended, now)
        if tokens is None:
            return
        future = self._control.unblock(Unblock(turn, tokens, one.output, one.tool), AUTHOR)
        future.add_done_callback(partial(self._settled, agent.key, agent.epoch))

    def _settled(self, key: int, epoch: int, future: "Future[str]") -> None:
        """On whatever thread settles the return."""
        self.post(partial(self._returned, key, epoch, future))

    def _returned(self, key: int, epoch: int, future: "Future[str]", now: float) -> None:
        agent = self._agents.get(key)
        error = _error(future)
        if error is not None and agent is not None and agent.epoch == epoch:
            self._refusal(agent, error, now)

    def _next_turn(self, agent: Agent, now: float) -> None:
        agent.end(now)
        if agent.loops or agent.taken < len(agent.script.turns):
            delay = agent.scripted.think_ms / 1000
            self._after(now, delay, agent, partial(self._take_turn, agent), scaled=True)
        else:
            self._remove(agent, now)

    def publish(self, now: float) -> None:
        """Make the status that of `now`."""
        self._status_at = now
        live_s, blocked_s = _sum([self._gone, *(agent.spent(now) for agent in self._agents.values())])
        self.status = SwarmStatus(
            running=self._wanted > 0,
            workload=self._workload.name,
            agents=self._wanted,
            speed=self._speed,
            pace=self._pace,
            live=sum(agent.live_since is not None for agent in self._agents.values()),
            blocked=sum(agent.blocked_since is not None for agent in self._agents.values()),
            blocked_fraction=blocked_s / live_s if live_s > 0 else None,
            problem=self._problem,
            notes=self._notes,
            **self._counts,
        )


def _sum(spans: Iterable[tuple[float, float]]) -> tuple[float, float]:
    pairs = list(spans)
    return sum(live for live, _ in pairs), sum(blocked for _, blocked in pairs)


def _error(future: "Future[TurnId] | Future[str]") -> str | None:
    """The sentence of a settled future that holds no result."""
    if future.cancelled():
        return "the engine dropped the request; it was stopped or restarted"
    error = future.exception()
    return None if error is None else str(error) or type(error).__name__
