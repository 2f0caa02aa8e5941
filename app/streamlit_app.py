"""`streamlit run app`: the ASGI entry. Its lifespan starts one deck for all tabs and stops it; pages/ has the page."""

import sys
from pathlib import Path

# Streamlit puts this folder on the path and not the one around it, where the packages are.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from engine.kernels.threads import configure_threads

configure_threads()

import asyncio  # noqa: E402
import contextlib  # noqa: E402
from collections.abc import AsyncIterator, Iterator  # noqa: E402

import streamlit as st  # noqa: E402
from starlette.middleware import Middleware  # noqa: E402

from app.deck import Deck  # noqa: E402
from app.ending import end_quietly  # noqa: E402
from app.server import HostCheck, routes  # noqa: E402
from app.settings import config_from  # noqa: E402
from app.shelf import DECK, clear, shelf, taken  # noqa: E402
from engine.errors import Refused  # noqa: E402
from panels.deck_view import TableName  # noqa: E402


@contextlib.asynccontextmanager
async def lifespan(application: st.App) -> AsyncIterator[dict[str, object]]:
    deck = shelf(DECK, lambda: Deck(config_from()))
    deck.start()
    end_quietly()
    try:
        yield {"deck": deck}
    finally:
        await asyncio.to_thread(deck.stop)
        clear(DECK)


def health() -> dict[str, object]:
    deck = taken(DECK)
    return deck.health() if isinstance(deck, Deck) else {"state": "stopped"}


def table(name: TableName) -> Iterator[bytes]:
    deck = taken(DECK)
    if not isinstance(deck, Deck):
        raise Refused("no engine runs; start it first")
    return deck.export(name)


app = st.App("pages/main.py", lifespan=lifespan, routes=routes(health, table), middleware=[Middleware(HostCheck)])
