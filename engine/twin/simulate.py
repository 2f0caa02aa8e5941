"""The twin as one function: a setup in, a summary out, the same for the same setup."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from engine.backends.base import Backend
from engine.body import Body
from engine.calibration.quick import measure_costs
from engine.cards.profile import CardProfile
from engine.control import Sink
from engine.costs import Costs
from engine.leap import Leaper
from engine.snapshot import Snapshot
from engine.twin.playing import Playing
from engine.twin.setup import TwinSetup, TwinSummary
from engine.twin_body import TwinConfig, chosen_preset, modelled_model, twin_backend
from engine.virtual_clock import VirtualClock
from engine.workload.text import library_files

SAMPLE_EVERY_S = 1.0
"""Modelled: an hour of samples as a live engine takes them would cost as much as the hour itself."""


@dataclass(frozen=True, slots=True)
class TwinProgress:
    """`virtual_s` have been modelled; `fraction` from 0 to 1, never falling."""

    virtual_s: float
    fraction: float


OnProgress = Callable[[TwinProgress], None]


def simulate(setup: TwinSetup, on_progress: OnProgress | None = None, sinks: Sequence[Sink] = ()) -> TwinSummary:
    """Run it as fast as it goes, on this thread. `on_progress` is told once for each modelled second, about, and may
    raise to call it off; `sinks` get what those of a host get. Raises Refused for a setup that the card cannot run."""
    began = time.perf_counter()
    clock = VirtualClock(epoch=setup.began_utc)
    knobs = setup.first_knobs()
    config = replace(setup.twin, overlap=setup.twin.overlap or knobs.overlap_copies)
    backend = twin_backend(setup.card, config, clock, knobs.kv_dtype, setup.host_bytes)
    model = modelled_model(setup.card, backend)
    body = Body(backend, model, setup.costs or modelled_costs(setup.card, setup.twin), None, clock)
    told = 0.0

    def tell(snapshot: Snapshot) -> None:
        nonlocal told
        if on_progress is not None:
            told = max(told, min(playing.done(snapshot), 1.0))
            on_progress(TwinProgress(snapshot.at, told))

    try:
        name = f"modelled-{setup.card.id}-{setup.seed}"
        # Nothing that is modelled depends on what a prompt says, so one file will do.
        files = library_files()[:1] or None
        playing = Playing(setup, body, clock, name, tuple(sinks), tell, SAMPLE_EVERY_S, files)
        leaper = Leaper(playing.serving.core, playing.serving.loop, backend) if setup.leap else None
        playing.run(clock.advance_to, leaper)
        return playing.summary(title_of(setup.card, setup.twin), backend.peak_kv_bytes, time.perf_counter() - began)
    finally:
        backend.shutdown()


def modelled_costs(card: CardProfile, config: TwinConfig) -> Costs:
    """What an engine on this card would measure at its start."""
    backend: Backend = twin_backend(card, config, VirtualClock())
    return measure_costs(backend)


def title_of(card: CardProfile, config: TwinConfig) -> str:
    return f"Modelled: {card.name}, {card.model}, preset {chosen_preset(card, config.preset).name}"
