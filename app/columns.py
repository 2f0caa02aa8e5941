"""Plain tables for a terminal: one row a line, however wide it is, so that an id or a path is never cut."""

from collections.abc import Sequence

import typer


def print_columns(*titles: str, rows: Sequence[Sequence[str]], numbers: bool = False) -> None:
    """`numbers`: every column but the first is flush right."""
    widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
    for cells in (titles, *rows):
        padded = [
            cell.rjust(width) if numbers and index else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        typer.echo("  ".join(padded).rstrip())
