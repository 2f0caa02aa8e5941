"""Which architectures are served, and one clear sentence for each kind that is not."""

from engine.errors import ModelError
from engine.models.config import Architecture
from engine.models.stated import shown

SERVED: tuple[Architecture, ...] = ("llama", "qwen2", "qwen3")

# Names as config.json (underscores) and GGUF (llama.cpp's spelling) write them.
_HYBRIDS = frozenset(
    {
        "arwkv7",
        "bamba",
        "falcon-h1",
        "falcon_h1",
        "falcon_mamba",
        "granitehybrid",
        "granitemoehybrid",
        "jamba",
        "kimi-linear",
        "kimi_linear",
        "lfm2",
        "lfm2_moe",
        "lfm2moe",
        "mamba",
        "mamba2",
        "minimax",
        "nemotron_h",
        "nemotron_h_moe",
        "plamo2",
        "qwen35",
        "qwen35moe",
        "qwen3_5",
        "qwen3_5_moe",
        "qwen3_5_moe_text",
        "qwen3_5_text",
        "qwen3_next",
        "qwen3next",
        "recurrent_gemma",
        "rwkv",
        "rwkv6",
        "rwkv6qwen2",
        "rwkv7",
        "zamba",
        "zamba2",
    }
)
_EXPERTS = frozenset(
    {
        "dbrx",
        "deepseek",
        "deepseek2",
        "deepseek_v2",
        "deepseek_v3",
        "dots1",
        "gpt-oss",
        "gpt_oss",
        "grok",
        "llama4",
        "mixtral",
    }
)


def served(name: object, file: str) -> Architecture:
    """The architecture by its name in the file.

    Raises ModelError for every other one: hybrids and mixtures of experts are named as such and pointed to the vLLM
    backend.
    """
    for architecture in SERVED:
        if name == architecture:
            return architecture
    raise ModelError(f"{file}: {_reason(shown(name))}")


def experts_refused(name: str, file: str) -> ModelError:
    """The error for a file of a served name that holds a mixture of experts all the same."""
    return ModelError(f"{file}: {_experts(name)}")


def _reason(name: str) -> str:
    if name in _HYBRIDS:
        return (
            f"architecture {name!r} is a hybrid, some of its layers keep a state instead of a KV cache; this engine "
            f"serves {_list()}, so run it on the vLLM backend."
        )
    if name in _EXPERTS or "moe" in name:
        return _experts(name)
    return f"architecture {name!r} is not known; this engine serves {_list()}, so choose one or try the vLLM backend."


def _experts(name: str) -> str:
    return (
        f"architecture {name!r} is a mixture of experts; this engine serves {_list()}, so run it on the vLLM backend."
    )


def _list() -> str:
    return ", ".join(SERVED[:-1]) + f" and {SERVED[-1]}"
