"""Whether memory stays flat while the Live page is looked at: the server's, and the browser's that shows it.

The real engine serves a crowd of live turns; a headless Chromium shows the page at 2 Hz, a scripted tab asks for it as
often beside that, and all of them are read every few seconds.
"""

import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass

from app.bench.chromium import Chromium, PageMemory, chromium
from app.bench.crowd import crowd_load
from app.bench.growth import SETTLES_S, Growth, growth
from app.bench.overhead import CHART_SHOWN, tabs
from app.bench.page_client import REFRESH_HZ
from app.bench.report import Bench
from app.bench.served import Served, ServerMemory
from engine.errors import Refused

TURNS = 200
MINUTES = {"quick": 0.5, "default": 30.0, "full": 60.0}
READINGS = 120
SHOWN_READINGS = 12
FLAT_MB = 20.0
MB = 1e6
DRAWN = """(() => {
    const plot = document.querySelector('.parkdeck-plot');
    if (plot && plot.on && !plot.parkdeckCounted) {
        plot.parkdeckCounted = true;
        plot.on('plotly_afterplot', () => { window.parkdeckDrawn = (window.parkdeckDrawn || 0) + 1; });
    }
    return window.parkdeckDrawn || 0;
})()"""
"""How often the page's first chart was drawn since this was asked first."""


@dataclass(frozen=True, slots=True)
class Reading:
    """`at`: seconds since the first; `drawn`, `page` None: no browser."""

    at: float
    server: ServerMemory
    drawn: int | None
    page: PageMemory | None


def run(bench: Bench) -> None:
    """One row per twelfth of the time; a target for each kind of memory. Raises Refused when the page stands still."""
    minutes = bench.options.get("minutes", MINUTES[bench.depth])
    turns = round(bench.options.get("turns", TURNS))
    path = chromium()
    with contextlib.ExitStack() as opened:
        served = opened.enter_context(Served(bench.backend, crowd_load(turns)))
        served.wait_ready()
        (client,) = opened.enter_context(tabs(served.url, 1))
        browser = opened.enter_context(Chromium(path)) if path else None
        if browser:
            browser.open(f"{served.url}/?every={1 / REFRESH_HZ:g}")
            browser.wait_for(CHART_SHOWN, "chart")
        seen = client.seen()
        readings = follow(served, browser, minutes * 60, bench)
        charts = client.seen().since(seen).charts
    report(bench, readings, turns, charts / max(readings[-1].at, 1e-9))


def follow(served: Served, browser: Chromium | None, seconds: float, bench: Bench) -> list[Reading]:
    """Reads for so long, at equal distances."""
    began = time.monotonic()
    readings: list[Reading] = []
    for number in range(READINGS + 1):
        time.sleep(max(0.0, began + number * seconds / READINGS - time.monotonic()))
        drawn = int(browser.value(DRAWN)) if browser else None
        page = browser.memory() if browser else None
        readings.append(Reading(time.monotonic() - began, served.memory(), drawn, page))
        if number and number % (READINGS // SHOWN_READINGS) == 0:
            if drawn is not None and drawn == readings[-READINGS // SHOWN_READINGS].drawn:
                raise Refused("the browser's page stood still; its memory cannot be told")
            bench.say(_progress(readings[-1]))
    return readings


def report(bench: Bench, readings: Sequence[Reading], turns: int, client_hz: float) -> None:
    for one in readings[:: READINGS // SHOWN_READINGS]:
        bench.row(
            minute=round(one.at / 60, 1),
            live_turns=one.server.live_turns,
            threads=one.server.threads,
            server_MB=round(one.server.own / MB, 1),
            host_pool_MB=round(one.server.host_pool / MB, 1),
            renderer_MB=round(one.page.renderer / MB, 1) if one.page else None,
            js_heap_MB=round(one.page.heap / MB, 2) if one.page else None,
            dom_nodes=one.page.nodes if one.page else None,
        )
    measures = {"server": [one.server.own / MB for one in readings]}
    pages = [one.page for one in readings if one.page]
    if pages:
        measures |= {"renderer": [p.renderer / MB for p in pages], "JS heap": [p.heap / MB for p in pages]}
    times = [one.at for one in readings]
    found = {name: growth(times, values) for name, values in measures.items()}
    for name, grown in found.items():
        if grown is not None:
            bench.note(_said(name, grown))
    drawn = readings[-1].drawn
    browser = f"Chromium drew {drawn / readings[-1].at:.2f} charts a second" if drawn else "no Chromium was found"
    bench.note(
        f"Load: {turns} live turns. {browser}, the scripted tab got {client_hz:.2f} a second of the {REFRESH_HZ:g} it "
        f"asks for. The server is its process without the pages of the host pool, which turns fill up to its "
        f"size. The browser is read right after a collection. Flat: less than {FLAT_MB:g} MB grown from minute "
        f"{SETTLES_S / 60:g} (the middle of a shorter run) to the end, medians of a quarter of that time each."
    )
    if bench.quick:
        bench.note("No target at --quick: half a minute cannot tell.")
        return
    for name, grown in found.items():
        bench.target(f"{name}: MB grown", round(grown.grown, 2) if grown else float("nan"), "<=", FLAT_MB)


def _progress(one: Reading) -> str:
    page = f", renderer {one.page.renderer / MB:.1f}, JS heap {one.page.heap / MB:.2f}" if one.page else ""
    return f"{one.at / 60:.1f} min: server {one.server.own / MB:.1f} MB{page}"


def _said(name: str, grown: Growth) -> str:
    word = "flat" if grown.grown <= FLAT_MB else "not flat"
    return (
        f"{name}: {word}, {grown.start:.1f} to {grown.end:.1f} MB ({grown.grown:+.1f}); second half "
        f"{grown.per_hour:+.1f} MB/h (quartiles {grown.low:+.1f} to {grown.high:+.1f})."
    )
