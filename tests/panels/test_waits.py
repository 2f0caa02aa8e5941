"""The table of how long tools take.

pytest tests/panels/test_waits.py
"""

from engine.waits import WaitRow
from panels.waits import HEAD, sentence, table

ROWS = (
    WaitRow(None, 1200, 0.5, 12.0, 900, 1000, 3),
    WaitRow("bash", 1190, 0.3, 10.0, 900, 1000, 2),
    WaitRow("pytest", 10, 95.0, 120.0, 0, 0, 1),
    WaitRow("browser", 0, None, None, 0, 0, 1),
)


def test_a_line_for_each_tool_in_words() -> None:
    assert table(ROWS) == [
        ("all tools", "1,200", "500 ms", "12.0 s", "900 of 1,000"),
        ("bash", "1,190", "300 ms", "10.0 s", "900 of 1,000"),
        ("pytest", "10", "95.0 s", "2 min", "n/a"),
        ("browser", "0", "n/a", "n/a", "n/a"),
    ]
    assert all(len(line) == len(HEAD) for line in table(ROWS))
    assert table(()) == []


def test_in_one_sentence() -> None:
    assert sentence(ROWS) == (
        "1,200 waits on tools, half of them up to 500 ms, foretold rightly 900 of 1,000 times whether they outlast the "
        "copy out and back; pytest takes longest, 95.0 s."
    )
    assert sentence(()) == "No tool has answered yet."
