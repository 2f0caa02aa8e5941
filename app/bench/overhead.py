"""What looking costs: engine tokens per second with no page, with one and with three scripted tabs at 2 Hz, with a real
browser, and with recording on and off.

Everything alternates with spans without it, on one engine under one steady load; the medians of the ratios count.
"""

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from app.bench.chromium import BLANK, Chromium, chromium
from app.bench.page_client import REFRESH_HZ, PageClient, Seen
from app.bench.report import Bench
from app.bench.served import Served
from app.bench.spans import Cost, Meter, Span, alternation, cost, median_speed
from app.bench.steady import AGENTS, TURN_TOKENS, steady_load
from app.bench.switched import Recorded
from engine.errors import Refused
from engine.stats import quantile

NONE, ONE, THREE, BROWSER = "no page", "one client", "three clients", "one Chromium"
OFF, ON = "recording off", "recording on"
CLIENTS = {NONE: 0, ONE: 1, THREE: 3}
MOST = {ONE: 0.07, THREE: 0.15, ON: 0.01}
WARM_TURNS = 2
WARM_CHARTS = 2
LEAST_REFRESH_HZ = REFRESH_HZ / 2
CHART_SHOWN = "document.querySelectorAll('.parkdeck-plot .scatterlayer .trace').length > 0"
LAST_STEP = """[...document.querySelectorAll('*')].map((e) => e.shadowRoot?.querySelector('.top .line')?.textContent)
.find(Boolean)?.match(/step ([0-9,]+)/)?.[1]"""


@dataclass(frozen=True, slots=True)
class Plan:
    """Rounds of each alternation, and the length of a span in turns' tokens. `browser` 0: none is started."""

    rounds: int
    turns: int
    browser: int
    pairs: int


PLANS = {"quick": Plan(1, 2, 0, 2), "default": Plan(4, 3, 2, 20), "full": Plan(12, 6, 6, 100)}


@dataclass(frozen=True, slots=True)
class Looked:
    """A span with what else went on in it and in the moment before it, `seconds` in all. CPU in seconds per second, of
    all cores; `seen`: of each client."""

    span: Span
    seconds: float
    server_cpu: float
    client_cpu: float = 0.0
    browser_cpu: float | None = None
    seen: tuple[Seen, ...] = ()


def run(bench: Bench) -> None:
    """One row per kind of span; targets on one client, three clients and recording."""
    plan = PLANS[bench.depth]
    bench.say("recording on and off, on one engine")
    recorded, writing_s = recording_spans(bench.backend, plan)
    bench.say("the app in a process of its own, and its pages")
    with Served(bench.backend, steady_load()) as served:
        served.wait_ready()
        meter = Meter(served.read, TURN_TOKENS)
        meter.warm_up(WARM_TURNS)
        looked = page_spans(served, meter, plan, bench.say)
        watched = browser_spans(served, meter, plan, bench)
    report(bench, looked, watched, recorded)
    if writing_s is not None:
        bench.note(
            f"{ON}: the writing thread takes {1e3 * writing_s:.1f} ms of CPU a second, "
            f"{writing_s / (os.cpu_count() or 1):.2%} of this machine's cores."
        )


def recording_spans(backend: str, plan: Plan) -> tuple[list[Span], float | None]:
    """Beside the spans the CPU seconds of one second's writing. Raises Refused when nothing was recorded while it was
    on."""
    spans = []
    with Recorded(backend) as recorded:
        meter = Meter(recorded.read, TURN_TOKENS)
        meter.warm_up(WARM_TURNS)
        for kind in alternation([ON], plan.pairs, OFF):
            recorded.switch.on = kind == ON
            spans.append(meter.span(kind, 1))
        if not recorded.stored():
            raise Refused("recording was on and stored nothing; its cost cannot be told")
        writing_s = recorded.writing_s()
    return spans, writing_s


def page_spans(served: Served, meter: Meter, plan: Plan, say: Callable[[str], None]) -> list[Looked]:
    """The first page of a process imports what it draws with; that one is not counted."""
    with tabs(served.url, 1):
        pass
    found = []
    for kind in alternation([ONE, THREE], plan.rounds, NONE):
        with tabs(served.url, CLIENTS[kind]) as clients:
            found.append(look(served, meter, kind, plan.turns, clients))
        say(f"{kind}: {found[-1].span.tokens_per_s:.1f} tok/s")
    return found


@contextlib.contextmanager
def tabs(url: str, count: int) -> Iterator[list[PageClient]]:
    """So many clients, each of which has had its first charts."""
    with contextlib.ExitStack() as opened:
        clients = [opened.enter_context(contextlib.closing(PageClient(url))) for _ in range(count)]
        for client in clients:
            client.wait(lambda seen: seen.charts >= WARM_CHARTS)
        yield clients


