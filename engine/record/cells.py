"""Text in CSV cells: a cell that a spreadsheet would run as a formula gets a leading ', and reading takes it off.

A text is touched when, after any number of ', it begins with = + - @ tab or carriage return; so a text that itself
begins with such a run comes back as it was. Numbers are never touched.
"""

import re

_RISKY = re.compile(r"'*[=+\-@\t\r]")
_QUOTED = re.compile(r"'+[=+\-@\t\r]")


def neutralised(text: str) -> str:
    return "'" + text if _RISKY.match(text) else text


def restored(cell: str) -> str:
    """The inverse of `neutralised`."""
    return cell[1:] if _QUOTED.match(cell) else cell
