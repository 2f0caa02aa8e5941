"""What a chart carries beside its drawing: what it says in words, and how its files are called and filled. Pure.

A table is made of parts of the figure, so that a file cannot say other than what is drawn. Its blocks of columns stand
below each other; within a block a column is as long as the others or one value for all rows.
"""

from collections.abc import Sequence
from typing import Any, Literal

from panels.components import file_name

PageName = Literal["live", "blocked", "planner", "prices", "policies", "what-if", "calibration"]
Column = dict[str, Any]
Cell = str | float | None


def part(trace: int, name: str) -> Column:
    """The values of one part, such as y, of a figure's trace."""
    return {"of": [trace, name]}


def values(cells: Sequence[Cell]) -> Column:
    return {"values": list(cells)}


def same(cell: Cell) -> Column:
    """One value in each row of its block."""
    return {"all": cell}


def table(head: Sequence[str], *blocks: Sequence[Column], times: bool = False) -> dict[str, Any]:
    """`head`: each column in the words of its page, with its unit; `times`: the first column is milliseconds since the
    epoch and goes out as ISO 8601, UTC."""
    return {"head": list(head), "blocks": [list(block) for block in blocks], "times": times}


def files(page: PageName, name: str, subject: str, heading: str, source: str) -> dict[str, Any]:
    """`subject`: the session or card, in the files' name; `heading` and `source`: above and below the picture."""
    return {"file": file_name(f"parkdeck-{page}-{name}-{subject}"), "heading": heading, "source": source}
