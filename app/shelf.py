"""Where the one deck of this process lies, out of reach of Streamlit's reloading.

When a file is edited Streamlit throws its module, and the package around it, out of sys.modules and imports it again; a
module-level singleton would then exist twice. The shelf is a module that has no file, so it is never thrown out.
"""

import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import TypeVar

T = TypeVar("T")
NAME = "_parkdeck_shelf"
DECK = "deck"
GRIDS = "grids"
COMPARISONS = "comparisons"
_SHELF = sys.modules.setdefault(NAME, ModuleType(NAME))
_LOCK: threading.Lock = _SHELF.__dict__.setdefault("__lock__", threading.Lock())


def shelf(name: str, make: Callable[[], T]) -> T:
    """The thing called `name`, made the first time anyone asks for it."""
    with _LOCK:
        if name not in _SHELF.__dict__:
            _SHELF.__dict__[name] = make()
        thing: T = _SHELF.__dict__[name]
        return thing


def taken(name: str) -> object | None:
    """The thing called `name`, or None if nobody has put it there."""
    return _SHELF.__dict__.get(name)


def clear(name: str) -> None:
    with _LOCK:
        _SHELF.__dict__.pop(name, None)
