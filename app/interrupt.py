"""Ctrl-C as something to look at between two acts, not as an exception somewhere in them; and its like as Ctrl-C."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class EndedBy(KeyboardInterrupt):
    """Another signal that asks for the end. `status`: the exit status that tells it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.status = 128 + number


@contextmanager
def interruptible() -> Iterator[threading.Event]:
    """Ctrl-C and SIGTERM set the event instead of raising somewhere."""
    ending = threading.Event()
    previous = {number: signal.signal(number, lambda *_: ending.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield ending
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


@contextmanager
def ended_as_by_ctrl_c() -> Iterator[None]:
    """SIGTERM and SIGHUP raise EndedBy, once, so that what was opened is closed. One that is ignored stays so, as
    `nohup` asks for."""
    names = [name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    taken = [number for number in map(signal.Signals.__getitem__, names) if signal.getsignal(number) == signal.SIG_DFL]
    if threading.current_thread() is not threading.main_thread():
        taken = []

    def end(number: int, frame: FrameType | None) -> None:
        for one in taken:
            signal.signal(one, signal.SIG_IGN)
        raise EndedBy(number)

    for number in taken:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)
