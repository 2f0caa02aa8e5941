"""Whatever a config holds under its keys: a layout with sensible sizes, or one sentence; nothing else."""

from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import ModelError
from engine.layout import TurnLayout
from engine.models.layouts.config_json import layout_of_config
from engine.models.layouts.gguf_keys import layout_of_gguf
from tests.engine.models.layouts import test_dense, test_gguf_keys, test_hybrid, test_sliding
from tests.engine.models.layouts.configs import DEEPSEEK_V3, Config

CONFIGS: list[Config] = [
    DEEPSEEK_V3,
    test_hybrid.KIMI_LINEAR_48B,
    test_hybrid.RECURRENT_GEMMA_2B,
    *(config for _, config, _ in test_dense.CASES),
    *(config for _, config, _ in test_sliding.CASES),
    *(config for _, config, _, _ in test_hybrid.CASES),
    *(config for _, config, _ in test_hybrid.PURE),
]
HEADERS: list[Config] = [
    {"general.architecture": kind} | {f"{kind}.{key}": value for key, value in (test_gguf_keys.LLAMA | keys).items()}
    for kind, keys in [
        ("llama", {}),
        ("qwen35", test_gguf_keys.QWEN35_9B),
        ("deepseek2", test_gguf_keys.DEEPSEEK2),
        *((kind, keys) for kind, keys, _ in test_gguf_keys.SLIDING),
        *((kind, keys) for kind, keys, _, _ in test_gguf_keys.STATES),
    ]
]
# NaN and infinities included, as Python's JSON reads them.
SCALARS = st.none() | st.booleans() | st.integers(-3, 200) | st.integers() | st.floats() | st.text(max_size=12)
VALUES = st.recursive(SCALARS, lambda one: st.lists(one, max_size=5) | st.dictionaries(st.text(), one, max_size=3))


@st.composite
def disturbed(draw: st.DrawFn, origins: list[Config]) -> Config:
    """One of the configs with a few of its values, or of those in its text part, replaced."""
    config = dict(draw(st.sampled_from(origins)))
    inner = "text_config" in config and draw(st.booleans())
    target: dict[str, Any] = dict(config["text_config"]) if inner else config
    for key in draw(st.lists(st.sampled_from(sorted(target)), min_size=1, max_size=3)):
        target[key] = draw(VALUES)
    return {**config, "text_config": target} if inner else target


@settings(max_examples=400)
@given(disturbed(CONFIGS))
def test_configs(config: Config) -> None:
    _layout_or_sentence(layout_of_config, config)


@settings(max_examples=400)
@given(disturbed(HEADERS))
def test_headers(metadata: Config) -> None:
    _layout_or_sentence(layout_of_gguf, metadata)


def _layout_or_sentence(read: Callable[[Config, str, str], TurnLayout], values: Config) -> None:
    try:
        found = read(values, "config.json", "model")
    except ModelError as error:
        sentence = str(error)
    else:
        sentence = "config.json."
        assert found.state_bytes >= 0
        assert all(group.layers > 0 and group.heads > 0 and min(group.widths) > 0 for group in found.groups)
        assert all(group.window is None or group.window > 0 for group in found.groups)
        assert found.max_context is None or found.max_context > 0
    assert sentence.startswith("config.json")
    assert sentence.endswith(".")
