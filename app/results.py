"""`parkdeck results`: reads what `parkdeck bench NAME --json` printed and writes one page of it.

A report is taken whole or refused with one sentence; its names, sentences and cells are text, whatever they hold.
"""

import json
import math
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

import plotly
import typer

from app.bench.report import OPS, Cell, Target, cell_text
from engine.errors import Refused
from panels.results_charts import specs
from panels.results_page import ShownReport, ShownTarget, page

ASSETS = Path(__file__).resolve().parent.parent / "assets"
PLOTLY_JS = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
LARGEST_BYTES = 16 << 20


class _Wrong(ValueError):
    """What a report lacks, as the end of a sentence."""


def run_results(paths: Sequence[Path], out: Path) -> None:
    """Read all, then write. Raises Refused naming the file that is no report, when `out` is one of them and when it
    cannot be written; what was there is then still whole."""
    if any(_same(out, path) for path in paths):
        raise Refused(f"--out {out} is one of the reports; give the page another name")
    if out.is_dir():
        raise Refused(f"--out {out} is a folder; give the page's file, such as {out / 'results.html'}")
    if not out.parent.is_dir():
        raise Refused(f"--out {out}: there is no folder {out.parent}; make it, or give another file")
    reports = [read_report(path) for path in paths]
    text = page(
        reports,
        plotly=PLOTLY_JS.read_text(encoding="utf-8"),
        style=(ASSETS / "results" / "page.css").read_text(encoding="utf-8"),
        script=(ASSETS / "results" / "page.js").read_text(encoding="utf-8"),
        icon=(ASSETS / "theme" / "icon.svg").read_text(encoding="utf-8"),
    )
    try:
        _write(out, text)
    except OSError as error:
        why = error.strerror or error
        raise Refused(f"--out {out} cannot be written ({why}); make room or check its permissions") from None
    typer.echo(str(out))


def _same(out: Path, path: Path) -> bool:
    """By whatever names: links count."""
    try:
        return out.samefile(path)
    except OSError:
        return False


def _write(out: Path, text: str) -> None:
    """The page is there whole, or what was there before."""
    if out.exists() and not out.is_file():
        # A pipe or a device cannot be replaced.
        out.write_text(text, encoding="utf-8")
        return
    place = out.resolve()
    draft = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        draft.write_text(text, encoding="utf-8")
        os.replace(draft, place)
    finally:
        draft.unlink(missing_ok=True)


def read_report(path: Path) -> ShownReport:
    """The report in a file's last line. Raises Refused with what is wrong about it."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_BYTES + 1)
        if len(content) > LARGEST_BYTES:
            raise _Wrong("is larger than any report")
        lines = content.decode("utf-8-sig").strip().splitlines()
        if not lines:
            raise _Wrong("is empty")
        report = shown(_of_characters(json.loads(lines[-1], parse_constant=_no_constant)))
        _drawn(report)
        return report
    except OSError as error:
        raise Refused(f"{path} cannot be read ({error.strerror}); give reports of parkdeck bench --json") from None
    except _Wrong as wrong:
        raise Refused(f"{path} {wrong}; give the last line of parkdeck bench NAME --json") from None
    except (ValueError, OverflowError, RecursionError):
        raise Refused(f"{path} is not JSON; give the last line of parkdeck bench NAME --json") from None


def _of_characters(report: Any) -> Any:
    """Raises _Wrong for half of a surrogate pair, which JSON can name and no page can hold."""
    try:
        json.dumps(report, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise _Wrong("holds a text with half of a character") from None
    return report


def _drawn(report: ShownReport) -> None:
    """Raises _Wrong for figures that a chart's own, larger ones cannot be made of."""
    try:
        json.dumps(specs(report.bench, report.rows, "light"), allow_nan=False)
    except (ValueError, OverflowError):
        raise _Wrong("has figures that are too large for a chart") from None


def _no_constant(name: str) -> NoReturn:
    raise _Wrong(f"holds {name}, which no report does")


def shown(report: Any) -> ShownReport:
    """A parsed report as the page shows it. Raises _Wrong."""
    if not isinstance(report, dict) or "bench" not in report:
        raise _Wrong("is no report of a bench")
    rows = _listed(report, "rows")
    for row in rows:
        if not isinstance(row, dict) or not all(_is_cell(cell) for cell in row.values()):
            raise _Wrong("has a row that is not one of figures and texts")
    columns = list(dict.fromkeys(name for row in rows for name in row))
    notes = _listed(report, "notes")
    if not all(isinstance(note, str) for note in notes):
        raise _Wrong("has a note that is no text")
    return ShownReport(
        bench=_text(report, "bench"),
        at=_when(_text(report, "at")),
        command=_text(report, "command"),
        depth=_text(report, "depth"),
        backend=_text(report, "backend"),
        machine=_pairs(report, "machine"),
        versions=_pairs(report, "versions"),
        columns=tuple(name.replace("_", " ") for name in columns),
        numeric=tuple(all(isinstance(row.get(name), int | float | None) for row in rows) for name in columns),
        cells=tuple(tuple(cell_text(row.get(name)) for name in columns) for row in rows),
        rows=tuple(rows),
        targets=tuple(_target(one) for one in _listed(report, "targets")),
        notes=tuple(notes),
        error=_text(report, "error") if "error" in report else "",
    )


def _target(one: Any) -> ShownTarget:
    if not isinstance(one, dict):
        raise _Wrong("has a target that is none")
    value: Any = one.get("value")
    wanted: Any = one.get("target")
    op: Any = one.get("op")
    if not isinstance(op, str) or op not in OPS or not _is_number(wanted) or not (value is None or _is_number(value)):
        raise _Wrong("has a target that is none")
    made = Target(_text(one, "name"), math.nan if value is None else value, wanted, op)
    if one.get("met") is not made.met:
        raise _Wrong(f"says of the target {made.name!r} what its figures do not")
    return ShownTarget(made.name, cell_text(value), f"{op} {cell_text(wanted)}", made.met)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_cell(value: Any) -> bool:
    return value is None or isinstance(value, str | bool) or _is_number(value)


def _listed(report: dict[str, Any], name: str) -> list[Any]:
    found = report.get(name)
    if not isinstance(found, list):
        raise _Wrong(f"has no {name}")
    return found


def _text(report: dict[str, Any], name: str) -> str:
    found = report.get(name)
    if not isinstance(found, str) or not found.strip():
        raise _Wrong(f"has no {name}")
    return found


def _pairs(report: dict[str, Any], name: str) -> tuple[tuple[str, str], ...]:
    found = report.get(name)
    if not isinstance(found, dict) or not all(_is_cell(value) for value in found.values()):
        raise _Wrong(f"has no {name}")
    return tuple((key.replace("_gib", ", GiB").replace("_", " "), _plain(value)) for key, value in found.items())


def _plain(value: Cell) -> str:
    return value if isinstance(value, str) else cell_text(value)


def _when(text: str) -> str:
    """ISO 8601 with its offset as 'YYYY-MM-DD hh:mm UTC'."""
    try:
        at = datetime.fromisoformat(text)
        if at.tzinfo is None:
            raise ValueError(text)
        return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (ValueError, OverflowError):
        raise _Wrong(f"has {text[:40]!r} where its date belongs") from None
