"""The rooms: imports run app -> panels -> engine, no two of the engine's rooms import each other, and the card on paper
needs neither an engine's libraries nor the page's.

pytest tests/test_rooms.py
"""

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("engine", "panels", "app")
PAPER = ("engine.paper.ceiling", "engine.paper.prices", "engine.models.layout_reader", "app.paper")
HEAVY = {"torch", "vllm", "numba", "transformers", "streamlit", "plotly"}


def modules() -> dict[str, Path]:
    files = [file for room in ROOMS for file in (ROOT / room).rglob("*.py")]
    return {".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file for file in files}


MODULES = modules()


def imported(node: ast.AST, inside: bool = False) -> Iterator[tuple[str, bool]]:
    """Names of modules, and whether they are imported only when a function is called or types are checked."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from ((alias.name, inside) for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and child.module:
            full = (f"{child.module}.{alias.name}" for alias in child.names)
            yield from ((name if name in MODULES else child.module, inside) for name in full)
        else:
            typing_only = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
            yield from imported(child, inside or typing_only or isinstance(child, ast.FunctionDef))


IMPORTS = {name: set(imported(ast.parse(file.read_text("utf-8")))) for name, file in MODULES.items()}


def test_imports_run_one_way() -> None:
    closed = {"engine": {"panels", "app", "streamlit"}, "panels": {"app"}, "app": set[str]()}
    wrong = [
        f"{name} imports {other}"
        for name, others in IMPORTS.items()
        for other, _ in others
        if other.partition(".")[0] in closed[name.partition(".")[0]]
    ]
    assert wrong == []


def test_no_two_rooms_of_the_engine_import_each_other() -> None:
    def room(name: str) -> str:
        return ".".join(name.split(".")[:2])

    needs: dict[str, set[str]] = {}
    for name, others in IMPORTS.items():
        if name.startswith("engine."):
            needs.setdefault(room(name), set()).update(room(other) for other, _ in others if other in MODULES)
    order = list(TopologicalSorter({one: others - {one} for one, others in needs.items()}).static_order())
    assert order.index("engine.governor") < order.index("engine.loop") < order.index("engine.host")


def test_the_card_on_paper_starts_without_an_engine() -> None:
    seen, waiting = set[str](), list(PAPER)
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        at_start = [other for other, late in IMPORTS[name] if not late]
        heavy = {other.partition(".")[0] for other in at_start} & HEAVY
        assert not heavy, f"{name} imports {', '.join(sorted(heavy))}"
        waiting += [other for other in at_start if other in MODULES]
    assert "engine.cards.store" in seen
