"""`parkdeck`: the page, the engine in a terminal, models, exports, benches. Heavy imports happen inside a command."""

import os
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from app.columns import print_columns
from app.interrupt import ended_as_by_ctrl_c
from app.options import (
    INTERRUPTED,
    BackendOption,
    CardOption,
    JsonOption,
    ModelArgument,
    ModelOption,
    PresetOption,
    WeightsOption,
    told,
    with_engine_options,
)
from app.streams import open_closed_streams
from app.usage import OneSentence

MAKE = typer.Typer(
    cls=OneSentence,
    name="parkdeck",
    help="Shows and steers where every turn's KV cache is parked.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@MAKE.command()
@told
@with_engine_options
def up(
    chosen: dict[str, str],
    port: Annotated[int | None, typer.Option("--port", help="Port of the page; the next free one if taken.")] = None,
    engine: Annotated[bool, typer.Option("--engine/--no-engine", help="Start the engine with the page.")] = True,
) -> None:
    """Start the page, the engine and the swarm: the same as `streamlit run app`."""
    # Until the server runs nothing has to be ended, and Streamlit's command line would print 'Aborted!'.
    signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    from app.ports import free_port
    from app.settings import config_from

    os.environ.update(chosen | ({} if engine else {"PARKDECK_ENGINE": "off"}))
    config_from()
    command = ["run", str(Path(__file__).resolve().parent)]
    if port is not None:
        command += ["--server.port", str(free_port(port))]
    from streamlit.web.cli import main as streamlit

    streamlit(command, prog_name="streamlit")


@MAKE.command()
@told
@with_engine_options
def swarm(
    chosen: dict[str, str],
    seconds: Annotated[float | None, typer.Option("--seconds", help="End by itself after so long a run.")] = None,
) -> None:
    """Run engine and swarm in the terminal, with a live table; Ctrl-C ends it."""
    from engine.kernels.threads import configure_threads

    configure_threads()
    from app.settings import config_from
    from app.terminal import run_swarm

    run_swarm(config_from({**os.environ, **chosen}), seconds)


@MAKE.command()
@told
def models() -> None:
    """List the models in the cache."""
    from engine.models.resolve import list_models
    from panels.units import size

    rows = [(kept.name, size(kept.nbytes), kept.kind, kept.source, str(kept.path)) for kept in list_models()]
    if not rows:
        typer.echo("No model is in the cache yet; the default one is fetched on the first start.")
        return
    print_columns("model", "size", "kind", "from", "path", rows=rows)


@MAKE.command()
@told
def calibrate(
    model: ModelOption = None,
    backend: BackendOption = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer points, within 40 s on 2 cores.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Measure copies, prefill and decode on this machine and write its card, this-machine."""
    from engine.kernels.threads import configure_threads

    configure_threads()
    from app.calibrate import run_calibrate

    run_calibrate(model, backend, quick=quick, as_json=as_json)


@MAKE.command()
@told
def plan(
    model: ModelArgument = None,
    card: CardOption = "rx9070xt",
    preset: PresetOption = None,
    weights: WeightsOption = None,
    slots: Annotated[int | None, typer.Option("--slots", help="Turns that decode together.")] = None,
    context: Annotated[int | None, typer.Option("--context", help="Tokens of an average turn.")] = None,
    long: Annotated[int | None, typer.Option("--long", help="Tokens of one long turn.")] = None,
    reserve: Annotated[int | None, typer.Option("--reserve", help="Tokens that a slot would reserve up front.")] = None,
    as_json: JsonOption = False,
) -> None:
    """What fits under a card's ceiling, on paper: running, paused and long turns at fp16 and q8."""
    from app.paper import chosen, run_plan

    load = {"slots": slots, "mean_context": context, "long_context": long, "max_context": reserve}
    run_plan(chosen(model, card, preset, weights), load, as_json=as_json)


@MAKE.command()
@told
def cards() -> None:
    """List the card profiles: those that ship and your own."""
    from app.paper import print_cards

    print_cards()


@MAKE.command()
@told
def prices(
    model: ModelArgument = None,
    card: CardOption = "rx9070xt",
    preset: PresetOption = None,
    weights: WeightsOption = None,
    context: Annotated[list[int] | None, typer.Option("--context", help="Tokens of a row; may be repeated.")] = None,
    kv_dtype: Annotated[str, typer.Option("--kv-dtype", help="fp16 or q8.")] = "fp16",
    link: Annotated[float | None, typer.Option("--link", help="GB/s to the host and back.")] = None,
    prefill: Annotated[float | None, typer.Option("--prefill", help="Prompt tokens computed per second.")] = None,
    host: Annotated[float | None, typer.Option("--host", help="GB of pinned host memory.")] = None,
    exact: Annotated[bool, typer.Option("--exact", help="Preset swap: 147,456 bytes a token, not 147,000.")] = False,
    as_json: JsonOption = False,
) -> None:
    """What parking costs on a card, on paper: swap out and back against recompute."""
    from app.paper import chosen, run_prices

    run_prices(
        chosen(model, card, preset, weights), contexts=context or (), store=kv_dtype, link=link, prefill=prefill,
        host=host, exact=exact, as_json=as_json,
    )  # fmt: skip


@MAKE.command()
@told
def twin(
    card: CardOption = "rx9070xt",
    preset: PresetOption = None,
    workload: Annotated[
        str | None, typer.Option("--workload", help="A shipped one's name, or a .jsonl file; else as the card's turns.")
    ] = None,
    agents: Annotated[int | None, typer.Option("--agents", help="How many agents take turns.")] = None,
    hours: Annotated[
        float | None, typer.Option("--hours", help="Modelled; without it each takes its turns once.")
    ] = None,
    slots: Annotated[int | None, typer.Option("--slots", help="Turns that decode together.")] = None,
    speed: Annotated[float, typer.Option("--speed", help="How fast agents think and tools answer.")] = 1.0,
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same run.")] = 0,
    overlap: Annotated[bool, typer.Option("--overlap", help="Copies go on beside the steps.")] = False,
    knob: Annotated[list[str] | None, typer.Option("--set", help="A knob: policy=walk-down; may be repeated.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder for the session's CSV files.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Run agents on a modelled card, as fast as it goes: hours of it in seconds."""
    from app.twin import run_twin, setup_of

    setup = setup_of(
        card=card, preset=preset, workload=workload, agents=agents, hours=hours, slots=slots, seed=seed, speed=speed,
        overlap=overlap, given=knob or (),
    )  # fmt: skip
    run_twin(setup, out, as_json=as_json)


@MAKE.command()
@told
def policies() -> None:
    """List the tier policies, one's own too, and the knobs that each brings."""
    from app.policies import print_policies

    print_policies()


@MAKE.command()
@told
def export(
    session: Annotated[str | None, typer.Option("--session", help="Which session; without it they are listed.")] = None,
    out: Annotated[Path, typer.Option("--out", help="Folder for the CSV files.")] = Path("."),
) -> None:
    """Write timeline.csv, samples.csv and events.csv of a recorded session."""
    from engine.record.csv_export import export_session

    if session is None:
        _list_sessions()
        return
    for path in export_session(session, out):
        typer.echo(str(path))


@MAKE.command()
@told
def bench(
    name: Annotated[str | None, typer.Argument(help="Which bench; without it they are listed.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="The shortest depth: fewest cases and rounds.")] = False,
    full: Annotated[bool, typer.Option("--full", help="The longest depth: all cases, more rounds.")] = False,
    as_json: JsonOption = False,
    backend: BackendOption = "torch",
    minutes: Annotated[float | None, typer.Option("--minutes", min=0.2, max=1440, help="memory: for so long.")] = None,
    turns: Annotated[int | None, typer.Option("--turns", min=1, max=256, help="memory: live turns.")] = None,
    agents: Annotated[
        int | None, typer.Option("--agents", min=1, max=256, help="policies: how many take turns.")
    ] = None,
    workload: Annotated[
        str | None, typer.Option("--workload", help="policies: a shipped one's name, or a file.")
    ] = None,
    against: Annotated[
        str | None, typer.Option("--against", help="throughput: beside vllm or llamacpp; policies: vllm.")
    ] = None,
    peer_python: Annotated[
        str | None, typer.Option("--peer-python", help="throughput, policies: the peer's Python.")
    ] = None,
) -> None:
    """Measure one promise: exit status 0 all targets met, 1 one missed, 2 it could not run."""
    from engine.kernels.threads import configure_threads

    configure_threads()
    from app.bench import benches, checked
    from app.bench.report import Bench, Depth, print_json, run_bench
    from engine.errors import ParkdeckError

    known = benches()
    if name is None:
        typer.echo("\n".join(known))
        return
    asked = {"minutes": minutes, "turns": turns, "agents": agents}
    own = {option: float(value) for option, value in asked.items() if value is not None}
    told_in_words = {"workload": workload, "against": against, "peer-python": peer_python}
    words = {option: value for option, value in told_in_words.items() if value is not None}
    depth: Depth = "quick" if quick else "full" if full else "default"
    asked_for = Bench(name, depth, backend or "torch", own, words)
    try:
        run = checked(asked_for, both=quick and full)
    except ParkdeckError as error:
        if as_json:
            print_json(asked_for, sys.stdout, str(error))
        raise
    with ended_as_by_ctrl_c():
        raise typer.Exit(run_bench(name, run, depth, asked_for.backend, options=own, words=words, as_json=as_json))


@MAKE.command()
@told
def results(
    reports: Annotated[list[Path], typer.Argument(help="What parkdeck bench NAME --json printed, a file each.")],
    out: Annotated[Path, typer.Option("--out", help="The page to write.")] = Path("results.html"),
) -> None:
    """Make one page, with charts, of the reports of benches."""
    from app.results import run_results

    run_results(reports, out)


def main() -> None:
    open_closed_streams()
    MAKE()


def _list_sessions() -> None:
    from datetime import UTC, datetime

    from engine.record.database import list_sessions

    sessions = list_sessions()
    if not sessions:
        typer.echo("No session is recorded yet.")
        return
    rows = []
    for one in sessions:
        started = datetime.fromtimestamp(one.started_utc, UTC).strftime("%Y-%m-%d %H:%M:%S")
        counts = (one.intervals, one.events, one.samples, one.lost)
        lasted = f"{one.ended_utc - one.started_utc:,.0f}"
        rows.append((one.id, started, lasted, one.model, *(f"{count:,}" for count in counts)))
    print_columns("session", "started, UTC", "lasted, s", "model", "intervals", "events", "samples", "lost", rows=rows)


if __name__ == "__main__":
    main()
