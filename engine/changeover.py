"""A twin in the place of a real engine, and back: what each is started with."""

from dataclasses import replace

from engine.body import BodyConfig
from engine.cards.store import load_card
from engine.knobs import Knobs
from engine.run import HostConfig
from engine.twin_body import chosen_preset


def as_left(config: HostConfig, knobs: Knobs, came_up: bool) -> HostConfig:
    """What starts the same engine again with the knobs that the operator left it with. `came_up`: it had run, so that
    its host pool is of a size that was found or chosen."""
    body = config.body
    if came_up:
        dtype = knobs.kv_dtype if knobs.kv_dtype.switchable else body.kv_dtype
        body = replace(body, kv_dtype=dtype, host_bytes=knobs.host_pool_bytes)
    return replace(config, body=body, knobs=knobs, head_start_s=0.0)


def real_config(left: HostConfig | None, model: str | None = None, backend: str | None = None) -> HostConfig:
    """What was left for a twin, or the default engine where nothing was; with another model or backend if named, and
    then with a host pool of that one's own."""
    config = left or HostConfig()
    body: BodyConfig = replace(
        config.body,
        model=config.body.model if model is None else model,
        backend=config.body.backend if backend is None else backend,
    )
    if (body.model, body.backend) != (config.body.model, config.body.backend):
        body = replace(body, host_bytes=None)
    return replace(config, body=body)


def checked_card(card: str) -> str:
    """The name of a card that a twin can run. Raises Refused for another."""
    profile = load_card(card)
    chosen_preset(profile, None)
    return profile.name
