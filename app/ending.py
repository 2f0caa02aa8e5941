"""Ctrl-C: the server ends, the process exits with status 0, within five seconds whatever the engine is doing."""

import faulthandler
import os
import signal
import threading
from types import FrameType

import uvicorn

LAST_RESORT_S = 4.5


def end_quietly() -> None:
    """Called while the server runs. uvicorn raises a caught signal once more after its shutdown, which Streamlit's
    command line prints as 'Aborted!' with status 1; so the signal only asks the server to end, a second one forces
    it."""
    if threading.current_thread() is not threading.main_thread():
        return
    for number in (signal.SIGINT, signal.SIGTERM):
        server = getattr(signal.getsignal(number), "__self__", None)
        if isinstance(server, uvicorn.Server):
            signal.signal(number, _asks(server))


def arm_last_resort(seconds: float = LAST_RESORT_S) -> None:
    """Ends the process after `seconds` even if native code holds the interpreter; what is recorded is in SQLite."""
    # The timer thread needs no interpreter lock; its dump goes nowhere.
    faulthandler.dump_traceback_later(seconds, exit=True, file=os.open(os.devnull, os.O_WRONLY))


def _asks(server: uvicorn.Server) -> "signal._HANDLER":
    def handle(number: int, frame: FrameType | None) -> None:
        if server.should_exit:
            server.force_exit = True
        else:
            arm_last_resort()
        server.should_exit = True

    return handle
