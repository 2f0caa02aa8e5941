"""`parkdeck twin`: agents on a modelled card, as fast as it goes; a summary, and the CSV files of a session."""

import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import typer

from app.columns import print_columns
from app.progress import Said
from app.sizes import size_of
from engine.cards.store import load_card
from engine.control import Sink
from engine.errors import BadKnob, Refused
from engine.knob_words import parsed
from engine.knobs import LABELS, Knobs
from engine.record.csv_export import export_session
from engine.record.recorder import Recorder
from engine.twin.setup import TwinSetup, TwinSummary
from engine.twin.simulate import TwinProgress, simulate
from engine.twin_body import TwinConfig
from engine.words import counted, percent
from engine.workload.readers import load_workload, nearest
from panels.units import seconds, size

FLUSH_FROM = 20_000
"""Records that may wait; the recorder keeps five times as many."""


def setup_of(
    card: str,
    preset: str | None,
    workload: str | None,
    agents: int | None,
    hours: float | None,
    slots: int | None,
    seed: int,
    speed: float,
    overlap: bool,
    given: Sequence[str],
) -> TwinSetup:
    """What the options ask for; without a workload, the one whose turns are as long as the card's. Raises Refused for
    one that cannot be."""
    knobs = dict(map(knob_of, given))
    if slots is not None:
        if "max_running" in knobs:
            raise Refused("--slots and --set max_running say the same twice; give one of them")
        knobs["max_running"] = slots
    profile = load_card(card)
    return TwinSetup(
        card=profile,
        workload=load_workload(workload or nearest(profile.mean_context.amount)),
        twin=TwinConfig(preset=preset, overlap=overlap),
        knobs=tuple(knobs.items()),
        agents=agents,
        hours=hours,
        speed=speed,
        seed=seed,
        began_utc=round(time.time(), 3),
    )


def knob_of(text: str) -> tuple[str, object]:
    """'max_running=4' as name and value; the host pool takes a size, such as 24GB. Raises BadKnob."""
    name, equals, value = text.partition("=")
    if not equals or not name or not value:
        raise BadKnob(f"--set {text!r} names no knob and value; give one such as --set max_running=4")
    if name not in LABELS and "." not in name:
        Knobs().changed({name: value})
    if name == "host_pool_bytes":
        return name, size_of(value)
    return name, parsed(name, value)


def run_twin(setup: TwinSetup, out: Path | None, *, as_json: bool) -> None:
    """Run it and print what it came to; with `out` its CSV files are written there."""
    with tempfile.TemporaryDirectory(prefix="parkdeck-twin-") as folder, Said() as said:
        recorder = Recorder(Path(folder) / "sessions.sqlite") if out is not None else None

        def tell(progress: TwinProgress) -> None:
            said(progress.fraction, f"{seconds(progress.virtual_s)} modelled")
            if recorder is not None and recorder.behind > FLUSH_FROM:
                recorder.flush()

        summary = simulate(setup, tell, _sinks(recorder))
        written = [] if recorder is None or out is None else _export(recorder, summary.session, out)
    if as_json:
        typer.echo(json.dumps(asdict(summary) | {"files": list(map(str, written))}, allow_nan=False))
        return
    _print(setup, summary)
    for path in written:
        typer.echo(str(path))


def _sinks(recorder: Recorder | None) -> tuple[Sink, ...]:
    return () if recorder is None else (recorder,)


def _export(recorder: Recorder, session: str, out: Path) -> tuple[Path, ...]:
    """Raises Refused where a record was lost."""
    recorder.close()
    if recorder.loss is not None:
        raise Refused(recorder.loss)
    return export_session(session, out, recorder.path)


def _print(setup: TwinSetup, summary: TwinSummary) -> None:
    s, workload = summary, setup.workload
    typer.echo(f"{s.title}\nsession {s.session}, modelled")
    typer.echo(f"workload {workload.name}, {counted(setup.agent_count, 'agent')}: {workload.title}\n")
    ended = "the agents went on" if s.makespan_s is None else seconds(s.makespan_s)
    blocked = "n/a" if s.blocked_fraction is None else percent(s.blocked_fraction)
    rows = [
        ("modelled time", seconds(s.virtual_s), f"{s.virtual_s / s.wall_s:,.0f}x real time, {seconds(s.wall_s)}"),
        ("makespan", ended, ""),
        ("turns", f"{s.turns:,}", f"{s.finished:,} done, {s.failed:,} failed, {s.refused:,} refused"),
        ("TTFT p50, p95", f"{seconds(s.ttft_p50_s)}, {seconds(s.ttft_p95_s)}", "from asking to the first token"),
        ("TTFT foreground", f"{seconds(s.ttft_foreground_p50_s)}, {seconds(s.ttft_foreground_p95_s)}", "p50, p95"),
        ("ITL p50, p99", f"{seconds(s.itl_p50_s)}, {seconds(s.itl_p99_s)}", "between two tokens of a turn that runs"),
        ("tokens", f"{s.generated_tokens:,}", f"{s.tokens_per_s:,.1f} tok/s; {s.prompt_tokens:,} of prompts"),
        ("preemptions", f"{s.preemptions:,}", ""),
        ("swaps", f"{s.swaps_out:,} out, {s.swaps_in:,} in", f"{size(s.swapped_bytes)} both ways"),
        ("dropped", f"{s.drops:,}", f"{s.recomputed_tokens:,} tokens computed again"),
        ("stalls", f"{s.stalls:,}", ""),
        ("peak KV", size(s.peak_kv_bytes), "held in the arena"),
        ("blocked", blocked, "of live agents' time, on tools"),
        ("steps", f"{s.steps:,}", f"{s.leapt:,} of them leapt over"),
    ]
    print_columns("figure", "modelled", "", rows=rows)
