"""Throughput: decoded and prefilled tokens per second through the engine's own loop, alone or beside a peer.

A row is one piece of work at one precision. Each round measures every side once, one after the other while the others
rest; a row tells the medians over the rounds and, beside a peer, the median of the rounds' ratios.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from statistics import median

import numba
import torch

from app.bench.against import EXACT, Peer, chosen_peer, peer_model, peer_python, start_peer
from app.bench.peer_process import PeerProcess
from app.bench.report import Bench, Cell
from app.bench.rig import AUTHOR, Rig, loaded, quiet_body
from app.bench.sides import WARM, Case, Idle, OwnSide, PeerSide, Side, Text, come_to_rest
from engine.body import Body
from engine.errors import Refused
from engine.geometry import BLOCK_SIZE, KVDtype
from engine.knobs import Knobs
from engine.workload.text import PromptSource

DECODE, PREFILL = WORKS = ("decode", "prefill")
PROMPT = 512
TEXT_TOKENS = 20_000
FEW_TURNS = 4
IDLE_CORES = 0.1
HELD_PROMPTS = 100
"""Prompts of prefills are numbered from here, those of held turns from 0."""
CARD_AGGREGATE = 5.6
"""Eight turns over one on the card that the product is named for."""

Speeds = Mapping[str, Sequence[float]]
"""Tokens per second of each round, by side."""


@dataclass(frozen=True, slots=True)
class Depth:
    """`steps` of a stretch, twice as many of few turns, whose steps are short; `prefills`: how many prompts of PROMPT
    tokens at once."""

    rounds: int
    steps: int
    turns: tuple[int, ...] = (1, 4, 8, 16)
    contexts: tuple[int, ...] = (128, 1024)
    prefills: tuple[int, ...] = (1, 8)

    def steps_of(self, turns: int) -> int:
        return self.steps * (2 if turns <= FEW_TURNS else 1)

    @property
    def growth(self) -> int:
        """Tokens by which a context grows at most while its case is measured."""
        return self.rounds * (WARM + max(map(self.steps_of, self.turns)))

    @property
    def room(self) -> int:
        """Tokens of the longest turn, and the block that a start reserves."""
        return max(*self.contexts, PROMPT) + self.growth + 2 * BLOCK_SIZE


ALONE = {
    "quick": Depth(rounds=2, steps=4, prefills=(1,)),
    "default": Depth(rounds=5, steps=8),
    "full": Depth(rounds=5, steps=16, contexts=(128, 1024, 4096)),
}
BESIDE = {
    "quick": Depth(rounds=3, steps=4, turns=(1, 8), prefills=(1,)),
    "default": Depth(rounds=3, steps=6, prefills=(1, 4)),
    "full": Depth(rounds=5, steps=16, contexts=(128, 1024, 4096)),
}


@dataclass(frozen=True, slots=True)
class Row:
    """One piece of work of one of our sides, and of the peer's beside it."""

    work: str
    kv: str
    turns: int
    context: int
    ours: tuple[float, ...]
    peers: tuple[float, ...] = ()

    @property
    def speed(self) -> float:
        return median(self.ours)

    @property
    def ratios(self) -> tuple[float, ...]:
        """Of each round."""
        return tuple(own / peer for own, peer in zip(self.ours, self.peers, strict=True)) if self.peers else ()


@dataclass(frozen=True, slots=True)
class Own:
    """This project's sides, the text that all sides are given, and the threads that all have."""

    sides: Sequence[Side]
    text: Text
    threads: int


def run(bench: Bench) -> None:
    peer = _asked_peer(bench)
    depth = (ALONE if peer is None else BESIDE)[bench.depth]
    with contextlib.ExitStack() as stack:
        process = None
        if peer is not None:
            process = start_peer(peer, peer_python(peer, bench.words.get("peer-python")))
            stack.callback(process.close)
        bench.say("loading the model")
        own = open_own(depth, EXACT in peer.kv if peer else True, stack)
        theirs = open_peer(bench, depth, peer, process, own) if peer and process else {}
        rows = measured(bench, depth, own.sides, theirs)
    report(bench, depth, rows, peer)


