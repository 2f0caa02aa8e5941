"""A command's progress on stderr."""

import time

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

LINE_EVERY_S = 5.0


class Said:
    """Tells on stderr how far a command is: one line that changes on a terminal, else one every few seconds."""

    def __init__(self) -> None:
        console = Console(stderr=True)
        self._live = Live(console=console, refresh_per_second=4, transient=True) if console.is_terminal else None
        self._lined_at = float("-inf")

    def __enter__(self) -> "Said":
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, fraction: float, note: str) -> None:
        line = f"{fraction:4.0%}  {note}"
        if self._live is not None:
            self._live.update(Text(line))
        elif time.monotonic() - self._lined_at >= LINE_EVERY_S:
            self._lined_at = time.monotonic()
            typer.echo(line, err=True)
