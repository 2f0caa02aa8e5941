"""The deck's configuration from the environment, which `parkdeck up` and `streamlit run` share."""

import math
import os
from collections.abc import Mapping
from dataclasses import replace

from app.deck import DeckConfig
from app.sizes import size_of
from engine.backends.base import WeightDtype
from engine.body import BodyConfig, chosen_backend
from engine.errors import Refused
from engine.host import HostConfig
from engine.policies import checked
from engine.twin.live import live_config
from engine.workload.readers import load_workload
from engine.workload.swarm import checked_agents, checked_speed

OFF = frozenset({"0", "off", "no", "false"})


def config_from(environment: Mapping[str, str] = os.environ) -> DeckConfig:
    """PARKDECK_MODEL, _BACKEND, _WORKLOAD, _AGENTS, _SPEED, _KV_DTYPE, _WEIGHT_DTYPE, _POLICY, _CEILING, _SWARM
    and _ENGINE (off: each waits for its button). Raises Refused or BadKnob for a value that cannot be, before it is
    loaded."""
    backend = environment.get("PARKDECK_BACKEND") or BodyConfig().backend
    if backend != "auto":
        chosen_backend(backend)
    base = live_config() if backend == "twin" else HostConfig()
    knobs = base.knobs.changed(
        {
            name: environment[variable]
            for name, variable in (("kv_dtype", "PARKDECK_KV_DTYPE"), ("policy", "PARKDECK_POLICY"))
            if environment.get(variable)
        }
    )
    checked(knobs)
    workload = environment.get("PARKDECK_WORKLOAD") or None
    if workload is not None:
        load_workload(workload)
    ceiling = environment.get("PARKDECK_CEILING")
    body = replace(
        base.body,
        backend=backend,
        kv_dtype=knobs.kv_dtype,
        weights=_weights(environment.get("PARKDECK_WEIGHT_DTYPE")),
        ceiling_bytes=size_of(ceiling) if ceiling else None,
    )
    config = DeckConfig(
        host=HostConfig(body=replace(body, model=environment.get("PARKDECK_MODEL") or None), knobs=knobs),
        workload=workload,
        swarm=_on(environment, "PARKDECK_SWARM"),
        engine=_on(environment, "PARKDECK_ENGINE"),
    )
    agents, speed = environment.get("PARKDECK_AGENTS"), environment.get("PARKDECK_SPEED")
    if agents:
        config = replace(config, agents=checked_agents(_whole("PARKDECK_AGENTS", agents)))
    return replace(config, speed=checked_speed(_number("PARKDECK_SPEED", speed))) if speed else config


def _weights(name: str | None) -> WeightDtype | None:
    if name and name not in list(WeightDtype):
        import torch

        choices = list(WeightDtype) if torch.cuda.is_available() else [WeightDtype.INT8]
        raise Refused(f"weights cannot be kept as {name!r}; choose {', '.join(choices)}")
    return WeightDtype(name) if name else None


def _on(environment: Mapping[str, str], name: str) -> bool:
    return environment.get(name, "").strip().lower() not in OFF


def _number(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise Refused(f"{name} {text!r} is not a number; give one such as 8")
    return value


def _whole(name: str, text: str) -> int:
    value = _number(name, text)
    if not value.is_integer():
        raise Refused(f"{name} {text!r} is not a whole number; give one such as 8")
    return int(value)
