"""What a model load says of itself while it runs; the page and the terminal draw it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Stage = Literal["download", "check", "convert", "load"]


@dataclass(frozen=True, slots=True)
class Progress:
    """`fraction` is 0..1 of the stage, None where the end is not known; `note` is one line for a person."""

    stage: Stage
    fraction: float | None
    note: str


Report = Callable[[Progress], None]


def silent(progress: Progress) -> None:
    """A report that nobody reads."""