def _asked_peer(bench: Bench) -> Peer | None:
    """Raises Refused for options that do not go together."""
    if bench.backend not in ("auto", "torch"):
        raise Refused("throughput measures the torch backend; compare it with vLLM by --against vllm")
    name = bench.words.get("against")
    if name is None and "peer-python" in bench.words:
        raise Refused("--peer-python names a peer's Python; say which peer by --against vllm or --against llamacpp")
    if name is None:
        return None
    if torch.cuda.is_available():
        raise Refused("peers are compared with on CPUs alone; hide the GPU by CUDA_VISIBLE_DEVICES=-1")
    return chosen_peer(name)


def open_own(depth: Depth, with_exact: bool, stack: contextlib.ExitStack) -> Own:
    """fp16 and q8 on one engine, exact fp32 on another one; `stack` closes both."""
    tokens = max(depth.turns) * depth.room
    knobs = {"max_running": max(depth.turns), "prefill_chunk": PROMPT}

    def rig(body: Body) -> Rig:
        opened = Rig(body, Knobs(kv_dtype=body.backend.kv_dtype))
        stack.callback(opened.close)
        opened.commands.set_knobs(knobs, AUTHOR)
        return opened

    body = quiet_body(arena_tokens=tokens)
    fast = rig(body)
    text = Text(PromptSource(loaded(body).tokenizer, seed=7).cut("throughput", TEXT_TOKENS))
    sides = [OwnSide("fp16", fast, KVDtype.FP16, text), OwnSide("q8", fast, KVDtype.Q8, text)]
    if with_exact:
        exact = rig(quiet_body(exact=True, kv_dtype=KVDtype.FP32, arena_tokens=2 * tokens))
        sides.append(OwnSide(EXACT, exact, KVDtype.FP32, text))
    return Own(sides, text, numba.get_num_threads())


def open_peer(bench: Bench, depth: Depth, peer: Peer, process: PeerProcess, own: Own) -> dict[str, Side]:
    """The peer's side for each label of ours."""
    bench.say(f"starting {peer.title}, which may take minutes the first time")
    kinds = list(dict.fromkeys(peer.kv.values()))
    model, turns = str(peer_model(peer)), max(depth.turns)
    version = process.ask("open", model=model, turns=turns, tokens=depth.room, kv=kinds, threads=own.threads)
    bench.note(f"{peer.title} {version}, {own.threads} threads each; {peer.weights}.")
    sides = {kv: PeerSide(f"{peer.title} {kv}", process, kv, own.text) for kv in kinds}
    return {label: sides[kv] for label, kv in peer.kv.items()}


def measured(bench: Bench, depth: Depth, own: Sequence[Side], peers: Mapping[str, Side]) -> list[Row]:
    """`peers`: by the label of ours."""
    rows: list[Row] = []
    sides = _in_turns(own, peers)
    busy: dict[str, float] = {}

    def add(work: str, turns: int, context: int, speeds: Speeds) -> None:
        for side in own:
            peer = peers.get(side.label)
            theirs = speeds[peer.label] if peer else ()
            rows.append(Row(work, side.label, turns, context, tuple(speeds[side.label]), tuple(theirs)))

    for context in depth.contexts:
        # The most turns first: a peer that keeps the KV of prompts meets those of the fewer turns again.
        for turns in sorted(depth.turns, reverse=True):
            bench.say(f"decode: {turns} x {context:,}")
            add(DECODE, turns, context, _decoded(sides, Case(turns, context), depth, busy))
    numbers = count(HELD_PROMPTS, max(depth.prefills))
    for prompts in depth.prefills:
        bench.say(f"prefill: {prompts} x {PROMPT:,}")
        add(PREFILL, prompts, PROMPT, _prefilled(sides, prompts, depth, numbers, busy))
    for label, cores in busy.items():
        if cores > IDLE_CORES:
            bench.note(f"{label} was not alone: in a round the process that was to be idle used {cores:.2f} cores.")
    return rows


