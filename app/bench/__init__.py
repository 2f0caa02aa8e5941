"""The benches: every module here that has a `run(bench)` is one, under its own name."""

import importlib
import importlib.util
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.bench.report import Bench

Run = Callable[["Bench"], None]
HELPERS = frozenset({"report", "rig"})
OPTIONS: Mapping[str, frozenset[str]] = {
    "memory": frozenset({"minutes", "turns"}),
    "policies": frozenset({"agents", "workload", "against", "peer-python"}),
    "throughput": frozenset({"against", "peer-python"}),
}
"""What a bench takes beside what all take."""


class _Benches(Mapping[str, Run]):
    """Names come from the folder; a bench's module is imported when it is asked for, as some need torch."""

    def __init__(self) -> None:
        modules = pkgutil.iter_modules([str(Path(__file__).parent)])
        self._names = tuple(sorted(m.name for m in modules if not m.ispkg and _is_bench(m.name)))

    def __getitem__(self, name: str) -> Run:
        if name not in self._names:
            raise KeyError(name)
        run: Run = importlib.import_module(f"app.bench.{name}").run
        return run

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def benches() -> Mapping[str, Run]:
    """All benches by name."""
    return _Benches()


def checked(bench: "Bench", both: bool = False) -> Run:
    """What runs this bench; its module is imported then. `both`: --quick and --full were given. Raises Refused for
    what can be seen to be wrong before."""
    from engine.body import checked_backend
    from engine.errors import Refused

    known = benches()
    if bench.name not in known:
        raise Refused(f"there is no bench {bench.name!r}; choose one of {', '.join(known)}")
    if both:
        raise Refused("--quick and --full exclude each other; give one of them")
    if alien := sorted((bench.options.keys() | bench.words.keys()) - OPTIONS.get(bench.name, frozenset())):
        raise Refused(f"the bench {bench.name} takes no --{alien[0]}; leave it out")
    checked_backend(bench.backend)
    if bench.backend == "twin":
        raise Refused("a bench measures a real engine, not the twin; choose auto, torch or vllm as --backend")
    return lambda running: known[running.name](running)


def _is_bench(name: str) -> bool:
    if name in HELPERS or name.startswith("_"):
        return False
    return "def run(bench" in (Path(__file__).parent / f"{name}.py").read_text(encoding="utf-8")
