"""What a user asks of one of Parkdeck's own elements, handed on once each and in order.

Of two values of a trigger Streamlit may keep the newer alone, and any touch of the session in a callback ends it where
another run of the page is due. So the browser tells of all that was not taken yet until it is (assets/js/asked.js), and
the element's data says what was.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import streamlit as st

MOST = 100
"""Requests that are taken at once; the browser tells of the others again."""
LONGEST_WORD = 80

Request = dict[str, Any]
"""As it came from the browser: what reads it trusts no value of it."""
Handler = Callable[[Iterable[Request]], None]
"""Gets all that is new at once, as it may end in a rerun: what it has not drawn by then is told again. A request counts
as taken when it is drawn, so its effect comes before any touch of the session that may be cut short."""


@dataclass(slots=True)
class Taken:
    """Of an element's latest mount: its word, and the number of the last request that was taken. A plain object, as no
    touch of it ends a run."""

    mount: str = ""
    number: int = 0

    def take(self, told: Any) -> Iterator[Request]:
        """The new requests of a value from the browser, in their order; each counts as taken as soon as it is drawn."""
        match told:
            case {"from": str(mount), "asks": list(asks)} if 0 < len(mount) <= LONGEST_WORD:
                yield from self._new(mount, asks[:MOST])

    def _new(self, mount: str, asks: Sequence[Any]) -> Iterator[Request]:
        for ask in asks:
            match ask:
                case [int(number), dict(request)] if number > (self.number if mount == self.mount else 0):
                    self.mount, self.number = mount, number
                    yield request


def taking(key: str, handle: Handler) -> tuple[Callable[[], None], dict[str, Any]]:
    """For the element `key`: the callback of its trigger `asked`, and what its data says as `taken`."""
    taken: Taken = st.session_state.setdefault(f"{key}_taken", Taken())

    def on_asked() -> None:
        # The only touch of the session before they count as taken: a run that ends here has taken nothing.
        told = st.session_state.get(key)
        new = taken.take(told and told.get("asked"))
        for first in new:  # No handler runs without a request.
            handle(chain([first], new))

    return on_asked, {"from": taken.mount, "number": taken.number}
