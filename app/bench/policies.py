"""Every tier policy on the same agents, seed and engine: what parking as one policy or another does to a whole swarm.

One engine serves all of them, one after the other: each run gets a governor, a ledger and counters of its own over the
same arena, empty again, so that no run pays for a start and all have the same pages. Beside a peer the same agents play
against it in its own process. Below the measured rows stands what the twin says of the card for the same agents.
"""

from collections.abc import Sequence

from app.bench.against import peer_model, peer_python, start_peer
from app.bench.policies_load import DEPTHS, Load, load_of, on_card
from app.bench.policies_peer import PEER, ROUNDS, SCHEDULINGS, Played, played, program
from app.bench.report import Bench, Cell
from app.bench.rig import loaded, quiet_body
from app.bench.twin import real
from engine.body import Body
from engine.cards.store import DEFAULT_CARD, load_card
from engine.errors import Refused
from engine.policies import policies
from engine.twin.setup import TwinSetup, TwinSummary
from engine.twin.simulate import modelled_costs, simulate
from engine.twin_body import TwinConfig, chosen_preset

BASE = "recompute-only"
"""What the others are held against: what an engine without a second tier does."""
AGENTS = 24
MIB = 1 << 20
HALF = 0.5
MEASURED, MODELLED = "measured", "modelled"


def run(bench: Bench) -> None:
    """A row per policy, measured; beside a peer a row per scheduling of it; a row per policy, modelled."""
    _check(bench)
    load = load_of(bench.words.get("workload"), round(bench.options.get("agents", AGENTS)), DEPTHS[bench.depth])
    bench.say(f"{load.words}; loading the model")
    body = quiet_body(arena_tokens=load.arena_tokens, backend=bench.backend)
    try:
        bench.say("warming up")
        real(load.warm_up(), body)
        measured = {name: _measured(bench, load, body, name) for name in policies()}
        theirs = _peers(bench, load, body)
        modelled = _modelled(bench, load, body)
    finally:
        body.backend.shutdown()
    report(bench, load, measured, theirs, modelled)


def _check(bench: Bench) -> None:
    """Raises Refused for options that do not go together, before anything is loaded."""
    against = bench.words.get("against")
    if against is None and "peer-python" in bench.words:
        raise Refused("--peer-python names a peer's Python; say which peer by --against vllm")
    if against is not None and against != PEER:
        raise Refused(f"policies are compared with {PEER} alone; give --against {PEER}")


def _measured(bench: Bench, load: Load, body: Body, policy: str) -> TwinSummary:
    bench.say(f"{policy}, measured")
    summary = real(load.setup(policy), body)
    body.backend.check_integrity()
    memory = body.backend.memory()
    if memory.blocks_free != memory.blocks_total or memory.host_used_bytes:
        raise Refused(f"{policy} left memory behind; its figures and those of the runs behind it do not count")
    return summary


def _peers(bench: Bench, load: Load, body: Body) -> dict[str, Played]:
    """By scheduling; a process for each, which ends before the next begins."""
    if "against" not in bench.words:
        return {}
    python = peer_python(ROUNDS, bench.words.get("peer-python"))
    model, agents, found = str(peer_model(ROUNDS)), program(load, loaded(body), body.costs), {}
    for scheduling in SCHEDULINGS:
        bench.say(f"{ROUNDS.title}, {scheduling}; its first start compiles for minutes")
        process = start_peer(ROUNDS, python)
        try:
            found[scheduling] = played(process, scheduling, model, load.arena_tokens, agents)
        finally:
            process.close()
    return found


def _modelled(bench: Bench, load: Load, body: Body) -> dict[str, TwinSummary]:
    """The same agents on the card, in its proportions."""
    card = load_card(DEFAULT_CARD)
    workload = on_card(load, body.costs, modelled_costs(card, TwinConfig()), card.mean_context.amount)
    found = {}
    for policy in policies():
        bench.say(f"{policy}, modelled on {card.name}")
        found[policy] = simulate(
            TwinSetup(card, workload, knobs=(("policy", policy),), agents=load.agents, seed=load.seed)
        )
    return found


def best_of(runs: dict[str, TwinSummary]) -> str:
    """The policy beside BASE whose worse ratio to BASE's, of makespan and of foreground TTFT p95, is least."""
    return min((name for name in runs if name != BASE), key=lambda name: max(_ratios(runs[name], runs[BASE])))


