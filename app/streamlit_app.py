"""`streamlit run app`: the ASGI entry. Its lifespan starts one deck for all tabs and stops it; pages/ has the page."""

import sys
from pathlib import Path

# Streamlit puts this folder on the path and not the one around it, where the packages are.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from app.ending import end_quietly
from engine.kernels.threads import configure_threads

end_quietly()
configure_threads()

import asyncio  # noqa: E402
import contextlib  # noqa: E402
from collections.abc import AsyncIterator, Iterator  # noqa: E402
from dataclasses import replace  # noqa: E402

import streamlit as st  # noqa: E402
from starlette.middleware import Middleware  # noqa: E402

from app.deck import Deck, DeckConfig  # noqa: E402
from app.server import HostCheck, routes, tell_failures  # noqa: E402
from app.settings import config_from  # noqa: E402
from app.shelf import DECK, clear, shelf, taken  # noqa: E402
from engine.errors import ParkdeckError, Refused  # noqa: E402
from panels.deck_view import TableName  # noqa: E402

HEAD_START_S = 2.5
"""The page is drawn first: importing torch would hold it up by more than a second."""


def _configured() -> DeckConfig:
    """A mistake in the environment is one sentence and exit status 2, as with `parkdeck up`."""
    try:
        config = config_from()
    except ParkdeckError as error:
        sys.stderr.write(f"{error}\n")
        raise SystemExit(2) from None
    return replace(config, host=replace(config.host, head_start_s=HEAD_START_S))


CONFIG = _configured()


@contextlib.asynccontextmanager
async def lifespan(application: st.App) -> AsyncIterator[dict[str, object]]:
    deck = shelf(DECK, lambda: Deck(CONFIG))
    deck.start()
    teller = asyncio.create_task(tell_failures(deck.control))
    try:
        yield {"deck": deck}
    finally:
        teller.cancel()
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
