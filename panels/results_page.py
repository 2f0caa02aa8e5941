"""The results page: one HTML file from what benches printed, with its charts, styles and chart library inside. Pure."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from html import escape
from typing import Any, Literal

from panels.palette import FONT, ThemeName, palette
from panels.results_charts import Row, specs

THEMES: tuple[ThemeName, ...] = ("dark", "light")
Verdict = Literal["met", "missed", "measured", "could not run"]


@dataclass(frozen=True, slots=True)
class ShownTarget:
    """A promise with its figures as they were printed."""

    name: str
    value: str
    wanted: str
    met: bool


@dataclass(frozen=True, slots=True)
class ShownReport:
    """One bench's report. `at`: UTC, in words; `machine`, `versions`: names and values; `columns`, `cells`: the table
    as printed; `rows`: its figures, for the charts; `error`: why it could not run."""

    bench: str
    at: str
    command: str
    depth: str
    backend: str
    machine: tuple[tuple[str, str], ...]
    versions: tuple[tuple[str, str], ...]
    columns: tuple[str, ...]
    numeric: tuple[bool, ...]
    cells: tuple[tuple[str, ...], ...]
    rows: tuple[Row, ...]
    targets: tuple[ShownTarget, ...]
    notes: tuple[str, ...]
    error: str = ""

    @property
    def verdict(self) -> Verdict:
        if self.error:
            return "could not run"
        if not self.targets:
            return "measured"
        return "met" if all(target.met for target in self.targets) else "missed"


def page(reports: Sequence[ShownReport], *, plotly: str, style: str, script: str, icon: str) -> str:
    """`plotly`, `style`, `script`, `icon`: the texts of the files that the page carries inside."""
    charts: dict[str, dict[str, Any]] = {}
    sections = "\n".join(_section(report, place, charts) for place, report in enumerate(reports))
    drawn = ""
    if charts:
        # "<" in a name must not end the element that it stands in.
        data = json.dumps(charts, allow_nan=False).replace("<", "\\u003c")
        drawn = (
            f'<script type="application/json" id="charts">{data}</script>\n'
            f"<script>{plotly}</script>\n<script>{script}</script>"
        )
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>Parkdeck: measured results</title>
<style>{_colours()}{style}</style></head>
<body><main>
<header class="head">{icon}<div><h1>Measured results</h1>
<p>Parkdeck, from the reports of {_counted(len(reports))}. Each figure was printed by its section's command.</p></div>
</header>
{_machines(reports)}
{_overview(reports)}
{sections}
</main>{drawn}</body></html>
"""


def _colours() -> str:
    """The palette as custom properties, light first, dark where the reader prefers it."""
    sheets = {theme: palette(theme) for theme in THEMES}
    rules = {
        theme: "".join(f"--{field.name.replace('_', '-')}:{getattr(sheet, field.name)};" for field in fields(sheet))
        for theme, sheet in sheets.items()
    }
    font = f"--font:{FONT};"
    return f":root{{{font}{rules['light']}}}@media (prefers-color-scheme: dark){{:root{{{rules['dark']}}}}}"


def _counted(reports: int) -> str:
    return "one bench" if reports == 1 else f"{reports} benches"


def _machines(reports: Sequence[ShownReport]) -> str:
    """The machine once where all ran on one."""
    machines = {report.machine for report in reports}
    return _facts(reports[0].machine) if len(machines) == 1 else ""


def _facts(pairs: Iterable[tuple[str, str]]) -> str:
    cells = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in pairs)
    return f'<dl class="facts">{cells}</dl>'


def _overview(reports: Sequence[ShownReport]) -> str:
    rows = "".join(
        f'<tr><td><a href="#{_anchor(place)}">{escape(report.bench)}</a></td><td>{_badge(report)}</td>'
        f"<td>{escape(_score(report))}</td><td>{escape(report.at)}</td></tr>"
        for place, report in enumerate(reports)
    )
    head = "<tr><th>bench</th><th>verdict</th><th>targets</th><th>run</th></tr>"
    return f'<div class="scroll"><table class="overview"><thead>{head}</thead><tbody>{rows}</tbody></table></div>'


def _anchor(place: int) -> str:
    return f"bench-{place + 1}"


def _badge(report: ShownReport) -> str:
    verdict = report.verdict
    return f'<span class="badge {verdict.replace(" ", "-")}">{verdict}</span>'


def _score(report: ShownReport) -> str:
    if not report.targets:
        return "none"
    met = sum(target.met for target in report.targets)
    return f"{met} of {len(report.targets)} met"


def _section(report: ShownReport, place: int, charts: dict[str, dict[str, Any]]) -> str:
    drawn = _charts(report, place, charts)
    parts = [
        f'<section id="{_anchor(place)}"><div class="title"><h2>{escape(report.bench)}</h2>{_badge(report)}'
        f'<span class="when">{escape(report.at)}</span></div>',
        f'<p class="command"><code>{escape(report.command)}</code></p>',
        f'<p class="error">{escape(report.error)}</p>' if report.error else "",
        drawn,
        _targets(report.targets),
        _folded(report) if drawn else _table(report),
        "".join(f'<p class="note">{escape(note)}</p>' for note in report.notes),
        _made_with(report),
        "</section>",
    ]
    return "\n".join(part for part in parts if part)


def _charts(report: ShownReport, place: int, charts: dict[str, dict[str, Any]]) -> str:
    by_theme = {theme: specs(report.bench, report.rows, theme) for theme in THEMES}
    frames = []
    for number, spec in enumerate(by_theme["light"]):
        name = f"chart-{place + 1}-{number + 1}"
        charts[name] = {theme: {k: by_theme[theme][number][k] for k in ("data", "layout")} for theme in THEMES}
        frames.append(f'<div class="chart" id="{name}" role="figure" aria-label="{escape(spec["alt"])}"></div>')
    return f'<div class="charts">{"".join(frames)}</div>' if frames else ""


def _targets(targets: Sequence[ShownTarget]) -> str:
    if not targets:
        return ""
    rows = "".join(
        f'<tr><td>{escape(one.name)}</td><td class="n">{escape(one.value)}</td><td class="n">{escape(one.wanted)}</td>'
        f'<td><span class="badge {"met" if one.met else "missed"}">{"met" if one.met else "missed"}</span></td></tr>'
        for one in targets
    )
    head = '<tr><th>target</th><th class="n">measured</th><th class="n">wanted</th><th></th></tr>'
    return f'<div class="scroll"><table class="targets"><thead>{head}</thead><tbody>{rows}</tbody></table></div>'


def _table(report: ShownReport) -> str:
    if not report.cells:
        return ""
    kinds = [' class="n"' if numeric else "" for numeric in report.numeric]
    head = "".join(f"<th{kind}>{escape(name)}</th>" for name, kind in zip(report.columns, kinds, strict=True))
    rows = "".join(
        "<tr>" + "".join(f"<td{kind}>{escape(cell)}</td>" for cell, kind in zip(row, kinds, strict=True)) + "</tr>"
        for row in report.cells
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def _folded(report: ShownReport) -> str:
    """The table behind its charts."""
    return f"<details><summary>All figures, {len(report.cells)} rows</summary>{_table(report)}</details>"


def _made_with(report: ShownReport) -> str:
    pairs = (*report.machine, ("depth", report.depth), ("backend", report.backend), *report.versions)
    return f"<details><summary>Machine and versions</summary>{_facts(pairs)}</details>"
