"""Throughput: decoded and prefilled tokens per second through the engine's own loop, alone or beside a peer.

A row is one piece of work at one precision. Each round measures every side once, one after the other while the others
rest; a row tells the medians over the rounds and, beside a peer, the median of the rounds' ratios.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from statistics import median

from app.bench.against import EXACT, Peer, chosen_peer, peer_model, peer_python, start_peer
from app.bench.report import Bench, Cell
from app.bench.rig import AUTHOR, Rig, loaded, quiet_body
from app.bench.sides import WARM, Case, OwnSide, PeerSide, Side, Text, come_to_rest
from engine.errors import Refused
from engine.geometry import BLOCK_SIZE, KVDtype
from engine.knobs import Knobs
from engine.workload.text import PromptSource

PROMPT = 512
TEXT_TOKENS = 20_000
HELD_PROMPTS = 100
"""Prompts of prefills are numbered from here, those of held turns from 0."""
CARD_AGGREGATE = 5.6
"""Eight turns over one on the card that the product is named for."""

Speeds = Mapping[str, Sequence[float]]
"""Tokens per second of each round, by side."""


@dataclass(frozen=True, slots=True)
class Depth:
    """`prefills`: how many prompts of PROMPT tokens at once."""

    rounds: int
    steps: int
    turns: tuple[int, ...] = (1, 4, 8, 16)
    contexts: tuple[int, ...] = (128, 1024)
    prefills: tuple[int, ...] = (1, 8)

    @property
    def growth(self) -> int:
        """Tokens by which a context grows while its case is measured."""
        return self.rounds * (WARM + self.steps)

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


def run(bench: Bench) -> None:
    if bench.backend != "torch":
        raise Refused("throughput measures the torch backend; compare it with vLLM by --against vllm")
    against = bench.words.get("against")
    if against is None and "peer-python" in bench.words:
        raise Refused("--peer-python names a peer's Python; say which by --against vllm or --against llamacpp")
    peer = None if against is None else chosen_peer(against)
    depth = (ALONE if peer is None else BESIDE)[bench.depth]
    with _opened(bench, depth, peer) as (own, peers):
        rows = measured(bench, depth, own, peers)
    report(bench, depth, rows, peer)


@contextlib.contextmanager
def _opened(bench: Bench, depth: Depth, peer: Peer | None) -> Iterator[tuple[list[Side], dict[str, Side]]]:
    """Our sides, and by the label of each the peer's."""
    with contextlib.ExitStack() as stack:
        python = peer_python(peer, bench.words.get("peer-python")) if peer else ""
        process = start_peer(peer, python) if peer else None
        if process is not None:
            stack.callback(process.close)
        own, text, threads = _own_sides(bench, depth, peer, stack)
        if peer is None or process is None:
            yield own, {}
            return
        bench.say(f"starting {peer.title}, which may take minutes the first time")
        kinds = dict.fromkeys(peer.kv.values())
        version = process.ask(
            "open", model=str(peer_model(peer)), turns=max(depth.turns), tokens=depth.room, kv=list(kinds),
            threads=threads,
        )  # fmt: skip
        bench.note(f"{peer.title} {version}, {threads} threads each, as ours; {peer.weights}.")
        theirs = {kv: PeerSide(f"{peer.title} {kv}", process, kv, text) for kv in kinds}
        yield own, {label: theirs[kv] for label, kv in peer.kv.items()}


def _own_sides(
    bench: Bench, depth: Depth, peer: Peer | None, stack: contextlib.ExitStack
) -> tuple[list[Side], Text, int]:
    """fp16 and q8 on one engine, exact fp32 on another one."""
    import numba

    labels = list(peer.kv) if peer else ["fp16", "q8", EXACT]
    arena_tokens = max(depth.turns) * depth.room
    knobs = {"max_running": max(depth.turns), "prefill_chunk": PROMPT}
    bench.say("loading the model")
    fast_body = quiet_body(arena_tokens=arena_tokens)
    fast = Rig(fast_body)
    stack.callback(fast.close)
    fast.commands.set_knobs(knobs, AUTHOR)
    text = Text(PromptSource(loaded(fast_body).tokenizer, seed=7).cut("throughput", TEXT_TOKENS))
    sides: list[Side] = [OwnSide("fp16", fast, KVDtype.FP16, text), OwnSide("q8", fast, KVDtype.Q8, text)]
    if EXACT in labels:
        body = quiet_body(exact=True, kv_dtype=KVDtype.FP32, arena_tokens=2 * arena_tokens)
        exact = Rig(body, Knobs(kv_dtype=KVDtype.FP32))
        stack.callback(exact.close)
        exact.commands.set_knobs(knobs, AUTHOR)
        sides.append(OwnSide(EXACT, exact, KVDtype.FP32, text))
    return sides, text, numba.get_num_threads()


