"""Standard output and error as they may be: closed, full, or a pipe that nobody reads."""

import io
import os
import sys
from contextlib import suppress
from typing import IO


def open_closed_streams() -> None:
    """To be called by the entry: a file that is opened later must not take the place of a stream that was closed.
    What is written on a closed output is an error, on a closed stderr nothing. Half characters are escaped."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDONLY if number == 1 else os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def let_go_of(stream: IO[str]) -> None:
    """What could not be written would be tried again at the exit, and be an error of its own there."""
    try:
        stream.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
