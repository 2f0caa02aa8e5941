"""A calibration as the card profile of this machine."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from engine.calibration.calibrator import Measured
from engine.cards.profile import GIB, UNITS, Calibration, CardProfile, CopyPoint, Figure, PrefillPoint, Preset
from engine.cards.store import THIS_MACHINE
from engine.layout import uniform
from engine.turn import AVERAGE_TURN_TOKENS
from engine.words import percent

LONG_CONTEXT = 2048


@dataclass(frozen=True, slots=True)
class Machine:
    """What the engine itself does not know. `device`: the processor or GPU by name; `memory`: how much it has, in
    words; `model`: the running model's name; `at`: epoch seconds of the measurement."""

    device: str
    memory: str
    model: str
    at: float


def card_of(measured: Measured, machine: Machine, slots: int, chunk: int) -> CardProfile:
    """`chunk`: the prefill chunk that the engine runs with, whose rate becomes the card's."""
    facts, memory, fit = measured.facts, measured.facts.memory, measured.fit
    at = datetime.fromtimestamp(machine.at, UTC)
    by = f"measured with {machine.model} on {facts.backend}, {at:%Y-%m-%d}"
    own = _own(measured.copies, memory.block_bytes)
    prefill = _nearest(measured.prefills, chunk)
    off = f"error {percent(fit.error, 1)} rms, {percent(fit.worst, 1)} at worst"
    fitted = f"{by}: fit of {len(measured.decodes)} steps, {off}"
    copied = f"{by}: blocks of {memory.block_bytes:,} bytes"
    workload = "the default workload"
    limit = facts.max_context
    ceiling = memory.weights_bytes + memory.runtime_bytes + memory.arena_bytes
    layout = replace(uniform(machine.model, facts.geometry), max_context=limit)
    return CardProfile(
        id=THIS_MACHINE,
        name="This machine",
        architecture=machine.device,
        memory=machine.memory,
        model=machine.model,
        usable=_size(ceiling, f"{by}: weights, runtime and arena of this engine"),
        weights=_size(memory.weights_bytes, by),
        runtime=_size(memory.runtime_bytes, by),
        slots=Figure(slots, "turns", "assumed", "the slots of this engine"),
        mean_context=Figure(min(AVERAGE_TURN_TOKENS, limit), "tokens", "assumed", workload),
        long_context=Figure(min(LONG_CONTEXT, limit), "tokens", "assumed", workload),
        max_context=Figure(limit, "tokens", "published", "the running model's own limit"),
        decode_base=_figure(fit.base_s, "ms", fitted),
        decode_per_turn=_figure(fit.per_turn_s, "ms", fitted),
        decode_per_kv_byte=_figure(fit.per_kv_byte_s, "ms/GB", fitted),
        prefill=_figure(prefill.tokens_per_s, "tok/s", f"{by}: chunks of {prefill.chunk:,} tokens"),
        link_out=_figure(own.out_bytes_per_s, "GB/s", copied),
        link_back=_figure(own.back_bytes_per_s, "GB/s", copied),
        pinned_host=_size(memory.host_total_bytes, f"{by}: the host pool of this engine"),
        presets=(Preset(layout, "published", "the running model's own config"),),
        calibration=Calibration(
            at=at.strftime("%Y-%m-%dT%H:%M:%SZ"),
            backend=facts.backend,
            model=machine.model,
            block_bytes=memory.block_bytes,
            copies=measured.copies,
            prefills=measured.prefills,
            decodes=measured.decodes,
            decode_error=fit.error,
            decode_worst=fit.worst,
        ),
    )


def _figure(amount: float, unit: str, source: str) -> Figure:
    return Figure(amount / UNITS[unit], unit, "measured", source)


def _size(nbytes: int, source: str) -> Figure:
    return _figure(nbytes, "GiB" if nbytes >= 2 * GIB else "MiB", source)


def _own(copies: Sequence[CopyPoint], block_bytes: int) -> CopyPoint:
    return next(point for point in copies if point.block_bytes == block_bytes)


def _nearest(prefills: Sequence[PrefillPoint], chunk: int) -> PrefillPoint:
    return min(prefills, key=lambda point: (abs(point.chunk - chunk), -point.chunk))
