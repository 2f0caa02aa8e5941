"""`parkdeck`: the page, the engine in a terminal, models, exports, benches. Heavy imports happen inside a command."""

import os
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

ERROR = 2
MAKE = typer.Typer(
    name="parkdeck",
    help="Shows and steers where every turn's KV cache is parked.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
Model = Annotated[str | None, typer.Option("--model", help="GGUF file, safetensors folder or Hugging Face id.")]
Agents = Annotated[int | None, typer.Option("--agents", help="How many agents take turns.")]
Speed = Annotated[float, typer.Option("--speed", help="How fast agents think and tools answer.")]
KVDtype = Annotated[str | None, typer.Option("--kv-dtype", help="KV precision at the start: fp16 or q8.")]
Policy = Annotated[str | None, typer.Option("--policy", help="Tier policy: walk-down, recompute-only, resident-only.")]
Ceiling = Annotated[str | None, typer.Option("--ceiling", help="Use this much device memory, no card scale: 15.5GiB.")]
Workload = Annotated[str | None, typer.Option("--workload", help="A shipped workload's name, or a .jsonl file.")]


def told(command: Callable[..., Any]) -> Callable[..., Any]:
    """A user's mistake is one sentence and exit status 2, never a traceback."""

    @wraps(command)
    def run(*args: Any, **options: Any) -> Any:
        from engine.errors import ParkdeckError

        try:
            return command(*args, **options)
        except ParkdeckError as error:
            typer.echo(str(error), err=True)
            raise typer.Exit(ERROR) from None

    return run


@MAKE.command()
@told
def up(
    port: Annotated[int | None, typer.Option("--port", help="Port of the page; the next free one if taken.")] = None,
    model: Model = None,
    agents: Agents = None,
    speed: Speed = 1.0,
    kv_dtype: KVDtype = None,
    policy: Policy = None,
    ceiling: Ceiling = None,
    workload: Workload = None,
) -> None:
    """Start the page, the engine and the swarm: the same as `streamlit run app`."""
    from app.settings import config_from

    chosen = _environment(model, agents, speed, kv_dtype, policy, ceiling, workload)
    config_from({**os.environ, **chosen})
    command = [sys.executable, "-m", "streamlit", "run", str(Path(__file__).resolve().parent)]
    if port is not None:
        command += ["--server.port", str(port)]
    os.execve(sys.executable, command, {**os.environ, **chosen})


@MAKE.command()
@told
def swarm(
    seconds: Annotated[float | None, typer.Option("--seconds", help="End by itself after so long a run.")] = None,
    model: Model = None,
    agents: Agents = None,
    speed: Speed = 1.0,
    kv_dtype: KVDtype = None,
    policy: Policy = None,
    ceiling: Ceiling = None,
    workload: Workload = None,
) -> None:
    """Run engine and swarm in the terminal, with a live table; Ctrl-C ends it."""
    from engine.kernels.threads import configure_threads

    configure_threads()
    from app.settings import config_from
    from app.terminal import run_swarm

    chosen = _environment(model, agents, speed, kv_dtype, policy, ceiling, workload)
    run_swarm(config_from({**os.environ, **chosen}), seconds)


@MAKE.command()
@told
def models() -> None:
    """List the models in the cache."""
    from rich.console import Console
    from rich.table import Table

    from engine.models.resolve import list_models
    from panels.units import size

    table = Table("model", "size", "kind", "from", "path")
    for kept in list_models():
        table.add_row(kept.name, size(kept.nbytes), kept.kind, kept.source, str(kept.path))
    if table.row_count:
        Console().print(table)
    else:
        typer.echo("No model is in the cache yet; the default one is fetched on the first start.")


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
    quick: Annotated[bool, typer.Option("--quick", help="Within 50 s on 2 cores.")] = False,
    full: Annotated[bool, typer.Option("--full", help="As long as it takes.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object as the last line.")] = False,
) -> None:
    """Measure one promise: exit status 0 all targets met, 1 one missed, 2 it could not run."""
    from engine.kernels.threads import configure_threads

    configure_threads()
    from app.bench import benches
    from app.bench.report import Depth, run_bench
    from engine.errors import Refused

    known = benches()
    if name is None:
        typer.echo("\n".join(known))
        return
    if name not in known:
        raise Refused(f"there is no bench {name!r}; choose one of {', '.join(known)}")
    if quick and full:
        raise Refused("--quick and --full exclude each other; give one of them")
    depth: Depth = "quick" if quick else "full" if full else "default"
    raise typer.Exit(run_bench(name, known[name], depth, as_json=as_json))


def main() -> None:
    MAKE()


def _environment(
    model: str | None,
    agents: int | None,
    speed: float,
    kv_dtype: str | None,
    policy: str | None,
    ceiling: str | None,
    workload: str | None,
) -> dict[str, str]:
    """Options as the variables that the app reads; what is not given is left to the environment."""
    given = {
        "PARKDECK_MODEL": model,
        "PARKDECK_AGENTS": agents,
        "PARKDECK_SPEED": speed if speed != 1.0 else None,
        "PARKDECK_KV_DTYPE": kv_dtype,
        "PARKDECK_POLICY": policy,
        "PARKDECK_CEILING": ceiling,
        "PARKDECK_WORKLOAD": workload,
    }
    return {name: str(value) for name, value in given.items() if value is not None}


def _list_sessions() -> None:
    from datetime import UTC, datetime

    from rich.console import Console
    from rich.table import Table

    from engine.record.database import list_sessions

    sessions = list_sessions()
    if not sessions:
        typer.echo("No session is recorded yet.")
        return
    table = Table("session", "started, UTC", "lasted, s", "model", "intervals", "events", "samples", "lost")
    for one in sessions:
        started = datetime.fromtimestamp(one.started_utc, UTC).strftime("%Y-%m-%d %H:%M:%S")
        counts = (one.intervals, one.events, one.samples, one.lost)
        table.add_row(
            one.id, started, f"{one.ended_utc - one.started_utc:,.0f}", one.model, *(f"{n:,}" for n in counts)
        )
    Console().print(table)


if __name__ == "__main__":
    main()