def measured(bench: Bench, depth: Depth, own: Sequence[Side], peers: Mapping[str, Side]) -> list[Row]:
    """`peers`: by the label of ours."""
    rows: list[Row] = []
    sides = _in_turns(own, peers)
    unrested: set[str] = set()

    def add(work: str, turns: int, context: int, speeds: Speeds) -> None:
        for side in own:
            peer = peers.get(side.label)
            theirs = speeds[peer.label] if peer else ()
            rows.append(Row(work, side.label, turns, context, tuple(speeds[side.label]), tuple(theirs)))

    for context in depth.contexts:
        # The most turns first: a peer that keeps the KV of prompts meets those of the fewer turns again.
        for turns in sorted(depth.turns, reverse=True):
            bench.say(f"decode: {turns} x {context:,}")
            add("decode", turns, context, _decoded(sides, Case(turns, context), depth, unrested))
    numbers = count(HELD_PROMPTS, max(depth.prefills))
    for prompts in depth.prefills:
        bench.say(f"prefill: {prompts} x {PROMPT:,}")
        add("prefill", prompts, PROMPT, _prefilled(sides, prompts, depth, numbers, unrested))
    if unrested:
        bench.note(f"{', '.join(sorted(unrested))} was measured while another process did not come to rest.")
    return rows


def _in_turns(own: Sequence[Side], peers: Mapping[str, Side]) -> list[Side]:
    """Each of ours, and behind it the peer's that it is compared with; every side once."""
    order: list[Side] = []
    for side in own:
        order.append(side)
        if side.label in peers and peers[side.label] not in order:
            order.append(peers[side.label])
    return order


def _decoded(sides: Sequence[Side], case: Case, depth: Depth, unrested: set[str]) -> Speeds:
    speeds: dict[str, list[float]] = {side.label: [] for side in sides}
    for side in sides:
        side.hold(case)
    for _ in range(depth.rounds):
        for side in _rested(sides, unrested):
            speeds[side.label].append(case.turns * depth.steps / side.decode(depth.steps))
    for side in sides:
        side.release()
    return speeds


def _prefilled(sides: Sequence[Side], prompts: int, depth: Depth, numbers: Iterator[int], unrested: set[str]) -> Speeds:
    """No prompt twice: a peer may keep what it has computed."""
    speeds: dict[str, list[float]] = {side.label: [] for side in sides}
    for _ in range(depth.rounds):
        first = next(numbers)
        for side in _rested(sides, unrested):
            speeds[side.label].append(prompts * PROMPT / side.prefill(prompts, PROMPT, first))
    return speeds


def _rested(sides: Sequence[Side], unrested: set[str]) -> Iterator[Side]:
    """Each side as soon as all have come to rest; one that is measured beside a busy one is named in `unrested`."""
    for side in sides:
        if not come_to_rest(sides):
            unrested.add(side.label)
        yield side


def report(bench: Bench, depth: Depth, rows: Sequence[Row], peer: Peer | None) -> None:
    order = {"decode": 0, "prefill": 1}
    labels = list(dict.fromkeys(row.kv for row in rows))
    ordered = sorted(rows, key=lambda row: (order[row.work], labels.index(row.kv), row.context, row.turns))
    alone = {(row.work, row.kv, row.context): row.speed for row in ordered if row.turns == 1}
    for row in ordered:
        one = alone.get((row.work, row.kv, row.context))
        cells = {
            "work": row.work,
            "kv": row.kv,
            "turns": row.turns,
            "tokens_each": row.context,
            "tok_per_s": round(row.speed, 1),
            "ms_per_step": round(1e3 * row.turns / row.speed, 2) if row.work == "decode" else None,
            "times_one_turn": round(row.speed / one, 2) if one else None,
        }
        bench.row(**cells, **(_beside(row, peer) if peer else {}))
    aggregates = [
        f"{row.kv} at {row.context:,} {row.speed / alone[row.work, row.kv, row.context]:.2f}"
        for row in ordered
        if row.work == "decode" and row.turns == 8
    ]
    bench.note(f"Eight turns together over one alone, decode: {', '.join(aggregates)}; the card's is {CARD_AGGREGATE}.")
    bench.note(
        f"Medians of {depth.rounds} rounds of {depth.steps} steps; a decode row's contexts grow by up to "
        f"{depth.growth} tokens meanwhile."
    )
    for wanted in peer.wanted if peer else ():
        for row in ordered:
            if (row.work, row.kv, row.turns, row.context) == (wanted.work, wanted.kv, wanted.turns, wanted.context):
                name = f"{row.work} {row.kv}, {row.turns} x {row.context:,}: ours over {peer.title}'s"
                bench.target(name, round(median(row.ratios), 3), ">=", wanted.ratio)


def _beside(row: Row, peer: Peer) -> dict[str, Cell]:
    if not row.peers:
        return {"peer_kv": None}
    return {
        "peer_kv": peer.kv[row.kv],
        "peer_tok_per_s": round(median(row.peers), 1),
        "ours_over_peer": round(median(row.ratios), 2),
        "in_all_rounds": f"{min(row.ratios):.2f}-{max(row.ratios):.2f}",
    }
