"""Processes that end when the bench has ended, however that came about."""

import ctypes
import os
import signal
import sys
from collections.abc import Callable

PR_SET_PDEATHSIG = 1


def bound_to_us() -> Callable[[], None] | None:
    """For Popen's `preexec_fn`: Linux kills the process when this one has ended, also while it is stopped or busy.
    Elsewhere there is nothing of the kind."""
    if sys.platform != "linux":
        return None
    prctl, parent = ctypes.CDLL(None).prctl, os.getpid()

    def bind() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

    return bind
