"""Reading text files line by line so that every complaint names the file and the line."""

import json
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from engine.errors import Refused

MAX_LINE_BYTES = 16 << 20


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """(line number from 1, text without its end), blank lines left out. Raises Refused: cannot be opened, not UTF-8,
    a line over 16 MiB, nothing in it, or no regular file."""
    seen = False
    try:
        # A pipe would wait for its writer.
        if not stat.S_ISREG(path.stat().st_mode):
            raise Refused(f"{path}: cannot be read (it is no regular file); name a readable file")
        with path.open("rb") as file:
            number = 0
            while raw := file.readline(MAX_LINE_BYTES + 1):
                number += 1
                if len(raw) > MAX_LINE_BYTES:
                    raise Refused(f"{path.name}, line {number}: longer than 16 MiB; this is no workload file")
                text = _decoded(path, number, raw).rstrip("\r\n")
                if text.strip():
                    seen = True
                    yield number, text
    except OSError as error:
        raise Refused(f"{path}: cannot be read ({error.strerror or error}); name a readable file") from None
    if not seen:
        raise Refused(f"{path.name}: the file is empty; a workload needs at least one agent")


def json_object(path: Path, number: int, text: str) -> Mapping[str, object]:
    """One line as a JSON object. Raises Refused for broken JSON, NaN or Infinity, another kind of value, or text
    with half a character, which no file, page or database takes."""

    def no_constant(name: str) -> object:
        raise Refused(f"{path.name}, line {number}: {name} is no number; give finite numbers")

    try:
        value = json.loads(text, parse_constant=no_constant)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise Refused(
            f"{path.name}, line {number}: a \\ud800 to \\udfff stands alone; write whole characters"
        ) from None
    except json.JSONDecodeError as error:
        raise Refused(f"{path.name}, line {number}: broken JSON at column {error.colno} ({error.msg})") from None
    except ValueError as error:
        raise Refused(f"{path.name}, line {number}: broken JSON ({error})") from None
    except RecursionError:
        raise Refused(f"{path.name}, line {number}: nested too deeply; this is no workload file") from None
    if not isinstance(value, dict):
        raise Refused(f"{path.name}, line {number}: expected a JSON object, got {type(value).__name__}")
    return value


def _decoded(path: Path, number: int, raw: bytes) -> str:
    try:
        return raw.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError:
        raise Refused(f"{path.name}, line {number}: not UTF-8 text; save the file as UTF-8") from None