def look(
    served: Served, meter: Meter, kind: str, turns: int, clients: Sequence[PageClient], browser: Chromium | None = None
) -> Looked:
    """One span. Raises Refused when a client did not get the charts that it asked for."""
    before = [client.seen() for client in clients]
    server, own, wall = served.cpu_seconds(), time.process_time(), time.monotonic()
    shown = browser.cpu_seconds() if browser else 0.0
    span = meter.span(kind, turns)
    seconds = time.monotonic() - wall
    seen = tuple(client.seen().since(start) for client, start in zip(clients, before, strict=True))
    for one in seen:
        check(one, seconds)
    return Looked(
        span,
        seconds,
        (served.cpu_seconds() - server) / seconds,
        (time.process_time() - own) / seconds,
        (browser.cpu_seconds() - shown) / seconds if browser else None,
        seen,
    )


def check(seen: Seen, seconds: float) -> None:
    """A page that is idle, or far behind what it is asked for, costs less than the one that is meant."""
    if seen.charts < LEAST_REFRESH_HZ * seconds or seen.points < 2:
        raise Refused(
            f"a client got {seen.charts} charts of {seen.points} points in {seconds:.1f} s; at {REFRESH_HZ:g} Hz "
            f"at least {LEAST_REFRESH_HZ * seconds:.0f} are needed: the page is not the one to be measured"
        )


def browser_spans(served: Served, meter: Meter, plan: Plan, bench: Bench) -> list[Looked]:
    """None where there is no Chromium, and at --quick; the bench's notes say so."""
    path = chromium()
    if not plan.browser or path is None:
        bench.note(f"{BROWSER}: n/a, " + ("left out at --quick." if not plan.browser else "none was found."))
        return []
    found = []
    with Chromium(path) as browser:
        for kind in alternation([BROWSER], plan.browser, NONE):
            browser.open(served.url if kind == BROWSER else BLANK)
            if kind == BROWSER:
                browser.wait_for(CHART_SHOWN, "chart")
            step = browser.value(LAST_STEP)
            found.append(look(served, meter, kind, plan.turns, (), browser))
            if kind == BROWSER and browser.value(LAST_STEP) == step:
                raise Refused(f"the browser's page stood still at step {step}")
            bench.say(f"{kind}: {found[-1].span.tokens_per_s:.1f} tok/s")
    return found


def report(bench: Bench, looked: Sequence[Looked], watched: Sequence[Looked], recorded: Sequence[Span]) -> None:
    pages = [one.span for one in looked]
    for kind in (NONE, ONE, THREE):
        page_row(bench, kind, looked, None if kind == NONE else cost(pages, kind, NONE))
    if watched:
        page_row(bench, BROWSER, watched, cost([one.span for one in watched], BROWSER, NONE))
    for kind in (OFF, ON):
        found = None if kind == OFF else cost(recorded, ON, OFF)
        bench.row(**speed_cells(kind, recorded, found))
    bench.note(
        f"Load: {AGENTS} turns in a closed loop, {TURN_TOKENS} tokens each. Cost: 1 - median ratio to the spans beside "
        f"it, in brackets its quartiles. CPU: cores in use. Clients refresh at {REFRESH_HZ:g} Hz, a browser as its "
        f"page says; charts and kB are of each client."
    )
    if bench.quick:
        bench.note(f"{ON}: no target at --quick, whose few spans cannot tell {MOST[ON]:.0%}.")
    for kind, spans in ((ONE, pages), (THREE, pages), (ON, recorded)):
        if kind == ON and bench.quick:
            continue
        bench.target(f"{kind}: share of tok/s lost", round(cost(spans, kind, _base(kind)).share, 4), "<=", MOST[kind])


def page_row(bench: Bench, kind: str, looked: Sequence[Looked], lost: Cost | None) -> None:
    mine = [one for one in looked if one.span.kind == kind]
    seen = [(one, each) for one in mine for each in one.seen]
    per_s = [(each.charts / one.seconds, each.nbytes / one.seconds) for one, each in seen]
    bench.row(
        **speed_cells(kind, [one.span for one in mine], lost),
        server_cpu=_median([one.server_cpu for one in mine]),
        bench_cpu=_median([one.client_cpu for one in mine]),
        browser_cpu=_median([one.browser_cpu for one in mine if one.browser_cpu is not None]),
        charts_per_s=_median([charts for charts, _ in per_s]),
        kB_per_s=_median([nbytes / 1e3 for _, nbytes in per_s]),
        chart_points=max((each.points for _, each in seen), default=None),
    )


def speed_cells(kind: str, spans: Sequence[Span], lost: Cost | None) -> dict[str, str | int | float | None]:
    return {
        "span": kind,
        "spans": sum(span.kind == kind for span in spans),
        "tok_per_s": round(median_speed(spans, kind), 1),
        "cost": None if lost is None else f"{lost.share:.1%} ({lost.low:.1%} to {lost.high:.1%})",
    }


def _base(kind: str) -> str:
    return OFF if kind == ON else NONE


def _median(values: Sequence[float]) -> float | None:
    found = quantile(values, 0.5)
    return None if found is None else round(found, 2)
