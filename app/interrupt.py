"""Ctrl-C as something to look at between two acts, not as an exception somewhere in them."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


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
