"""One step: what it costs outside the kernels, what `decide()` costs among 500 turns, what a busy process takes from
it, and what a second start compiles.

The step is the host's own, with snapshots and recorder: eight turns decode, alone and beside 192 others that do not
run."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from app.bench.report import Bench
from app.bench.step_busy import Burners
from app.bench.step_crowd import CASES, decide_seconds
from app.bench.step_deck import RUNNING, Deck
from app.bench.step_parts import OUTSIDE, Iteration
from app.bench.step_start import Start, start_over
from engine.kernels.threads import physical_cores
from engine.policies import policies
from engine.stats import quantile
from engine.turn import Sampling

PARKED, DECIDED = 192, 500
MOST_OUTSIDE_MS, MOST_DECIDE_MS = 3.0, 1.0
TOLERANCE = 1.1
WARM_STEPS = 10
SAMPLED = Sampling(temperature=0.8, top_p=0.95, seed=7)


@dataclass(frozen=True, slots=True)
class Plan:
    """`steps`: of each situation; `views`, `repeats`: of `decide`; `rounds` of `span` steps beside busy processes;
    `starts`: whether two are made."""

    steps: int
    views: int
    repeats: int
    rounds: int
    span: int
    starts: bool


PLANS = {
    "quick": Plan(100, 10, 7, 2, 25, False),
    "default": Plan(400, 30, 15, 6, 40, True),
    "full": Plan(800, 100, 25, 10, 40, True),
}


def run(bench: Bench) -> None:
    """Rows by `part`; targets on the step, on `decide`, beside one busy process and on the second start."""
    plan = PLANS[bench.depth]
    cores = physical_cores()
    with Deck(bench.backend) as deck:
        bench.say(f"{RUNNING} turns, greedy and sampled")
        turns = deck.run_eight()
        deck.steps(WARM_STEPS)
        report_steps(bench, f"{RUNNING} turns", deck.steps(plan.steps))
        bench.say("beside busy processes")
        report_busy(bench, cores, busy_steps(deck, cores, plan))
        deck.cancel(turns)
        turns = deck.run_eight(SAMPLED)
        deck.steps(WARM_STEPS)
        report_steps(bench, f"{RUNNING} turns, drawn", deck.steps(plan.steps))
        deck.cancel(turns)
        bench.say(f"{RUNNING} turns beside {PARKED} that do not run")
        deck.run_eight()
        deck.park(PARKED)
        deck.steps(WARM_STEPS)
        report_steps(bench, f"{RUNNING} of {RUNNING + PARKED} turns", deck.steps(plan.steps))
    bench.say(f"decide() among {DECIDED} turns")
    report_decide(bench, plan)
    if plan.starts:
        bench.say("two starts over an empty folder of kernels")
        with tempfile.TemporaryDirectory(prefix="parkdeck-bench-") as folder:
            report_starts(bench, [start_over(Path(folder), bench.backend) for _ in range(2)])
    else:
        bench.note("Second start: left out at --quick, as the first compiles for half a minute.")


def report_steps(bench: Bench, situation: str, steps: Sequence[Iteration]) -> None:
    """A row for the whole, one for each part, and the targets on all that is not kernels."""
    outside = [step.outside for step in steps]
    bench.row(of=situation, part="step", **_cells([step.wall for step in steps]))
    bench.row(of=situation, part="outside the kernels", **_cells(outside))
    for part in OUTSIDE:
        bench.row(of=situation, part=part, **_cells([step.parts.get(part, 0.0) for step in steps]))
    for name, q in (("median", 0.5), ("p95", 0.95)):
        bench.target(f"{situation}: {name} outside kernels (ms)", _ms(quantile(outside, q)), "<=", MOST_OUTSIDE_MS)


def busy_steps(deck: Deck, cores: int, plan: Plan) -> dict[int, list[float]]:
    """Median seconds of a step in each span, by the number of busy processes; in alternation."""
    counts = sorted({0, 1, cores})
    found: dict[int, list[float]] = {count: [] for count in counts}
    with Burners(cores) as burners:
        for _ in range(plan.rounds):
            for count in counts:
                burners.run(count)
                deck.steps(WARM_STEPS // 2)
                found[count].append(quantile([step.wall for step in deck.steps(plan.span)], 0.5) or 0.0)
        burners.run(0)
    return found


def lost_core(cores: int) -> float:
    """How much longer a step lasts that has one core fewer; on a single core it shares that one."""
    return cores / (cores - 1) if cores > 1 else 2.0


def report_busy(bench: Bench, cores: int, found: dict[int, list[float]]) -> None:
    for count, seconds in found.items():
        ratios = [busy / alone for busy, alone in zip(seconds, found[0], strict=True)]
        times = quantile(ratios, 0.5) or 0.0
        name = "busy processes" if count != 1 else "busy process"
        bench.row(of=f"beside {count} {name}", part="step", **_cells(seconds), times_alone=round(times, 2))
        if count == 1:
            most = round(lost_core(cores) * TOLERANCE, 2)
            bench.target(f"step beside 1 busy process / alone, {cores} cores", round(times, 3), "<=", most)
    bench.note(
        f"Busy processes: each spins on any core. With {cores} cores {cores} threads share each pass of the kernels, "
        "and the next one begins when all are done. A busy process takes at most one core, so the step may last "
        f"{lost_core(cores):.2f} times as long, and {TOLERANCE - 1:.0%} more is allowed for switching; a scheduler "
        f"that spreads {cores} + 1 threads evenly gives {(cores + 1) / cores:.2f}. With {cores} of them every thread "
        "has half a core (2.00), and a pass waits for a thread that is off in the middle of its unit: told, without a "
        "target."
    )


def report_decide(bench: Bench, plan: Plan) -> None:
    """The target is on the worst pair of policy and case."""
    worst = 0.0
    for policy in policies():
        for case in CASES:
            seconds = decide_seconds(DECIDED, case, policy, plan.views, plan.repeats)
            worst = max(worst, quantile(seconds, 0.5) or 0.0)
            bench.row(of=f"decide(), {policy}", part=case.name, **_cells(seconds))
    bench.target(f"decide() among {DECIDED} turns, worst median (ms)", _ms(worst), "<=", MOST_DECIDE_MS)


def report_starts(bench: Bench, starts: Sequence[Start]) -> None:
    for name, start in zip(("first", "second"), starts, strict=True):
        bench.row(
            of=f"{name} start", part="kernels", compiled=start.compiled, files=start.files, s=round(start.seconds, 1)
        )
    bench.target("second start: functions compiled", starts[-1].compiled, "==", 0)
    bench.target("second start: files of kernels written", starts[-1].files, "==", 0)


def _cells(seconds: Sequence[float]) -> dict[str, float | int | None]:
    return {
        "count": len(seconds),
        "median_ms": _ms(quantile(seconds, 0.5)),
        "p95_ms": _ms(quantile(seconds, 0.95)),
        "mean_ms": _ms(sum(seconds) / len(seconds)) if seconds else None,
    }


def _ms(seconds: float | None) -> float:
    return round((seconds or 0.0) * 1e3, 3)
