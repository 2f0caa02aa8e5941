"""The twin against the engine: calibrate this machine, predict a workload on its card, then run it for real.

What is calibrated are single steps, chunks and copies; what is predicted are agents with tools, priorities and too
little memory. Both runs have the same driver, governor, seed and agents, whose pace both take from the costs that the
engine measured at its start; the clock alone differs. Nothing that the real run shows goes back into the prediction.
"""

import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TypeVar

from app.bench.report import Bench
from app.bench.rig import loaded, quiet_body
from engine.body import Body
from engine.calibration.calibrator import Progress, calibrate
from engine.calibration.card import Machine, card_of
from engine.calibration.plan import DEFAULT, QUICK
from engine.calibration.probes import Probe
from engine.cards.profile import CardProfile
from engine.cards.scale import standin_arena_tokens
from engine.clock import EngineClock
from engine.knobs import Knobs
from engine.snapshot import Snapshot
from engine.telemetry.device import device_words
from engine.turn import Priority
from engine.twin.playing import Playing
from engine.twin.setup import TwinSetup, TwinSummary
from engine.twin.simulate import simulate
from engine.workload.generate import Recipe, WorkloadRecipe, generate
from engine.workload.script import Workload
from engine.workload.text import library_files

T = TypeVar("T")

SLOTS, AVERAGE = 8, 320
TURNS = {"quick": 2, "default": 4, "full": 8}
WITHIN = 0.2
COUNTS_WITHIN = 5
MIB = 1 << 20


def workload_of(turns: int) -> Workload:
    """Twice as many agents as slots; an average turn as long as the arena is made for, so that it overflows."""
    shape = {"turns": turns, "appended": 24, "output": 28, "think_s": 0.4}
    coders = Recipe("coder", 13, Priority.BACKGROUND, prompt=260, calls=(1, 4), **shape)  # type: ignore[arg-type]
    people = Recipe("person", 3, Priority.FOREGROUND, prompt=160, calls=(0, 1), **shape)  # type: ignore[arg-type]
    recipe = WorkloadRecipe("bench", "Agents of the twin's bench", 77, 16, 3.0, (coders, people))
    return generate(recipe, scale=0.2)


@dataclass(frozen=True, slots=True)
class Measured:
    """Asks the body itself, as nobody else does."""

    body: Body

    def probe(self, probe: Probe[T], session: str) -> "Future[T]":
        future: Future[T] = Future()
        future.set_result(probe.run(self.body.backend))
        return future


def run(bench: Bench) -> None:
    """One row per figure, predicted and measured; targets on makespan, TTFT p50 and the counts."""
    body = quiet_body(arena_tokens=standin_arena_tokens(SLOTS, AVERAGE), backend=bench.backend)
    try:
        card = calibrated(body, bench)
        setup = TwinSetup(
            card=card,
            workload=workload_of(TURNS[bench.depth]),
            knobs=(("long_turn_tokens", Knobs().long_turn_tokens),),
            seed=1,
            costs=body.costs,
        )
        predicted = simulate(setup)
        bench.say(f"predicted {predicted.virtual_s:.1f} s in {predicted.wall_s:.1f} s; now the engine itself")
        measured = real(setup, body)
    finally:
        body.backend.shutdown()
    report(bench, card, predicted, measured)


def calibrated(body: Body, bench: Bench) -> CardProfile:
    """The card of this machine, kept nowhere."""
    model = loaded(body)
    depth = QUICK if bench.quick else DEFAULT
    last = [""]

    def say(progress: Progress) -> None:
        kind = progress.note.split(" ")[0]
        if kind != last[0]:
            last[0] = kind
            bench.say(f"{progress.fraction:4.0%} {progress.note}")

    measured = calibrate(Measured(body), "bench", depth, SLOTS, say)
    device, memory = device_words(on_gpu=measured.facts.memory.device_total is not None)
    return card_of(measured, Machine(device, memory, model.name, time.time()), SLOTS, Knobs().prefill_chunk)


def real(setup: TwinSetup, body: Body) -> TwinSummary:
    """The same on the engine, whose clock is the machine's."""
    clock = EngineClock()
    peak = [0]

    def held(snapshot: Snapshot) -> None:
        if (bands := snapshot.bands) is not None:
            peak[0] = max(peak[0], bands.running_kv + bands.paused_kv + bands.blocked_kv)

    # One small file, as the twin has: tokenizing others would be time of the agents' that falls on the engine here.
    files = library_files()[:1] or None
    playing = Playing(setup, body, clock, "measured", published=held, files=files)
    playing.run(lambda at: time.sleep(max(at - clock.now(), 1e-4)))
    summary = playing.summary("measured", 0, 0.0)
    return playing.summary("measured", peak[0], summary.virtual_s)


def report(bench: Bench, card: CardProfile, predicted: TwinSummary, measured: TwinSummary) -> None:
    def row(figure: str, of: Callable[[TwinSummary], float | None], digits: int = 3) -> tuple[float, float]:
        said, was = of(predicted) or 0.0, of(measured) or 0.0
        off = f"{said / was - 1:+.1%}" if was else "n/a"
        bench.row(figure=figure, predicted=round(said, digits), measured=round(was, digits), off=off)
        return said, was

    makespan = row("makespan, s", lambda s: s.makespan_s)
    ttft = row("TTFT p50, s", lambda s: s.ttft_p50_s)
    row("TTFT p95, s", lambda s: s.ttft_p95_s)
    row("TTFT p50 foreground, s", lambda s: s.ttft_foreground_p50_s)
    row("ITL p50, s", lambda s: s.itl_p50_s, 4)
    row("ITL p99, s", lambda s: s.itl_p99_s, 4)
    preempted = row("preemptions", lambda s: s.preemptions)
    moved = row("swaps out", lambda s: s.swaps_out)
    swapped = row("swapped, MiB", lambda s: s.swapped_bytes / MIB, 1)
    row("recomputed tokens", lambda s: s.recomputed_tokens)
    row("steps", lambda s: s.steps)
    row("generated tokens", lambda s: s.generated_tokens)
    row("peak KV, MiB", lambda s: s.peak_kv_bytes / MIB, 1)
    for name, (said, was) in (("makespan", makespan), ("TTFT p50", ttft)):
        bench.target(f"{name}: off by, of the measured", abs(said / was - 1) if was else float("nan"), "<=", WITHIN)
    turn_mib = swapped[1] / (2 * moved[1]) if moved[1] else 0.0
    for name, (said, was), each in (
        ("preemptions", preempted, 1.0),
        ("swaps out", moved, 1.0),
        ("swapped MiB", swapped, turn_mib),
    ):
        bench.target(f"{name}: off by", abs(said - was), "<=", max(WITHIN * was, COUNTS_WITHIN * each))
    calibration = card.calibration
    fit = f"{calibration.decode_error:.1%}" if calibration else "n/a"
    bench.note(
        f"Predicted on the card that the calibration just made (decode fit off by {fit} rms), in "
        f"{predicted.wall_s:.1f} s; the engine took {measured.virtual_s:.1f} s. {measured.turns} turns of 16 agents, "
        f"{SLOTS} slots, an arena of ten turns of {AVERAGE} tokens. Counts: within {WITHIN:.0%} or {COUNTS_WITHIN}; "
        f"bytes: or {COUNTS_WITHIN} moves."
    )
