"""Callbacks that a newer request does not cut short.

Each use of st.session_state lets Streamlit go over to a request that came meanwhile, in the middle of a callback too;
the browser would then show a value that was never taken. Here the callback is done first, and the request then.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec

import streamlit as st
from streamlit.runtime.scriptrunner import RerunException

P = ParamSpec("P")


def whole(callback: Callable[P, None]) -> Callable[P, None]:
    """`callback` itself reruns nothing and may be begun again from its start."""

    @wraps(callback)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        newer: RerunException | None = None
        while True:
            try:
                callback(*args, **kwargs)
                break
            except RerunException as request:
                # It waits no more: the next try goes further.
                newer = request
        if newer is not None:
            raise newer

    return run


@whole
def keep(name: str, value: Any) -> None:
    st.session_state[name] = value
