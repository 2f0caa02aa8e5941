"""How long tools take, and how often it was foretold rightly whether a wait outlasts its copy: a table as plain
data."""

from collections.abc import Sequence

from engine.waits import WaitRow
from panels.units import MISSING, seconds

HEAD = ("tool", "waits", "p50", "p90", "foretold rightly")
ALL = "all tools"


def table(rows: Sequence[WaitRow]) -> list[tuple[str, ...]]:
    """A line for each row of the snapshot's `waits`, in its order, below HEAD; empty before the first wait."""
    return [
        (
            ALL if row.tool is None else row.tool,
            f"{row.ended:,}",
            seconds(row.p50),
            seconds(row.p90),
            f"{row.right:,} of {row.foretold:,}" if row.foretold else MISSING,
        )
        for row in rows
    ]


def sentence(rows: Sequence[WaitRow]) -> str:
    """For those who do not see the table."""
    if not rows:
        return "No tool has answered yet."
    every, tools = rows[0], rows[1:]
    right = f"foretold rightly {every.right:,} of {every.foretold:,} times whether they outlast the copy out and back"
    longest = max(tools, key=lambda row: row.p50 or 0.0)
    return (
        f"{every.ended:,} waits on tools, half of them up to {seconds(every.p50)}, {right}; "
        f"{longest.tool} takes longest, {seconds(longest.p50)}."
    )
