"""The swarm as others use it: a thread that plays a workload against the engine, steered live from any thread."""

import dataclasses
import threading
import time
from collections.abc import Callable
from functools import partial

from engine.control import Control
from engine.errors import Refused
from engine.knobs import Knobs
from engine.turn import Priority
from engine.workload.player import Player
from engine.workload.script import AgentScript, Round, ScriptedTurn, Workload
from engine.workload.status import SwarmStatus

MOST_AGENTS = 256
SPEED_RANGE = (0.01, 100.0)
LONGEST_SLEEP_S = 0.5
STOP_WITHIN_S = 1.0

Note = Callable[[str, str], None]


class Swarm:
    """Every method may be called from any thread and returns at once; `stop` within a second. `note(text, author)` is
    told of each change, for the list of events. Raises Refused for a speed or a number of agents out of range; nothing
    is changed then. `real_s`: the real seconds in which so many of `clock` pass."""

    def __init__(
        self,
        control: Control,
        workload: Workload,
        *,
        agents: int | None = None,
        speed: float = 1.0,
        seed: int = 0,
        clock: Callable[[], float] = time.monotonic,
        real_s: Callable[[float], float] = lambda seconds: seconds,
        note: Note | None = None,
    ) -> None:
        self._control = control
        self._workload = workload
        self._agents = checked_agents(workload.agents_nominal if agents is None else agents)
        self._speed = checked_speed(speed)
        self._seed = seed
        self._clock = clock
        self._real_s = real_s
        self._note = note
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None
        self._player: Player | None = None
        self._playing = False
        self._extra = 0
        self._idle = SwarmStatus(False, workload.name, self._agents, self._speed, notes=workload.notes)

    @property
    def workload(self) -> Workload:
        return self._workload

    @property
    def agents(self) -> int:
        """As many as were asked for, also before they have come."""
        return self._agents

    @property
    def status(self) -> SwarmStatus:
        """An immutable object, replaced as things happen; after `stop` the last one, with the settings of the next
        start."""
        player = self._player
        latest = self._idle if player is None else player.status
        if self._playing:
            return latest
        return dataclasses.replace(latest, running=False, agents=self._agents, speed=self._speed)

    def start(self, author: str = "swarm") -> None:
        """Let the agents arrive; nothing happens if they are there already."""
        with self._lock:
            if self._playing and self._thread is not None and self._thread.is_alive():
                return
            self._playing = True
            player, count = self._running_player(), self._agents
            player.post(lambda now: player.set_agents(count, now))
        self._tell(f"swarm started: {count} agents of {self._workload.name}, speed {self._speed:g}", author)

    def stop(self, author: str = "swarm") -> bool:
        """Cancel all of the swarm's turns and end its thread; nothing happens if it does not run. True when its agents
        were told to play, False also when only a single turn was sent."""
        with self._lock:
            thread, player = self._thread, self._player
            if thread is None or player is None:
                return False
            self._ending.set()
            player.post(lambda now: None)
            thread.join(STOP_WITHIN_S)
            played, self._thread, self._playing = self._playing, None, False
        self._tell("swarm stopped", author)
        return played

    def set_workload(self, workload: Workload, agents: int | None = None, author: str = "swarm") -> None:
        """Other agents take the place of these, so many or as many as the workload says; they play if these did."""
        count = checked_agents(workload.agents_nominal if agents is None else agents)
        played = self.stop(author)
        with self._lock:
            self._workload, self._agents, self._player = workload, count, None
            self._idle = SwarmStatus(False, workload.name, count, self._speed, notes=workload.notes)
        if played:
            self.start(author)

    def set_agents(self, agents: int, author: str = "swarm") -> None:
        with self._lock:
            old, self._agents = self._agents, checked_agents(agents)
            player = self._player
            if self._playing and player is not None:
                player.post(lambda now: player.set_agents(agents, now))
        if old != agents:
            self._tell(f"swarm agents {old} -> {agents}", author)

    def set_speed(self, speed: float, author: str = "swarm") -> None:
        with self._lock:
            old, self._speed = self._speed, checked_speed(speed)
            player = self._player
            if player is not None:
                player.post(lambda now: player.set_speed(speed, now))
        if old != speed:
            self._tell(f"swarm speed {old:g} -> {speed:g}", author)

    def foreground_turn_now(self, prompt_tokens: int = 256, output_tokens: int = 64) -> str:
        """One turn that a person waits for, at once, swarm running or not; returns its agent's name."""
        return self._once("person-now", Priority.FOREGROUND, prompt_tokens, output_tokens)

    def long_turn_now(self, prompt_tokens: int | None = None, output_tokens: int = 64) -> str:
        """One long background turn, at once, swarm running or not; returns its agent's name. Without a length it is as
        long as the card calls long on a twin, else as the default knobs do."""
        if prompt_tokens is None:
            snapshot = self._control.snapshot
            knobs = snapshot.knobs if snapshot.twin else Knobs()
            prompt_tokens = max(1, knobs.long_turn_tokens - output_tokens)
        return self._once("long-now", Priority.BACKGROUND, prompt_tokens, output_tokens)

    def _once(self, prefix: str, priority: Priority, prompt: int, output: int) -> str:
        turn = ScriptedTurn((Round(prompt, output),))
        with self._lock:
            self._extra += 1
            name = f"{prefix}-{self._extra}"
            player = self._running_player()
            player.post(partial(player.once, AgentScript(name, priority, (turn,))))
        return name

    def _running_player(self) -> Player:
        """The player of the running thread; starts one if none runs. The lock is held."""
        if self._thread is None or self._player is None or not self._thread.is_alive():
            self._ending = threading.Event()
            self._player = Player(self._control, self._workload, speed=self._speed, seed=self._seed)
            self._thread = threading.Thread(
                target=self._run, args=(self._player, self._ending), name="parkdeck-swarm", daemon=True
            )
            self._thread.start()
        return self._player

    def _run(self, player: Player, ending: threading.Event) -> None:
        problem: str | None = None
        try:
            while not ending.is_set():
                now = self._clock()
                due = player.advance(now)
                player.wait(LONGEST_SLEEP_S if due is None else min(self._real_s(due - now), LONGEST_SLEEP_S))
        except Exception as error:
            problem = f"the swarm ended by a fault of its own ({error}); start it again"
            raise
        finally:
            player.close(self._clock(), problem)

    def _tell(self, text: str, author: str) -> None:
        if self._note is not None:
            self._note(text, author)


def checked_agents(agents: int) -> int:
    """Raises Refused."""
    if isinstance(agents, bool) or not isinstance(agents, int) or not 0 <= agents <= MOST_AGENTS:
        raise Refused(f"{agents!r} is no number of agents; give a whole number from 0 to {MOST_AGENTS}")
    return agents


def checked_speed(speed: float) -> float:
    """Raises Refused."""
    low, high = SPEED_RANGE
    if isinstance(speed, bool) or not isinstance(speed, int | float) or speed != speed:
        raise Refused(f"speed {speed!r} is not a number; give one from {low:g} to {high:g}")
    if not low <= speed <= high:
        # An integer too long for a float has no :g.
        raise Refused(f"speed {min(max(speed, -1e9), 1e9):g} is outside {low:g} to {high:g}; give one within")
    return speed
