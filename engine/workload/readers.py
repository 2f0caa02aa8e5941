"""Any workload to a Workload: a shipped one by its name, a file of ours, or one of TraceLab's two formats."""

import math
from collections.abc import Callable
from functools import cache
from pathlib import Path

from engine.errors import Refused
from engine.workload.format import MARK, read_workload
from engine.workload.lines import json_object, numbered_lines
from engine.workload.script import Workload, fit
from engine.workload.tracelab import read_csv, read_round_trace

WORKLOADS = Path(__file__).resolve().parents[2] / "assets" / "workloads"
DEFAULT = "swarm"


def shipped() -> tuple[str, ...]:
    """Names of the workloads that come with Parkdeck."""
    return tuple(sorted(path.stem for path in WORKLOADS.glob("*.jsonl")))


def load_workload(name_or_path: str | Path = DEFAULT, max_context: int | None = None) -> Workload:
    """A shipped workload by its name, or a file; its format is told by its first line. With `max_context` longer turns
    are cut to fit it (see `fit`) and `notes` says so. Raises Refused with file and line."""
    if str(name_or_path) in shipped():
        path = WORKLOADS / f"{name_or_path}.jsonl"
    else:
        path = Path(name_or_path)
        if _missing(path):
            raise Refused(f"there is no workload {str(name_or_path)!r}; name a file or one of {', '.join(shipped())}")
    workload = _reader_for(path)(path)
    return workload if max_context is None else fit(workload, max_context)


@cache
def nearest(mean_context: float) -> str:
    """The shipped workload whose turns end about as long as an average turn of a card, in tokens: what a twin of that
    card plays where nobody has chosen."""
    return min(shipped(), key=lambda name: abs(math.log(load_workload(name).mean_tokens / mean_context)))


def _missing(path: Path) -> bool:
    """False where it cannot be told: reading the file then says why."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return True
    except OSError:
        return False
    return False


def _reader_for(path: Path) -> Callable[[Path], Workload]:
    number, first = next(numbered_lines(path))
    if not first.lstrip().startswith(("{", "[")):
        return read_csv
    return read_workload if MARK in json_object(path, number, first) else read_round_trace