def _in_turns(own: Sequence[Side], peers: Mapping[str, Side]) -> list[Side]:
    """Each of ours, and behind it the peer's that it is compared with; every side once."""
    order: list[Side] = []
    for side in own:
        order.append(side)
        if side.label in peers and peers[side.label] not in order:
            order.append(peers[side.label])
    return order


def _decoded(sides: Sequence[Side], case: Case, depth: Depth, busy: dict[str, float]) -> Speeds:
    speeds: dict[str, list[float]] = {side.label: [] for side in sides}
    for side in sides:
        side.hold(case)
    steps = depth.steps_of(case.turns)
    for _ in range(depth.rounds):
        for side in _rested(sides, busy):
            speeds[side.label].append(case.turns * steps / side.decode(steps))
    for side in sides:
        side.release()
    return speeds


def _prefilled(
    sides: Sequence[Side], prompts: int, depth: Depth, numbers: Iterator[int], busy: dict[str, float]
) -> Speeds:
    """No prompt twice: a peer may keep what it has computed."""
    speeds: dict[str, list[float]] = {side.label: [] for side in sides}
    for _ in range(depth.rounds):
        first = next(numbers)
        for side in _rested(sides, busy):
            speeds[side.label].append(prompts * PROMPT / side.prefill(prompts, PROMPT, first))
    return speeds


def _rested(sides: Sequence[Side], busy: dict[str, float]) -> Iterator[Side]:
    """Each side as soon as all have come to rest. `busy`: the most cores that other processes used while one was at
    work."""
    for side in sides:
        come_to_rest(sides)
        idle = Idle([other for other in sides if other.pid != side.pid])
        yield side
        busy[side.label] = max(busy.get(side.label, 0.0), idle.cores())


def report(bench: Bench, depth: Depth, rows: Sequence[Row], peer: Peer | None) -> None:
    labels = list(dict.fromkeys(row.kv for row in rows))
    ordered = sorted(rows, key=lambda row: (WORKS.index(row.work), labels.index(row.kv), row.context, row.turns))
    alone = {(row.work, row.kv, row.context): row.speed for row in ordered if row.turns == 1}
    aggregates = []
    for row in ordered:
        times = row.speed / alone[row.work, row.kv, row.context]
        bench.row(**_cells(row, times), **(_beside(row, peer) if peer else {}))
        if (row.work, row.turns) == (DECODE, 8):
            aggregates.append(f"{row.kv} at {row.context:,} {times:.2f}")
    bench.note(f"Eight turns together over one alone, decode: {', '.join(aggregates)}; the card's is {CARD_AGGREGATE}.")
    bench.note(
        f"Medians of {depth.rounds} rounds; a decode row's contexts grow by up to {depth.growth} tokens while it is "
        "measured."
    )
    if peer is not None:
        _targets(bench, ordered, peer)


def _cells(row: Row, times: float) -> dict[str, Cell]:
    return {
        "work": row.work,
        "kv": row.kv,
        "turns": row.turns,
        "tokens_each": row.context,
        "tok_per_s": round(row.speed, 1),
        "ms_per_step": round(1e3 * row.turns / row.speed, 2) if row.work == DECODE else None,
        "times_one_turn": round(times, 2),
    }


def _beside(row: Row, peer: Peer) -> dict[str, Cell]:
    return {
        "peer_kv": peer.kv[row.kv],
        "peer_tok_per_s": round(median(row.peers), 1),
        "ours_over_peer": round(median(row.ratios), 2),
        "in_all_rounds": f"{min(row.ratios):.2f}-{max(row.ratios):.2f}",
    }


def _targets(bench: Bench, rows: Sequence[Row], peer: Peer) -> None:
    """Of the rows that this depth has measured."""
    for wanted in peer.wanted:
        for row in rows:
            if (row.work, row.kv, row.turns, row.context) == (wanted.work, wanted.kv, wanted.turns, wanted.context):
                name = f"{row.work} {row.kv}, {row.turns} x {row.context:,}: ours over {peer.title}'s"
                bench.target(name, round(median(row.ratios), 3), ">=", wanted.ratio)
