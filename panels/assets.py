"""What a browser fetches once and keeps: the scripts and styles of Parkdeck's own elements, under a path that names
their version, so that an element on the page need not carry them again with each refresh."""

import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

ASSETS = Path(__file__).resolve().parent.parent / "assets"
FILES: Mapping[str, tuple[str, ...]] = {
    "chart.css": ("theme/chart.css",),
    "components.css": ("theme/components.css",),
    "downloads.js": ("js/downloads.js",),
    "effect.js": ("js/leaving.js", "js/asked.js", "js/effect.js"),
    "figures.js": ("js/figures.js",),
    "live_plot.js": (
        "js/leaving.js", "js/asked.js", "js/chart_file.js", "js/chart_scale.js", "js/chart_screen.js",
        "js/live_plot.js",
    ),
    "pulse.js": ("js/leaving.js", "js/pulse.js"),
    "side.js": ("js/side.js",),
    "slider_mark.js": ("js/slider_mark.js",),
    "tiles.js": ("js/tiles.js",),
    "top.js": ("js/leaving.js", "js/asked.js", "js/top.js"),
    "tour.js": ("js/leaving.js", "js/asked.js", "js/tour.js"),
    "turns.js": ("js/leaving.js", "js/asked.js", "js/turn_detail.js", "js/turns_order.js", "js/turns.js"),
}  # fmt: skip
"""Name on the server -> the files that it is made of, in their order; of scripts the last has the default export."""


@cache
def content(name: str) -> str:
    """The text of one of FILES, as it was when it was first asked for. Raises KeyError for any other name."""
    return "\n".join((ASSETS / part).read_text(encoding="utf-8") for part in FILES[name])


@cache
def version() -> str:
    """Another one where any of the texts is another."""
    whole = hashlib.sha256()
    for name in FILES:
        whole.update(f"{name}\n{content(name)}\n".encode())
    return whole.hexdigest()[:16]


def address(name: str) -> str:
    """Where the page's server has it. Raises KeyError for what is not one of FILES."""
    if name not in FILES:
        raise KeyError(name)
    return f"/assets/{version()}/{name}"


def script(name: str) -> str:
    """A module that is the one on the server. A module made of a text has no address, so the page's is named.

    Streamlit ends a run that a later one overtook while its script was loading, though both draw on the same nodes:
    what is on them ends with the nodes."""
    url = f"new URL('{address(name)}', document.baseURI).href"
    # Of several lines, as Streamlit takes one line with a slash for a path.
    return f"""// {name}
export default async (part) => {{
  const end = await (await import({url})).default(part);
  return () => part.parentElement.isConnected || end?.();
}};"""


def style(name: str) -> str:
    return f'/* {name} */\n@import url("{address(name)}");'
