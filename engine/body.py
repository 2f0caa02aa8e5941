"""Opening a body: from a choice of model and sizes to a loaded model and a backend ready to step."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from engine.backends.base import Backend, WeightDtype
from engine.calibration.quick import measure_costs
from engine.clock import EngineClock
from engine.costs import Costs
from engine.errors import Refused
from engine.geometry import KVDtype
from engine.live_card import LiveCard
from engine.models.loaded import ServedModel
from engine.snapshot import CardScale, Startup
from engine.turn import AVERAGE_TURN_TOKENS
from engine.twin_body import TwinConfig

Report = Callable[[Startup], None]

DEFAULT_CARD = "rx9070xt"
BACKENDS = ("auto", "torch", "vllm", "twin")


@dataclass(frozen=True, slots=True)
class BodyConfig:
    """What is fixed at the start. `model`: path, Hugging Face id, or None for the default. `arena_tokens`: size of the
    arena in fp16 tokens; None: ten average turns and one growth block per slot (the stand-in's proportion of the
    card), or, with a GPU or `ceiling_bytes`, what the device leaves beside weights and runtime. `host_bytes`: None: six
    times the arena, the twin: what its card may pin. `weights`: their precision in memory; None: the torch body's
    choice. vLLM keeps the model's own. `twin`: what only the twin has, which goes by that, `card`, `kv_dtype` and
    `host_bytes` alone."""

    model: str | None = None
    backend: str = "auto"
    device: str = "auto"
    exact: bool = False
    weights: WeightDtype | None = None
    kv_dtype: KVDtype = KVDtype.FP16
    arena_tokens: int | None = None
    host_bytes: int | None = None
    ceiling_bytes: int | None = None
    slots: int = 8
    average_turn_tokens: int = AVERAGE_TURN_TOKENS
    card: str | Path = DEFAULT_CARD
    twin: TwinConfig = field(default_factory=TwinConfig)


@dataclass(frozen=True, slots=True)
class Body:
    """A backend ready to step, its model, its measured costs, the card scale that its arena stands for (None: no
    scaling, the device is the card), the clock that it goes by (None: the machine's), and what of a modelled card can
    be changed while it runs."""

    backend: Backend
    model: ServedModel | None
    costs: Costs
    card: CardScale | None
    clock: EngineClock | None = None
    live_card: LiveCard | None = None


OpenBody = Callable[[BodyConfig, Report], Body]


def open_body(config: BodyConfig, report: Report) -> Body:
    """Load the model and build the backend. Raises ModelError or Refused with one sentence for the user."""
    if config.backend == "twin":
        return _open_twin(config)
    import torch

    from engine.cards.scale import card_scale, standin_arena_tokens
    from engine.cards.store import load_card

    choice = chosen_backend(config.backend)
    report(Startup("load", None, "looking for the model"))
    real_card = config.ceiling_bytes is not None or (config.device != "cpu" and torch.cuda.is_available())
    tokens = config.arena_tokens
    if tokens is None and not real_card:
        tokens = standin_arena_tokens(config.slots, config.average_turn_tokens)
    if choice == "vllm" and config.weights is not None:
        raise Refused(f"vLLM keeps weights as the model has them; leave {config.weights} out or choose torch")
    backend, model = (_open_vllm if choice == "vllm" else _open_torch)(config, tokens, report)
    report(Startup("calibrate", None, "measuring copies, prefill and decode"))
    costs = measure_costs(backend)
    card = card_scale(load_card(config.card), backend.memory().arena_bytes) if not real_card else None
    return Body(backend, model, costs, card)


def chosen_backend(choice: str) -> str:
    """torch, vllm or twin; auto takes vLLM where it is installed beside a GPU. Raises Refused as `checked_backend`, and
    for vLLM where it is not installed."""
    checked_backend(choice)
    if choice == "twin":
        return choice
    from engine.backends.vllm.hooks import NOT_INSTALLED, installed

    if choice == "vllm" and not installed():
        raise Refused(NOT_INSTALLED)
    if choice != "auto":
        return choice
    import torch

    return "vllm" if torch.cuda.is_available() and installed() else "torch"


def checked_backend(choice: str) -> None:
    """Raises Refused for what is no backend's name."""
    if choice not in BACKENDS:
        raise Refused(f"there is no backend {choice!r}; choose one of {', '.join(BACKENDS)}")


def _open_torch(config: BodyConfig, arena_tokens: int | None, report: Report) -> tuple[Backend, ServedModel]:
    from engine.backends.torch.build import build_torch_backend
    from engine.models.resolve import load_model

    model = load_model(config.model, lambda p: report(Startup(p.stage, p.fraction, p.note)))
    backend = build_torch_backend(
        model,
        arena_tokens=arena_tokens,
        ceiling_bytes=config.ceiling_bytes,
        host_bytes=config.host_bytes,
        kv_dtype=config.kv_dtype,
        exact=config.exact,
        device=config.device,
        weights=config.weights,
        progress=lambda fraction, note: report(Startup("compile", fraction, note)),
    )
    return backend, model.served


def _open_vllm(config: BodyConfig, arena_tokens: int | None, report: Report) -> tuple[Backend, ServedModel]:
    from engine.backends.vllm.build import build_vllm_backend
    from engine.models.resolve import find_model

    directory, model = find_model(config.model, lambda p: report(Startup(p.stage, p.fraction, p.note)))
    backend = build_vllm_backend(
        directory,
        arena_tokens=arena_tokens,
        ceiling_bytes=config.ceiling_bytes,
        host_bytes=config.host_bytes,
        kv_dtype=config.kv_dtype,
        progress=lambda fraction, note: report(Startup("load", fraction, note)),
    )
    return backend, model


def _open_twin(config: BodyConfig) -> Body:
    """The card as its profile has it, at the pace that was chosen: nothing to load and no scale."""
    from engine.cards.store import load_card
    from engine.twin_body import modelled_model, twin_backend
    from engine.virtual_clock import PacedClock

    card = load_card(config.card)
    clock = PacedClock(config.twin.pace)
    backend = twin_backend(card, config.twin, clock, config.kv_dtype, config.host_bytes)
    live = LiveCard(card, backend, clock)
    return Body(backend, modelled_model(card, backend), measure_costs(backend), None, clock, live)
