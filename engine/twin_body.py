"""A card's profile as a body: what fits on it, how long it takes, and a model that is only told of."""

from dataclasses import dataclass

from engine.backends.base import Backend
from engine.backends.twin.backend import Modelled, TwinBackend
from engine.backends.twin.times import CardTimes
from engine.backends.twin.tokens import modelled_tokenizer
from engine.cards.profile import CardProfile, Preset
from engine.errors import Refused
from engine.geometry import KVDtype, KVGeometry
from engine.knobs import Knobs
from engine.layout import TurnLayout
from engine.models.loaded import ServedModel
from engine.virtual_clock import FASTEST, VirtualClock

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class TwinConfig:
    """What a twin has beside its card. `preset`: the shape of its model; None: the card's first that can be run.
    `overlap`: copies go on beside the steps, else the engine stands still for them. `pace`: modelled seconds for each
    real one, of an engine that a host runs; FASTEST: as fast as it goes."""

    preset: str | None = None
    overlap: bool = False
    pace: float = 1.0

    def __post_init__(self) -> None:
        if not 0.01 <= self.pace <= 1000 and self.pace != FASTEST:
            raise Refused(f"a twin cannot run at {self.pace:g}x real time; give 0.01 to 1000")


def twin_backend(
    card: CardProfile,
    config: TwinConfig,
    clock: VirtualClock,
    kv_dtype: KVDtype = KVDtype.FP16,
    host_bytes: int | None = None,
) -> TwinBackend:
    """`host_bytes` None: what the card's profile may pin. Raises Refused for a preset that the twin does not run."""
    preset = chosen_preset(card, config.preset)
    weights, runtime = round(card.weights.amount), round(card.runtime.amount)
    modelled = Modelled(
        geometry=geometry_of(preset.layout),
        max_context=preset.layout.max_context or round(card.max_context.amount),
        weights_bytes=weights,
        runtime_bytes=runtime,
        arena_bytes=round(card.usable.amount) - weights - runtime,
        times=times_of(card),
    )
    pinned = round(card.pinned_host.amount) if host_bytes is None else host_bytes
    return TwinBackend(modelled, clock, pinned, kv_dtype, config.overlap)


def modelled_model(card: CardProfile, backend: Backend) -> ServedModel:
    """Named as what it is. It has no end token: a modelled turn ends where its client said."""
    return ServedModel(
        name=f"modelled: {card.model}",
        max_context=backend.max_context,
        eos_ids=frozenset(),
        tokenizer=modelled_tokenizer(),
        template=None,
        source=f"card {card.id}",
    )


def chosen_preset(card: CardProfile, name: str | None) -> Preset:
    """By its name, or the card's first that the twin runs. Raises Refused."""
    if name is not None:
        preset = card.preset(name)
        if (why := refusal(preset.layout)) is not None:
            raise Refused(why)
        return preset
    for preset in card.presets:
        if refusal(preset.layout) is None:
            return preset
    raise Refused(f"card {card.id} has no preset that the twin can run; {refusal(card.presets[0].layout)}")


def refusal(layout: TurnLayout) -> str | None:
    """Why the twin cannot count turns of this shape in blocks as the torch backend does; None where it can."""
    if layout.state_bytes:
        return (
            f"preset {layout.name} keeps a fixed state of {layout.state_bytes / MIB:,.1f} MiB for each turn, which no "
            "block holds; the twin runs shapes whose turns are K and V alone"
        )
    alike = {(group.heads, group.widths) for group in layout.groups}
    plain = all(
        group.window is None and len(set(group.widths)) == 1 == len(group.widths) - 1 for group in layout.groups
    )
    if len(alike) != 1 or not plain:
        return (
            f"preset {layout.name} has layers with a window, of several sizes or without K and V apart; the twin runs "
            "shapes whose layers are all alike"
        )
    return None


def geometry_of(layout: TurnLayout) -> KVGeometry:
    """Of a layout that the twin runs."""
    group = layout.groups[0]
    return KVGeometry(sum(one.layers for one in layout.groups), group.heads, group.widths[0])


def times_of(card: CardProfile) -> CardTimes:
    """A calibrated card's prefill goes by the chunks that were measured, another's by its one rate."""
    measured = card.calibration.prefills if card.calibration else ()
    points = tuple(sorted((point.chunk, point.chunk / point.tokens_per_s) for point in measured))
    return CardTimes(
        decode_base_s=card.decode_base.amount,
        decode_per_turn_s=card.decode_per_turn.amount,
        decode_per_kv_byte_s=card.decode_per_kv_byte.amount,
        prefill=points or ((1, 1 / card.prefill.amount),),
        out_bytes_per_s=card.link_out.amount,
        back_bytes_per_s=card.link_back.amount,
    )


def card_knobs(card: CardProfile) -> Knobs:
    """The knobs that a twin of this card starts with: its slots, and long is what the card calls long."""
    return Knobs(max_running=round(card.slots.amount), long_turn_tokens=round(card.long_context.amount))
