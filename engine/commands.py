"""What operators and agents ask for, carried out at a token boundary. Each returns a value for the caller's Future or
raises Refused with one sentence and nothing changed."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from engine.calibration.probes import Probe
from engine.card_command import set_card
from engine.control import Listener, Unblock
from engine.core import Core
from engine.detail import detail_of
from engine.errors import Refused, TurnsOpen
from engine.events import EventKind
from engine.geometry import blocks_for
from engine.knob_words import change, differing, value_of
from engine.knobs import Knobs
from engine.ledger import LiveTurn
from engine.models.tokenizer import StreamDecoder
from engine.output import TurnOutput
from engine.policies import checked
from engine.pool import host_copies, resize
from engine.precision import check_switch, switch
from engine.preview import Preview, Sizes, previewed
from engine.snapshot import ModelledCard, TurnDetail
from engine.turn import Finish, Phase, Tier, TurnId, TurnRequest
from engine.view import Reason
from engine.waits import KnownWaits
from engine.words import counted

T = TypeVar("T")


class Commands:
    """Over one running engine. `rng` draws the seeds of turns that bring none, `numbers` are those of its turns."""

    def __init__(self, core: Core, rng: random.Random, numbers: Iterator[int]) -> None:
        self._core = core
        self._rng = rng
        self._numbers = numbers

    # -- agents -----------------------------------------------------------------------------------------------------

    def submit(self, request: TurnRequest, listener: Listener | None, author: str, asked_at: float) -> TurnId:
        """Take a turn in. The prompt must fit the arena and the model's context; `max_tokens` is cut to the context."""
        core = self._core
        self._check_request(request)
        if request.sampling.seed is None:
            request = replace(request, sampling=replace(request.sampling, seed=self._rng.getrandbits(63)))
        turn_id = TurnId(next(self._numbers))
        tokens = list(request.prompt)
        core.backend.open(turn_id, tokens, request.sampling)
        decoder = StreamDecoder(core.model.tokenizer) if core.model else None
        turn = LiveTurn(
            id=turn_id,
            request=request,
            tokens=tokens,
            output=TurnOutput(decoder, request.stop),
            listener=listener,
            arrived_at=asked_at,
            asked_at=asked_at,
            max_tokens=request.max_tokens,
            then_block=request.then_block,
        )
        core.ledger.add(turn, asked_at)
        core.count(turns=1, prompt_tokens=len(tokens))
        core.event(
            EventKind.SUBMIT,
            author,
            f"{turn.agent}: {counted(len(tokens), 'prompt token')}, {turn.priority.label}",
            turn,
        )
        return turn_id

    def block(self, turn_id: TurnId, tool: str, author: str) -> str:
        core, now = self._core, self._core.clock.now()
        turn = core.ledger.find(turn_id)
        if turn.phase is Phase.BLOCKED:
            raise Refused(f"turn {turn_id} already waits on {turn.tool}; unblock it first")
        if not tool:
            raise Refused("the tool has no name; name what the turn waits on")
        core.block(turn, now, tool, author)
        return f"{turn.agent} waits on {tool}; its slot is free"

    def unblock(self, result: Unblock, author: str, asked_at: float) -> str:
        core = self._core
        turn = core.ledger.find(result.turn)
        if turn.phase is not Phase.BLOCKED:
            raise Refused(
                f"turn {result.turn} is not blocked but in phase {turn.phase}; only a blocked turn takes a result"
            )
        self._check_size(len(turn.tokens) + len(result.tokens), "the context with the tool's result")
        _check_max_tokens(result.max_tokens)
        now = core.clock.now()
        core.ledger.close_interval(turn, now)
        core.backend.extend(turn.id, len(turn.tokens), result.tokens)
        tool = turn.tool
        turn.tokens.extend(result.tokens)
        turn.generated, turn.max_tokens, turn.then_block = 0, result.max_tokens, result.then_block
        decoder = StreamDecoder(core.model.tokenizer, continues=True) if core.model else None
        turn.output = TurnOutput(decoder, turn.request.stop)
        turn.asked_at = asked_at
        turn.last_token_at = None
        core.unblock(turn, now)
        core.count(prompt_tokens=len(result.tokens))
        core.event(
            EventKind.UNBLOCK,
            author,
            f"{turn.agent} back from {tool}, {counted(len(result.tokens), 'token')} appended",
            turn,
        )
        return f"{turn.agent} goes on with {counted(len(result.tokens), 'more token')}"

    def cancel(self, turn_id: TurnId, author: str) -> str:
        core, now = self._core, self._core.clock.now()
        turn = core.ledger.find(turn_id)
        phase = turn.phase
        core.event(EventKind.CANCEL, author, f"{turn.agent} cancelled while {phase}", turn)
        core.end(turn, now, Phase.CANCELLED, Finish.CANCELLED)
        return f"{turn.agent} cancelled while {phase}"

    # -- operators --------------------------------------------------------------------------------------------------

    def pause(self, turn_id: TurnId, author: str) -> str:
        core, now = self._core, self._core.clock.now()
        turn = core.ledger.find(turn_id)
        if turn.held:
            raise Refused(f"{turn.agent} is already paused; resume it first")
        self._hold(turn, now)
        core.event(EventKind.PAUSE, author, f"{turn.agent} paused", turn)
        return f"{turn.agent} paused; its KV is {turn.tier}"

    def resume(self, turn_id: TurnId, author: str) -> str:
        core = self._core
        turn = core.ledger.find(turn_id)
        if not turn.held:
            raise Refused(f"{turn.agent} is not paused by the operator; the governor resumes it by itself")
        core.ledger.close_interval(turn, core.clock.now())
        turn.held = False
        turn.queued_since = core.clock.now()
        core.ledger.changed(turn)
        core.event(EventKind.RESUME, author, f"{turn.agent} may go on", turn)
        return f"{turn.agent} may go on"

    def swap_out(self, turn_id: TurnId, author: str) -> str:
        core, now = self._core, self._core.clock.now()
        turn = self._movable(turn_id, {Tier.RESIDENT})
        nbytes = core.backend.holding(turn_id).blocks * core.backend.memory().block_bytes
        running = turn.phase.running
        if not core.swap_out(turn, now, Reason.OPERATOR, author):
            m = core.backend.memory()
            free = m.host_total_bytes - m.host_used_bytes
            raise Refused(
                f"{turn.agent} needs {core.mib(nbytes)} in the host pool and {core.mib(free)} are free; "
                "enlarge the pool or drop a turn"
            )
        self._hold_after_move(turn, now, running)
        return f"{turn.agent} is in the host pool, {core.mib(nbytes)}"

    def drop(self, turn_id: TurnId, author: str) -> str:
        core, now = self._core, self._core.clock.now()
        turn = self._movable(turn_id, {Tier.RESIDENT, Tier.HOST})
        tokens = core.backend.holding(turn_id).kv_tokens
        running = turn.phase.running
        core.drop(turn, now, Reason.OPERATOR, author)
        self._hold_after_move(turn, now, running)
        return f"{turn.agent} dropped; {counted(tokens, 'token')} will be recomputed"

    def set_knobs(self, changes: Mapping[str, object], author: str) -> Knobs:
        """All or nothing: the whole set is validated before anything moves. The events of one set carry one instant."""
        core = self._core
        old, new = core.knobs, self._checked(changes)
        if new == old:
            return old
        now = core.clock.now()
        core.ledger.close_all_intervals(now)
        took: dict[str, tuple[float, int | None]] = {}
        if new.host_pool_bytes != old.host_pool_bytes or new.kv_dtype is not old.kv_dtype:
            core.settle()
        if new.host_pool_bytes != old.host_pool_bytes:
            took["host_pool_bytes"] = resize(core, new.host_pool_bytes, author), None
        if new.kv_dtype is not old.kv_dtype:
            started = core.clock.now()
            converted = switch(core, new.kv_dtype)
            took["kv_dtype"] = core.clock.now() - started, converted.nbytes
        if new.overlap_copies is not old.overlap_copies:
            core.backend.set_overlap(new.overlap_copies)
            core.land()
        core.ledger.knobs = new
        done = core.clock.now()
        for name in differing(old, new):
            was, now_is = value_of(old, name), value_of(new, name)
            seconds, nbytes = took.get(name, (0.0, None))
            core.event(
                EventKind.KNOB,
                author,
                change(name, was, now_is),
                name=name,
                old=str(was),
                new=str(now_is),
                seconds=seconds,
                nbytes=nbytes,
                at=done,
            )
        return new

    def set_card(self, changes: Mapping[str, object], author: str) -> ModelledCard:
        return set_card(self._core, changes, author)

    def preview(self, changes: Mapping[str, object]) -> Preview:
        """What `set_knobs` with these `changes` would do at this boundary; nothing moves."""
        core = self._core
        new = self._checked(changes)
        backend, last = core.backend, core.converted
        dtypes = {core.knobs.kv_dtype, new.kv_dtype}
        sizes = Sizes(
            blocks={dtype: (backend.blocks_at(dtype), backend.block_bytes_at(dtype)) for dtype in dtypes},
            copies=host_copies(core),
            converts_per_s=last.nbytes / last.seconds if last and last.nbytes and last.seconds > 0 else None,
        )
        return previewed(core.view(), core.knobs, new, sizes, core.costs, core.clock.now())

    def probe(self, probe: Probe[T]) -> T:
        turns = len(self._core.ledger.turns)
        if turns:
            raise TurnsOpen(
                f"measuring needs an engine without turns and has {counted(turns, 'open turn')}; stop the swarm, or "
                "wait until there is none"
            )
        return probe.run(self._core.backend)

    def turn_detail(self, turn_id: TurnId) -> TurnDetail:
        return detail_of(self._core, turn_id)

    def learn_waits(self, known: KnownWaits) -> None:
        """Durations of tools from before this engine."""
        self._core.waits.seed(known.durations)
        self._core.event(EventKind.ENGINE, "engine", known.said)

    def note(self, text: str, author: str, kind: EventKind) -> None:
        self._core.event(kind, author, text)

    # -- parts ------------------------------------------------------------------------------------------------------

    def _checked(self, changes: Mapping[str, object]) -> Knobs:
        """The set of knobs after `changes`; raises Refused or BadKnob for one that cannot be taken now."""
        core = self._core
        old = core.knobs
        new = checked(old.changed(changes))
        if new.kv_dtype is not old.kv_dtype:
            check_switch(core, new.kv_dtype)
        if new.host_pool_bytes != old.host_pool_bytes:
            core.backend.check_host_pool(new.host_pool_bytes)
        if new.overlap_copies and not core.backend.can_overlap:
            raise Refused("here the engine stands still for its copies, none goes on beside steps; leave overlap off")
        return new

    def _check_request(self, request: TurnRequest) -> None:
        if not request.prompt:
            raise Refused("the prompt is empty; send at least one token")
        _check_max_tokens(request.max_tokens)
        self._check_size(len(request.prompt), "the prompt")

    def _check_size(self, tokens: int, what: str) -> None:
        backend, m = self._core.backend, self._core.backend.memory()
        if tokens >= backend.max_context:
            raise Refused(
                f"{what} has {tokens:,} tokens; the model's context is {backend.max_context:,} and one must be left to "
                "generate; send fewer"
            )
        capacity = m.blocks_total * backend.block_size
        if blocks_for(tokens + 1, backend.block_size) > m.blocks_total:
            raise Refused(
                f"{what} has {tokens:,} tokens and can never fit the arena of {capacity:,} tokens "
                f"({self._core.mib(m.arena_bytes)} at {backend.kv_dtype}); send fewer or enlarge the arena"
            )

    def _movable(self, turn_id: TurnId, tiers: set[Tier]) -> LiveTurn:
        turn = self._core.ledger.find(turn_id)
        if turn.tier not in tiers:
            raise Refused(f"{turn.agent} holds no KV there to move (tier {turn.tier}); wait until it does")
        return turn

    def _hold(self, turn: LiveTurn, now: float) -> None:
        turn.last_token_at = None
        self._core.waits.held(turn.id)
        if turn.phase is not Phase.BLOCKED:
            self._core.ledger.move(turn, now, phase=Phase.PAUSED)
        self._core.ledger.close_interval(turn, now)
        turn.held = True
        self._core.ledger.changed(turn)

    def _hold_after_move(self, turn: LiveTurn, now: float, running: bool) -> None:
        """A turn moved by hand stays there until it is resumed by hand; a blocked one comes back with its result."""
        if turn.phase is not Phase.BLOCKED and (running or not turn.held):
            self._hold(turn, now)


def _check_max_tokens(value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 10_000_000:
        raise Refused(f"max_tokens {value!r} is not a whole number from 1 to 10,000,000")
