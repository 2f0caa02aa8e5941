"""Options that several commands take, and how every command tells a mistake."""

import errno
import inspect
import sys
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import typer

from app.interrupt import EndedBy
from app.streams import let_go_of

ERROR = 2
INTERRUPTED = 130


def _text(name: str, hint: str) -> Any:
    return Annotated[str | None, typer.Option(name, help=hint)]


ModelOption = Annotated[str | None, typer.Option("--model", help="GGUF file, safetensors folder or Hugging Face id.")]
BackendOption = Annotated[str | None, typer.Option("--backend", help="What runs the model: auto, torch or vllm.")]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object as the last line.")]
ModelArgument = Annotated[str | None, typer.Argument(help="config.json, GGUF file, folder or Hugging Face id.")]
CardOption = Annotated[str, typer.Option("--card", help="A card's id, or a profile's file.")]
PresetOption = Annotated[str | None, typer.Option("--preset", help="A model's shape that the card's profile has.")]
WeightsOption = Annotated[str | None, typer.Option("--weights", help="The model's weights on the device: 8.5GiB.")]
ENGINE_OPTIONS: dict[str, tuple[str, Any]] = {
    "model": ("PARKDECK_MODEL", ModelOption),
    "backend": ("PARKDECK_BACKEND", BackendOption),
    "agents": ("PARKDECK_AGENTS", Annotated[int | None, typer.Option("--agents", help="How many agents take turns.")]),
    "speed": (
        "PARKDECK_SPEED",
        Annotated[float | None, typer.Option("--speed", help="How fast agents think and tools answer; else 1.")],
    ),
    "kv_dtype": ("PARKDECK_KV_DTYPE", _text("--kv-dtype", "KV precision at the start: fp16 or q8.")),
    "weight_dtype": (
        "PARKDECK_WEIGHT_DTYPE",
        _text("--weight-dtype", "Precision of the weights in memory: int8, on a GPU also int4 or fp16."),
    ),
    "policy": ("PARKDECK_POLICY", _text("--policy", "Tier policy: walk-down, or another of `parkdeck policies`.")),
    "ceiling": ("PARKDECK_CEILING", _text("--ceiling", "Use this much device memory, no card scale: 15.5GiB.")),
    "workload": ("PARKDECK_WORKLOAD", _text("--workload", "A shipped workload's name, or a .jsonl file.")),
}
"""Options of every command that starts the engine: the variable that the app reads, and the option's type."""


def told(command: Callable[..., Any]) -> Callable[..., Any]:
    """A user's mistake is one sentence and exit status 2, Ctrl-C nothing and status 130, another signal that ends 128
    and its number; never a traceback."""

    @wraps(command)
    def run(*args: Any, **options: Any) -> Any:
        try:
            return _in_a_sentence(command, *args, **options)
        except KeyboardInterrupt as asked:
            raise typer.Exit(asked.status if isinstance(asked, EndedBy) else INTERRUPTED) from None

    return run


def _in_a_sentence(command: Callable[..., Any], *args: Any, **options: Any) -> Any:
    from engine.errors import ParkdeckError
    from engine.models.stated import one_line

    try:
        return command(*args, **options)
    except ParkdeckError as error:
        sentence = one_line(str(error))
    except OSError as error:
        sentence = one_line(f"cannot go on ({error}); make room or check permissions, then start again")
        # A reader that went away, as `head` does, is no mistake.
        if error.errno == errno.EPIPE:
            sentence = ""
    if sentence:
        _say(sentence)
    let_go_of(sys.stdout)
    raise typer.Exit(ERROR)


def _say(sentence: str) -> None:
    try:
        typer.echo(sentence, err=True)
    except OSError:
        let_go_of(sys.stderr)


def with_engine_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds ENGINE_OPTIONS; the command gets `chosen`, those that were given, as variables of the environment."""

    @wraps(command)
    def run(**options: Any) -> Any:
        given = {variable: options.pop(name) for name, (variable, _) in ENGINE_OPTIONS.items()}
        return command(**options, chosen={name: str(value) for name, value in given.items() if value is not None})

    own = [p for p in inspect.signature(command).parameters.values() if p.name != "chosen"]
    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        for name, (_, kind) in ENGINE_OPTIONS.items()
    ]
    run.__signature__ = inspect.Signature([*own, *more])  # type: ignore[attr-defined]
    return run
