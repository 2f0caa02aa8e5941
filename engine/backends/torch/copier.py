"""Copies beside the steps: one thread that carries them out, one after the other, a small piece at a time.

Where cores are few a copy at full speed takes one from the step. So the thread rests after each piece, unless somebody
waits: a step then loses a known share of a core and no more, and most copies are over within one or two steps anyway.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Iterator

from engine.errors import CorruptCopy

REST = 2.0
"""Seconds of rest for each second of copying, while a step runs beside it."""

log = logging.getLogger(__name__)


class Transfer:
    """One copy: `pieces` does a part of it each time it is asked for the next. `error`: why it failed, once it is
    `over`; `began`, `ended`: seconds of time.perf_counter."""

    def __init__(self, pieces: Iterator[None], nbytes: int) -> None:
        self.pieces = pieces
        self.nbytes = nbytes
        self.began = self.ended = 0.0
        self.error: str | None = None
        self.given_up = False
        self._over = threading.Event()

    @property
    def over(self) -> bool:
        return self._over.is_set()

    def end(self) -> None:
        self.ended = time.perf_counter()
        self._over.set()

    def wait(self) -> None:
        self._over.wait()


class Copier:
    """Transfers in the order in which they were asked for. Its thread starts with the first one and is idle without
    any; all but `_work` is for the engine's thread. `waits`: the spans in which that stood still for a copy."""

    def __init__(self, rest: float = REST) -> None:
        self._rest = rest
        self._queue: deque[Transfer] = deque()
        self._changed = threading.Condition()
        self._hurry = threading.Event()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._waits: deque[tuple[float, float]] = deque()

    def carry(self, pieces: Iterator[None], nbytes: int) -> Transfer:
        transfer = Transfer(pieces, nbytes)
        with self._changed:
            self._queue.append(transfer)
            self._changed.notify()
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="parkdeck-copier", daemon=True)
            self._thread.start()
        return transfer

    def wait(self, transfer: Transfer) -> None:
        """Stand still until it is over."""
        if transfer.over:
            return
        started = time.perf_counter()
        self._hurry.set()
        transfer.wait()
        self._hurry.clear()
        self._waits.append((started, time.perf_counter()))

    def give_up(self, transfer: Transfer) -> None:
        """Neither reads nor writes anything any more on return."""
        with self._changed:
            transfer.given_up = True
            if transfer in self._queue and transfer is not self._queue[0]:
                self._queue.remove(transfer)
                return
        self.wait(transfer)

    def waited_s(self, transfer: Transfer) -> float:
        """For how long of the time of a transfer that is over somebody stood still. To be asked in their order."""
        while self._waits and self._waits[0][1] <= transfer.began:
            self._waits.popleft()
        return sum(max(0.0, min(end, transfer.ended) - max(start, transfer.began)) for start, end in self._waits)

    def close(self) -> None:
        """Waits for the piece under way; what is still in line is not carried out."""
        with self._changed:
            self._closed = True
            for transfer in self._queue:
                transfer.given_up = True
            self._changed.notify()
        if self._thread is not None:
            self._hurry.set()
            self._thread.join()

    # -- the copier's thread ----------------------------------------------------------------------------------------

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self._closed)
                if not self._queue:
                    return
                transfer = self._queue[0]
            transfer.began = time.perf_counter()
            try:
                self._carry_out(transfer)
            except CorruptCopy as error:
                transfer.error = str(error)
            except Exception as error:
                log.exception("a copy between arena and host pool failed")
                transfer.error = f"The copy failed: {error}"
            with self._changed:
                self._queue.popleft()
            transfer.end()

    def _carry_out(self, transfer: Transfer) -> None:
        if transfer.given_up:
            return
        started = time.perf_counter()
        for _ in transfer.pieces:
            if transfer.given_up:
                return
            ended = time.perf_counter()
            self._hurry.wait(self._rest * (ended - started))
            started = time.perf_counter()
