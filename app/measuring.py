"""The deck's calibration: the swarm makes room, the engine is measured, the swarm goes on."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from engine.calibration.calibrator import Progress, calibrate, called_off
from engine.calibration.card import Machine, card_of
from engine.calibration.plan import DEFAULT, Depth
from engine.calibration.probes import FactsProbe
from engine.cards.profile import CardProfile
from engine.cards.store import check_writable, save
from engine.control import Control
from engine.errors import ParkdeckError, Refused, TurnsOpen
from engine.telemetry.device import device_words
from engine.workload.swarm import Swarm
from panels.deck_view import CalibrationState

IDLE_WITHIN_S = 10.0
CLOSED_WITHIN_S = 1.0
LOOK_EVERY_S = 0.05

Measure = Callable[[Control, Depth, Callable[[Progress], None], Callable[[], bool]], CardProfile]

log = logging.getLogger(__name__)


def measure(
    control: Control, depth: Depth, report: Callable[[Progress], None], cancelled: Callable[[], bool]
) -> CardProfile:
    """Measure the running engine and keep the card of this machine. Raises Refused, and nothing is written, when the
    engine cannot be measured or `cancelled` says so, and before anything is measured where no card can be kept."""
    check_writable()
    snapshot = control.snapshot
    slots, chunk = snapshot.knobs.max_running, snapshot.knobs.prefill_chunk
    measured = calibrate(control, snapshot.session, depth, slots, report, cancelled)
    device, memory = device_words(on_gpu=measured.facts.memory.device_total is not None)
    if cancelled():
        raise called_off()
    return save(card_of(measured, Machine(device, memory, snapshot.model, time.time()), slots, chunk))


class Measuring:
    """A CalibrationControl. All its verbs return at once, from any thread; the state is an immutable object."""

    def __init__(self, control: Control, swarm: Swarm, measure: Measure = measure) -> None:
        self._control = control
        self._swarm = swarm
        self._measure = measure
        self._lock = threading.Lock()
        self._cancelled = threading.Event()
        self._closed = False
        self._thread: threading.Thread | None = None
        self._state = CalibrationState()

    def state(self) -> CalibrationState:
        return self._state

    def start(self, author: str) -> str:
        """Raises Refused while one runs, and for an engine that does not."""
        with self._lock:
            if self._state.running:
                raise Refused("this machine is being measured already; wait for it or cancel it")
            snapshot = self._control.snapshot
            if not snapshot.state.serving:
                raise Refused("the engine does not run; start it, then measure")
            if snapshot.twin:
                raise Refused("the engine is a twin, whose figures are a card's already; go back to the real one first")
            self._cancelled.clear()
            self._state = CalibrationState(running=True, note="stopping the swarm")
            self._thread = threading.Thread(
                target=self._run, args=(snapshot.session, author), name="parkdeck-calibrate", daemon=True
            )
            self._thread.start()
        return "Measuring this machine."

    def cancel(self) -> str:
        if not self._state.running:
            raise Refused("nothing is being measured; there is nothing to cancel")
        self._cancelled.set()
        return "Cancelled; nothing is written."

    def close(self) -> None:
        """Call off what runs; the swarm stays stopped."""
        self._closed = True
        self._cancelled.set()
        if self._thread is not None:
            self._thread.join(CLOSED_WITHIN_S)

    def _run(self, session: str, author: str) -> None:
        swarm_ran = False
        began = time.monotonic()
        over = CalibrationState()
        try:
            swarm_ran = self._swarm.stop(author)
            self._wait_until_idle(session)
            self._measure(self._control, DEFAULT, self._tell, self._cancelled.is_set)
            over = CalibrationState(written=f"Measured in {time.monotonic() - began:.0f} s.")
        except ParkdeckError as refusal:
            over = CalibrationState(problem=str(refusal))
        except Exception as fault:
            log.exception("the calibration failed")
            over = CalibrationState(problem=f"the measurement failed: {fault}")
        finally:
            try:
                if swarm_ran and not self._closed:
                    self._swarm.start(author)
            except Exception as fault:
                log.exception("the swarm did not start again")
                unstarted = f"the swarm did not start again: {fault}"
                over = replace(over, problem="; ".join(filter(None, (over.problem, unstarted))))
            finally:
                self._state = over

    def _tell(self, progress: Progress) -> None:
        self._state = replace(self._state, fraction=progress.fraction, note=progress.note)

    def _wait_until_idle(self, session: str) -> None:
        """The swarm's turns are cancelled soon, also those that the engine has not taken yet; others may be under way,
        and are not ours to end. A snapshot would not know of the latest: the engine itself is asked."""
        until = time.monotonic() + IDLE_WITHIN_S
        while True:
            try:
                self._control.probe(FactsProbe(), session).result()
                return
            except TurnsOpen:
                if time.monotonic() > until:
                    raise
            if self._cancelled.wait(LOOK_EVERY_S):
                raise called_off()
