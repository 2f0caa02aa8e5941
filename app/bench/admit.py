"""Admission: how long eight decoding turns stand still while a ninth, long prompt is prefilled.

The same prompt is admitted with chunked prefill and in one piece, in alternation on one engine; one chunk's time is
that of the same prompt's chunks alone on the idle engine.
"""

import time
from collections.abc import Sequence

from app.bench.report import Bench
from app.bench.rig import AUTHOR, Rig, loaded, quiet_body
from engine.stats import quantile
from engine.turn import Phase, TurnId
from engine.workload.text import PromptSource

DECODING = 8
CONTEXT = 256
CHUNK = 256
ONE_PIECE = 16_384
ARENA_TOKENS = 16_384


def run(bench: Bench) -> None:
    """One row per way of admitting; the target is on the chunked one."""
    prompt_tokens, rounds = {"quick": (1024, 1), "default": (2048, 3), "full": (4096, 5)}[bench.depth]
    body = quiet_body(arena_tokens=ARENA_TOKENS, backend=bench.backend)
    source = PromptSource(loaded(body).tokenizer, seed=5)
    rig = Rig(body)
    rig.commands.set_knobs({"max_running": DECODING + 1}, AUTHOR)
    chunks: list[float] = []
    gaps: dict[int, list[float]] = {CHUNK: [], ONE_PIECE: []}
    for number in range(rounds):
        prompt = source.cut(f"ninth {number}", prompt_tokens)
        chunks += chunk_seconds(rig, prompt)
        mates = [rig.submit(source.cut(f"mate {i}", CONTEXT), 4_000, agent=f"mate {i}") for i in range(DECODING)]
        rig.run_until(lambda mates=mates: all(len(rig.generated[t]) >= 2 for t in mates))  # type: ignore[misc]
        for chunk in (CHUNK, ONE_PIECE):
            gaps[chunk].append(longest_gap(rig, prompt, chunk))
        for turn in mates:
            rig.commands.cancel(turn, AUTHOR)
    one_chunk = quantile(chunks, 0.5) or 0.0
    bench.row(admission=f"one chunk of {CHUNK} alone", prompt_tokens=CHUNK, longest_gap_ms=round(one_chunk * 1e3, 1))
    for chunk, name in ((CHUNK, f"chunks of {CHUNK}"), (ONE_PIECE, "in one piece")):
        bench.row(
            admission=name,
            prompt_tokens=prompt_tokens,
            rounds=rounds,
            longest_gap_ms=round(max(gaps[chunk]) * 1e3, 1),
            median_of_longest_ms=round((quantile(gaps[chunk], 0.5) or 0.0) * 1e3, 1),
            times_one_chunk=round(max(gaps[chunk]) / one_chunk, 2),
        )
    bench.target("longest gap with chunking / one chunk's time", round(max(gaps[CHUNK]) / one_chunk, 2), "<=", 3.0)
    rig.close()


def chunk_seconds(rig: Rig, prompt: Sequence[int]) -> list[float]:
    """Seconds of each chunk of the prompt, alone on the engine."""
    rig.commands.set_knobs({"prefill_chunk": CHUNK}, AUTHOR)
    turn = rig.submit(prompt, 1, agent="alone")
    seen = []
    while not rig.phase(turn).ended:
        started = time.perf_counter()
        rig.loop.tick()
        seen.append(time.perf_counter() - started)
    return seen


def longest_gap(rig: Rig, prompt: Sequence[int], chunk: int) -> float:
    """Longest time between two tokens of the decoding turns while the prompt is admitted; all of them step together,
    so one boundary's time is the gap of each."""
    rig.commands.set_knobs({"prefill_chunk": chunk}, AUTHOR)
    ninth: TurnId = rig.submit(prompt, 2, agent="ninth")
    longest, last = 0.0, time.perf_counter()
    while not rig.phase(ninth).ended:
        rig.loop.tick()
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
        assert rig.phase(ninth) is not Phase.FAILED
    return longest
