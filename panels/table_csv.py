"""A page's table as a CSV file: first what it was made for, a line for each, then an empty line, then the table, all
unrounded and in base units; empty where there is nothing."""

import csv
import io
from collections.abc import Iterable, Sequence

import streamlit as st

from engine.record.cells import neutralised
from panels import components

Value = str | int | float | None


def content(about: Iterable[tuple[str, Value]], head: Sequence[str], rows: Iterable[Sequence[Value]]) -> bytes:
    """`about`: the card, the model and what was asked of them, by name. A text runs in no spreadsheet."""
    text = io.StringIO()
    out = csv.writer(text)
    out.writerows(map(_cells, about))
    out.writerow(())
    out.writerow(head)
    out.writerows(map(_cells, rows))
    return text.getvalue().encode()


def download(table: bytes, name: str, key: str) -> None:
    """The button. `name`: the file's, without its ending."""
    st.download_button(
        "Table as CSV", table, f"{components.file_name(name)}.csv", "text/csv", key=key,
        icon=":material/download:", help="Unrounded: sizes in bytes, times in seconds.", on_click="ignore",
    )  # fmt: skip


def _cells(row: Iterable[Value]) -> list[Value]:
    return [neutralised(value) if isinstance(value, str) else value for value in row]
