"""Parkdeck's own elements on a Streamlit page (components v2): small scripts of assets/js on kept DOM nodes."""

import json
import re
from functools import cache
from typing import Any

import streamlit as st

from panels import asked, assets
from panels.packing import lean
from panels.palette import Palette, ThemeName

PLOT_HTML = """<div class="parkdeck-chart"><div class="parkdeck-plot" style="min-height:200px"></div>
<div class="parkdeck-missing" hidden><p></p><button type="button">Try again</button></div></div>"""
TILES_HTML = '<div class="tiles-frame"><div class="tiles"></div></div>'
SIDE_HTML = """<div class="side-frame"><div class="side">
<h4>Host pool</h4><div class="pool-line"></div><div class="pool-tokens"></div>
<div class="pool-bar"><div class="pool-fill"></div></div>
<h4>Events <span class="aside">UTC<span class="newest">, newest first</span></span>
<button class="newer" type="button" hidden>newer ▴</button></h4>
<div class="none" hidden></div>
<div class="events" role="list" tabindex="0" aria-label="Events, newest first, times in UTC"></div></div></div>"""
TURNS_HTML = """<div class="turns-frame"><div class="turns"><div class="bar"><h4>Turns</h4>
<input class="filter" type="search" placeholder="Filter: agent, tool, phase, tier, priority" aria-label="Filter turns">
<div class="chips" role="group" aria-label="Phases and tiers"></div></div><div class="empty"></div>
<div class="scroll"><table hidden><thead><tr></tr></thead><tbody></tbody></table></div>
<button class="further" type="button" hidden></button>
<div class="foot"><span class="said"><span class="message" role="status"></span>
<button class="undo" type="button" hidden>Undo</button></span><span class="more"></span></div></div>
<section class="detail" aria-label="The open turn" tabindex="-1" hidden></section></div>"""

KEYS = (
    ("p", "pause, go on"),
    ("r", "refresh now"),
    ("1 2 3", "time window"),
    ("u", "units"),
    ("e", "which events"),
    ("f", "full screen of the chart"),
    ("/", "filter the turns"),
    ("Esc", "close what is open"),
    ("?", "these keys"),
)
TOP_HTML = f"""<header class="top">
<div class="named"><h3>Live</h3><span class="badge state"></span>
<span class="badge modelled" hidden>modelled</span><span class="line"></span>
<div class="tools" role="toolbar" aria-label="Refresh and keys"><span class="fresh" role="status"></span>
<button class="again" type="button" aria-label="Refresh now" hidden>Refresh</button>
<button class="pause" type="button" aria-label="Pause the refresh">Pause</button>
<select class="every" aria-label="Refresh period"></select>
<button class="help" type="button" aria-label="Keys" title="Keys">?</button></div></div>
<div class="looks"><fieldset class="choice" data-name="window"><legend>Time window</legend></fieldset>
<fieldset class="choice" data-name="units"><legend>Units</legend></fieldset>
<fieldset class="choice" data-name="events"><legend>Events</legend></fieldset></div>
<div class="warning" role="status" hidden></div>
<dialog aria-label="Keys"><h4>Keys</h4><dl>{"".join(f"<dt><kbd>{key}</kbd></dt><dd>{what}</dd>" for key, what in KEYS)}
</dl><button class="close" type="button">Close</button></dialog></header>"""
EFFECT_HTML = """<div class="effect-frame"><section class="effect" aria-label="Effect of the latest change">
<div class="head"><h4></h4><span class="meta"></span>
<span class="buttons"><button class="undo" type="button">Undo</button>
<button class="dismiss" type="button">Dismiss</button></span></div>
<ul class="cells"></ul>
<div class="foot"><span class="told" role="status"></span><span class="note"></span></div></section></div>"""

TOUR_HTML = """<section class="tour" aria-label="Tour of six steps" hidden><div class="head">
<span class="where"></span><ol class="dots" aria-hidden="true"></ol><span class="led"></span>
<button class="leave" type="button"></button></div>
<div class="body"><div class="words" aria-live="polite"><h4></h4><p class="does"></p>
<p class="watch"><span class="dot"></span><span class="place"></span></p></div>
<div class="result"><p class="said" role="status"></p><p class="refused" role="alert"></p>
<div class="buttons"><button class="do" type="button"></button><button class="back" type="button">Back</button>
<button class="next" type="button"></button></div></div></div></section>"""

MARK_HTML = '<div class="slider-mark"><div class="tick"></div><div class="said"></div></div>'
FIGURES_HTML = """<div class="figures-frame"><table class="figures"><thead><tr></tr></thead><tbody></tbody></table>
<ul class="notes"></ul></div>"""


