"""What files and people state, read with care: JSON, texts and numbers of the wrong kind become one sentence each."""

import json
import logging
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine.errors import ModelError, ParkdeckError

_BREAKS = re.compile(r"\s*[\n\r\t\v\f\x1c-\x1e\x85\u2028\u2029]\s*")
_LONGEST, _TAIL = 700, 200
_LARGEST_JSON = 1 << 26
log = logging.getLogger(__name__)


def printable(text: str) -> str:
    """One line that every terminal and file can hold: control characters and broken bytes are replaced."""
    line = _BREAKS.sub(" ", text)
    return line if line.isprintable() else "".join(mark if mark.isprintable() else "\ufffd" for mark in line)


def shown(value: object, longest: int = 60) -> str:
    """A value to be put into a sentence, cut when it is long."""
    text = printable(value[: longest + 1] if isinstance(value, str) else str(value))
    return text if len(text) <= longest else text[:longest] + "..."


@contextmanager
def one_sentence(wanted: str) -> Iterator[None]:
    """Whatever fails within leaves as a ModelError of one printable line that names the file."""
    try:
        yield
    except ModelError as error:
        text = one_line(str(error))
        if text == str(error):
            raise
        raise ModelError(text) from error
    except ParkdeckError:
        raise
    except OSError as error:
        file, why = error.filename or wanted, error.strerror or type(error).__name__
        raise ModelError(_cut(f"{shown(file, 300)}: cannot be read ({why}); check the file's permissions.")) from error
    except Exception as error:
        log.exception("loading %s failed", shown(wanted, 300))
        reason = shown(f"{type(error).__name__}: {error}".rstrip(": ."), 200)
        raise ModelError(
            f"{shown(wanted, 300)}: the model cannot be loaded ({reason}); download it again or choose another one."
        ) from error


def one_line(sentence: str) -> str:
    """A sentence as one printable line. The middle of a long one goes: its start names the file and its end says what
    to do."""
    return _cut(printable(sentence))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - _TAIL - 5]} ... {text[-_TAIL:]}"


def read_text(path: Path) -> str:
    """Raises ModelError when the file cannot be read or is not UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ModelError(f"{path}: cannot be read ({error.strerror}); check its permissions.") from error
    except UnicodeDecodeError as error:
        raise ModelError(f"{path}: not UTF-8 text ({error.reason}); download it again.") from error


def json_object(path: Path) -> dict[str, Any]:
    """The object in a JSON file. Raises ModelError for anything else."""
    try:
        if path.stat().st_size > _LARGEST_JSON:
            raise ModelError(f"{path}: larger than {_LARGEST_JSON >> 20} MiB, as no such file is; download it again.")
    except OSError:
        # Reading it says why.
        pass
    try:
        value = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path}: not JSON ({shown(error, 150)}); download it again.") from error
    if not isinstance(value, dict):
        raise ModelError(f"{path}: holds no JSON object; download it again.")
    return value


def integer(stated: Mapping[str, Any], key: str, file: str, default: int | None = None) -> int:
    """A whole number; a value that is absent or null is the default's, or an error where there is none."""
    value = stated.get(key)
    value = default if value is None else value
    if not isinstance(value, int) or isinstance(value, bool):
        raise wrong(stated, key, file, "not a whole number")
    return value


def number(stated: Mapping[str, Any], key: str, file: str, default: float | None = None) -> float:
    """A finite number, else as `integer`."""
    value = stated.get(key)
    value = default if value is None else value
    if not isinstance(value, int | float) or isinstance(value, bool) or abs(value) > 1e300 or math.isnan(value):
        raise wrong(stated, key, file, "not a finite number")
    return float(value)


def flag(stated: Mapping[str, Any], key: str, file: str, default: bool = False) -> bool:
    value = stated.get(key)
    if value is not None and not isinstance(value, bool):
        raise wrong(stated, key, file, "neither true nor false")
    return default if value is None else value


def wrong(stated: Mapping[str, Any], key: str, file: str, why: str) -> ModelError:
    """The error for a value of the wrong kind."""
    value = stated.get(key)
    told = "is missing" if value is None else f"is {shown(value, 40) or 'empty'}, {why}"
    return ModelError(f"{file}: {key} {told}; download the model's own file.")
