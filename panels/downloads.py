"""The session as CSV files: plain links to the server's /export/ routes, which stream the rows."""

from typing import Any

from panels import components
from panels.deck_view import TABLES, DeckView
from panels.palette import ThemeName, palette

WHAT = {
    "timeline": "one row per turn and interval of phase and tier",
    "samples": "the charts' points: bands, rates and sums",
    "events": "what happened, who asked, how long it took",
}


def links(session: str) -> dict[str, Any]:
    """`off`: no session has begun, there is nothing to download."""
    files = [{"name": f"{table}.csv", "hint": WHAT[table]} for table in TABLES]
    return {"session": session, "files": files, "off": not session}


def render(deck: DeckView, theme: ThemeName) -> None:
    data = links(deck.recorded()) | {"colours": components.colours(palette(theme))}
    components.downloads(data, key="downloads")