def live_plot(figure: dict[str, Any], *, key: str, on_asked: asked.Handler | None = None) -> None:
    """A chart that keeps zoom and legend over updates, fills the screen and goes out as PNG and CSV. `figure`: data and
    layout of plotly, and what panels/chart.py adds; `narrow`: the parts of its layout that differ where the chart is
    less than `below` pixels wide. `on_asked`: a press on a mark asks for its `cell`, the mark's customdata."""
    # Plotly's mode bar needs the page's styles, so no shadow root here.
    mount = _mount("parkdeck_plot", PLOT_HTML, "live_plot.js", "chart.css", isolated=False)
    if on_asked is None:
        mount(key=key, data=json.dumps(lean(figure)))
        return
    callback, taken = asked.taking(key, on_asked)
    mount(key=key, data=json.dumps(lean(figure) | {"taken": taken}), on_asked_change=callback)


def tiles(data: dict[str, Any], *, key: str) -> None:
    _mount("parkdeck_tiles", TILES_HTML, "tiles.js")(key=key, data=data)


def side(data: dict[str, Any], *, key: str) -> None:
    _mount("parkdeck_side", SIDE_HTML, "side.js")(key=key, data=data)


def downloads(data: dict[str, Any], *, key: str) -> None:
    _mount("parkdeck_downloads", '<div class="downloads"></div>', "downloads.js")(key=key, data=data)


def turns(data: dict[str, Any], *, key: str, on_asked: asked.Handler) -> None:
    """Asks with a verb and its turn; `look` is for the turn to open, None to close the one that is."""
    _asking(_mount("parkdeck_turns", TURNS_HTML, "turns.js"), data, key, on_asked)


def top(data: dict[str, Any], *, key: str, on_asked: asked.Handler) -> None:
    """Asks to `set` a change of the page state, and for the figures `again`."""
    _asking(_mount("parkdeck_top", TOP_HTML, "top.js"), data, key, on_asked)


def pulse(data: dict[str, Any], *, key: str, on_beat: Any) -> None:
    """Nothing to see. `data`: the number of the last beat that was heard, and their period in ms, 0 for none. The next
    one's number is in st.session_state[key].beat when the callback runs."""
    mount = _mount("parkdeck_pulse", '<div class="pulse"></div>', "pulse.js", None, isolated=False)
    mount(key=key, data=data, on_beat_change=on_beat)


def effect(data: dict[str, Any], *, key: str, on_asked: asked.Handler) -> None:
    """Asks to `undo` or `dismiss` a change, by its key."""
    _asking(_mount("parkdeck_effect", EFFECT_HTML, "effect.js"), data, key, on_asked)


def tour(data: dict[str, Any], *, key: str, on_asked: asked.Handler) -> None:
    """The band of the tour; nothing is drawn in mode none. Asks with the verb of a press."""
    _asking(_mount("parkdeck_tour", TOUR_HTML, "tour.js"), data, key, on_asked)


def figures(data: dict[str, Any], *, key: str) -> None:
    """A table of figures, numbers at the right. `data`: head (texts), rows (label, hint, cells of text and tone), notes
    (texts below), colours."""
    _mount("parkdeck_figures", FIGURES_HTML, "figures.js")(key=key, data=data)


def slider_mark(data: dict[str, Any], *, key: str) -> None:
    """A mark below a slider of the same width. `data`: place from 0 to 1 along it, or None for no mark; text."""
    _mount("parkdeck_slider_mark", MARK_HTML, "slider_mark.js")(key=key, data=data)


def file_name(text: str) -> str:
    """A name for a file that a browser saves: letters, digits, dot, dash."""
    return re.sub(r"[^A-Za-z0-9.-]+", "-", text).strip("-.")[:80]


def theme() -> ThemeName:
    """The theme that this tab shows."""
    return "light" if st.context.theme.type == "light" else "dark"


def colours(theme: Palette) -> dict[str, str]:
    """The palette as --pd-* properties."""
    return {name: getattr(theme, name) for name in Palette.__dataclass_fields__}


def _asking(mount: Any, data: dict[str, Any], key: str, on_asked: asked.Handler) -> None:
    """An element that asks. `on_asked` runs before the page is drawn again."""
    callback, taken = asked.taking(key, on_asked)
    mount(key=key, data=data | {"taken": taken}, on_asked_change=callback)


@cache
def _mount(name: str, html: str, script: str, style: str | None = "components.css", *, isolated: bool = True) -> Any:
    """An element is sent whole with each refresh that changes it, so its script and style go by address."""
    css = assets.style(style) if style else None
    return st.components.v2.component(name, html=html, css=css, js=assets.script(script), isolate_styles=isolated)