def report(
    bench: Bench,
    load: Load,
    measured: dict[str, TwinSummary],
    theirs: dict[str, Played],
    modelled: dict[str, TwinSummary],
) -> None:
    for name, summary in measured.items():
        bench.row(figures=MEASURED, policy=name, **_cells(summary, measured[BASE]))
    for scheduling, one in theirs.items():
        bench.row(figures=MEASURED, policy=f"{one.title} {scheduling}", **one.cells(measured[BASE].makespan_s))
    card = load_card(DEFAULT_CARD)
    for name, summary in modelled.items():
        bench.row(figures=MODELLED, policy=name, **_cells(summary, modelled[BASE]))
    best, best_modelled = best_of(measured), best_of(modelled)
    _against_base(bench, best, measured)
    if theirs:
        _against_peers(bench, best, measured, theirs)
    said, base = _ratios(modelled[best_modelled], modelled[BASE]), f"{BASE}'s"
    bench.note(
        f"{load.words}. A run is timed from the first submit to the last token, behind a warm-up; all policies on one "
        f"engine, each with an empty arena of {load.arena_tokens:,} tokens and a host pool of six times that. TTFT is "
        f"of the foreground, base {BASE}; prefilled are all prompt tokens that were computed, recomputed those of them "
        "that had been before; slots are those busy on the mean."
    )
    bench.note(
        f"Modelled, not measured: on {card.name}, model shape {chosen_preset(card, None).name}, the twin has "
        f"{best_modelled} at {said[0]:.2f} of {base} makespan and {said[1]:.2f} of its foreground TTFT p95, for the "
        "same agents with turns as long as that card is made for."
    )


def _against_base(bench: Bench, best: str, measured: dict[str, TwinSummary]) -> None:
    for figure, ratio in zip(("makespan", "foreground TTFT p95"), _ratios(measured[best], measured[BASE]), strict=True):
        bench.target(f"{figure}: {best} over {BASE}", round(ratio, 3), "<=", HALF)


def _against_peers(bench: Bench, best: str, measured: dict[str, TwinSummary], theirs: dict[str, Played]) -> None:
    """The peer's best in each figure apart."""
    ours, title = measured[best], next(iter(theirs.values())).title
    makespan = min(one.makespan_s for one in theirs.values())
    ttft = min(one.ttft(0.95) for one in theirs.values())
    bench.target(f"makespan: {best} over {title}'s best", round(_over(ours.makespan_s, makespan), 3), "<=", HALF)
    bench.target(
        f"foreground TTFT p95: {best} over {title}'s best",
        round(_over(ours.ttft_foreground_p95_s, ttft), 3),
        "<=",
        HALF,
    )
    least = min(theirs.values(), key=lambda one: one.makespan_s)
    work = prefilled(ours)
    bench.note(
        f"What kernels do not change: {best} computed {work:,} prompt tokens, {title} {least.prefilled:,} "
        f"({work / least.prefilled:.2f} of them) for the same {ours.generated_tokens:,} generated tokens; the rest of "
        f"the difference is speed. TTFT counts from the boundary at which a prompt or a tool's result was taken. "
        f"{least.about}"
    )


def prefilled(summary: TwinSummary) -> int:
    """Prompt tokens that were computed, first or again."""
    return summary.prompt_tokens + summary.recomputed_tokens


def _cells(summary: TwinSummary, base: TwinSummary) -> dict[str, Cell]:
    return {
        "makespan_s": _rounded(summary.makespan_s),
        "of_base": round(_over(summary.makespan_s, base.makespan_s), 3),
        "TTFT_p50_s": _rounded(summary.ttft_foreground_p50_s, 3),
        "TTFT_p95_s": _rounded(summary.ttft_foreground_p95_s, 3),
        "TTFT_p99_s": _rounded(summary.ttft_foreground_p99_s, 3),
        "ITL_p99_s": _rounded(summary.itl_p99_s, 3),
        "recomputed": summary.recomputed_tokens,
        "prefilled": prefilled(summary),
        "moved_MiB": round(summary.swapped_bytes / MIB, 1),
        "preempted": summary.preemptions,
        "slots": _rounded(summary.busy_slots),
        "b": _rounded(summary.blocked_fraction),
    }


def _ratios(summary: TwinSummary, base: TwinSummary) -> Sequence[float]:
    """Of makespan and of foreground TTFT p95; NaN where one of the two was not measured."""
    return (
        _over(summary.makespan_s, base.makespan_s),
        _over(summary.ttft_foreground_p95_s, base.ttft_foreground_p95_s),
    )


def _over(one: float | None, other: float | None) -> float:
    return one / other if one is not None and other else float("nan")


def _rounded(value: float | None, digits: int = 2) -> float | None:
    return None if value is None else round(value, digits)
