"""The families' own values against transformers' config classes: every default that the table takes is theirs."""

from typing import Any

import pytest
from transformers import CONFIG_MAPPING

from engine.models.layouts.attention import Kind
from engine.models.layouts.dense import DENSE
from engine.models.layouts.hybrid import HYBRID
from tests.engine.models.layouts.configs import Config, layout

# Custom code on the hub; transformers has no class of that name.
ELSEWHERE = {"internlm2"}
WINDOWS = {Kind.SLIDING: "sliding_window", Kind.CHUNKED: "attention_chunk_size"}


def theirs(kind: str) -> Any:
    return CONFIG_MAPPING[kind]()


def value(config: Any, *keys: str) -> Any:
    """The first of the keys that the config knows and states."""
    found = (getattr(config, key, None) for key in keys)
    return next((one for one in found if one is not None), None)


@pytest.mark.parametrize("kind", sorted(set(DENSE) - ELSEWHERE))
def test_dense_families(kind: str) -> None:
    """A config that states only what the table has no value for reads as transformers' own does."""
    config = theirs(kind)
    config = getattr(config, "text_config", None) or config
    family = DENSE[kind]
    sizes, keys = family.sizes, family.sizes.keys
    stated: Config = {"model_type": kind, keys.layers: value(config, "num_hidden_layers", "n_layer")}
    heads, hidden = value(config, "num_attention_heads", "n_head"), value(config, "hidden_size", "n_embd")
    if sizes.heads is None:
        stated[keys.heads] = heads
    if sizes.hidden is None and sizes.head_dim is None:
        stated[keys.hidden] = hidden
    if sizes.head_dim is None and hidden % heads:
        # Theirs rounds down, where public configs state the head size.
        stated[keys.head_dim] = hidden // heads
    found = layout(stated)

    kv_heads = value(config, "num_key_value_heads") or heads
    head_dim = value(config, "head_dim") or hidden // heads
    layers = stated[keys.layers]
    listed = value(config, "layer_types") or [_all_alike(kind, config)] * layers
    expected: dict[tuple[int, int, int | None], int] = {}
    for name in listed:
        window = None if name == Kind.FULL else getattr(config, WINDOWS[Kind(name)])
        expected[kv_heads, head_dim, window] = expected.get((kv_heads, head_dim, window), 0) + 1
    assert {(group.heads, group.widths[0], group.window): group.layers for group in found.groups} == expected


def _all_alike(kind: str, config: Any) -> str:
    """Of a family without a list: its window, where it uses one, is for every layer."""
    slides = value(config, "sliding_window") is not None and getattr(config, "use_sliding_window", True)
    return Kind.SLIDING if slides else Kind.FULL


@pytest.mark.parametrize("kind", ["bamba", "granitemoehybrid", "jamba", "minimax", "qwen3_5_text", "qwen3_next"])
def test_which_layers_of_a_hybrid_attend(kind: str) -> None:
    assert kind in HYBRID
    config = theirs(kind)
    stated: Config = {
        "model_type": kind,
        "num_hidden_layers": config.num_hidden_layers,
        "num_attention_heads": config.num_attention_heads,
        "hidden_size": config.hidden_size,
    }
    if kind == "granitemoehybrid":
        stated["num_key_value_heads"] = config.num_key_value_heads
    found = layout(stated)
    listed = value(config, "layer_types", "layers_block_type")
    attending = sum(name in ("full_attention", "attention") for name in listed)
    assert sum(group.layers for group in found.groups) == attending
    for group in found.groups:
        assert group.heads == config.num_key_value_heads
        assert group.widths[0] == (value(config, "head_dim") or config.hidden_size // config.num_attention_heads)
