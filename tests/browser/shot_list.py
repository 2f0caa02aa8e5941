"""Every page and state that is worth a picture: which scripted engine, which address, and what a user does there."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from playwright.sync_api import Page

from tests.browser import shot_acts as acts
from tests.browser.scenes import NO_ENGINE, STAGES

Act = Callable[[Page], None]
CHART, TILES, TURNS, FIGURES = ".parkdeck-plot .main-svg", ".tile .value", ".turns .foot", ".figures-frame td"
SENSED = "text=Measured on this machine"
BLOCKED = {"blocked": "running", "blocked-crowded": "crowded", "blocked-young": "young", "blocked-twin": "twin"}
LIVE = (CHART, TILES, TURNS, SENSED)


@dataclass(frozen=True, slots=True)
class Shot:
    """`ready`: selectors that are there once the page is drawn; `act`: what then is done; `prepare`: what before it
    is opened; `whole`: as high as the page, else the window; `silent`: the server does not answer; `console`: parts of
    errors that belong to the state."""

    name: str
    scene: str
    address: str = ""
    query: str = ""
    ready: tuple[str, ...] = LIVE
    act: Act | None = None
    prepare: Act | None = None
    whole: bool = True
    silent: bool = False
    console: tuple[str, ...] = ()


def _live() -> list[Shot]:
    """States of the engine."""
    names = ("running", "full", "crowded", "busy", "empty", "stalled", "failed", "no-card", "twin")
    shots = [Shot(name, name) for name in names]
    shots += [Shot(f"starting-{stage}", f"starting-{stage}", ready=(SENSED,)) for stage in STAGES]
    shots += [Shot(name, name, ready=(SENSED,)) for name in ("offline", "stopped")]
    shots.append(Shot("no-deck", NO_ENGINE, ready=("[data-testid=stAlert]",)))
    return shots


def _looks() -> list[Shot]:
    """What a user makes of the Live page."""
    missing = ".parkdeck-missing p"
    return [
        Shot("no-answer", "ticking", whole=False, silent=True),
        Shot("paused", "full", act=acts.pause),
        Shot("this-machine", "full", query="units=machine"),
        Shot("all-events", "running", query="events=all&window=2min"),
        Shot("keys", "running", act=acts.keys, whole=False),
        Shot("preview-draft", "full", act=acts.draft),
        Shot("preview-refused", "full", act=acts.refused_draft),
        Shot("refused-knob", "running", act=acts.refused_knob),
        Shot("policy-knobs", "running", act=acts.choose_policy),
        Shot("effect-growing", "growing"),
        Shot("effect-done", "done"),
        Shot("effect-noise", "noise"),
        Shot("effect-undone", "done", act=acts.undo),
        Shot("open-turn", "full", act=acts.open_turn),
        Shot("full-screen", "full", act=acts.full_screen, whole=False),
        Shot("chart-hover", "full", act=acts.hover_chart, whole=False),
        Shot("no-charts", "running", ready=(missing, TILES, TURNS), prepare=acts.no_chart_library,
             console=("plotly.min.js",)),
    ]  # fmt: skip


def _paper() -> list[Shot]:
    """Blocked, Planner, Prices, Policies and What-if."""
    ready = (CHART, FIGURES)
    shots = [
        *(Shot(name, scene, "blocked", ready=(CHART, TILES)) for name, scene in BLOCKED.items()),
        Shot("blocked-empty", "empty", "blocked", ready=(TILES, "text=Nothing has run yet")),
        Shot("blocked-no-engine", NO_ENGINE, "blocked", ready=(TILES, "text=No engine runs")),
        Shot("planner", "moving", "planner", ready=ready),
        Shot("planner-no-engine", NO_ENGINE, "planner", ready=ready),
        Shot("planner-edited", "moving", "planner", ready=ready, act=acts.edit_card),
        Shot("planner-bad-field", "moving", "planner", ready=ready, act=acts.bad_field),
        Shot("planner-editor", "moving", "planner", ready=ready, act=acts.bad_figure, whole=False),
        Shot("prices", "moving", "prices", ready=ready),
        Shot("prices-no-engine", NO_ENGINE, "prices", ready=ready),
        Shot("prices-edited", "moving", "prices", ready=ready, act=acts.edit_card),
        Shot("prices-bad-field", "moving", "prices", ready=ready, act=acts.bad_context),
        Shot("what-if", "running", "what-if", ready=("text=Press Run grid",)),
        Shot("what-if-run", "running", "what-if", ready=("text=Press Run grid",), act=acts.run_grid),
        Shot("what-if-bad-field", "running", "what-if", ready=("text=Press Run grid",), act=acts.bad_axis),
        Shot("what-if-no-engine", NO_ENGINE, "what-if", ready=("text=Press Run grid",)),
        Shot("policies", "running", "policies", ready=("text=Press Compare policies",)),
        Shot(
            "policies-compared", "full", "policies", ready=("text=Press Compare policies",), act=acts.compare_policies
        ),
        Shot("policies-applied", "running", "policies", ready=("text=Press Compare policies",), act=acts.apply_policy),
        Shot("policies-no-engine", NO_ENGINE, "policies", ready=("text=Press Compare policies",)),
        Shot("policies-twin", "twin", "policies", ready=("text=Press Compare policies",)),
        Shot("prices-measuring", "measuring", "prices", ready=ready),
    ]
    # Streamlit asks below a page's address first, then above it.
    asked = ("_stcore/health", "_stcore/host-config")
    return [replace(shot, console=asked) for shot in shots]


SHOTS = {shot.name: shot for shot in (*_live(), *_looks(), *_paper())}
