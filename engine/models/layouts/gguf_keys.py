"""From a GGUF header's keys to a layout, in llama.cpp's spelling and by its rules for each architecture."""

from collections.abc import Mapping
from typing import Any

from engine.errors import ModelError
from engine.layout import LayerGroup, TurnLayout
from engine.models.layouts.fields import MOST_LAYERS, Fields, words
from engine.models.layouts.shape import grouped
from engine.models.layouts.states import State, delta_net
from engine.models.stated import shown

_PLAIN = words(
    "apertus arcee baichuan bitnet bloom chatglm codeshell command-r dbrx deepseek dots1 ernie4_5 ernie4_5-moe exaone "
    "falcon gemma glm4 glm4moe gpt2 gptj gptneox granite granitemoe grovemoe hunyuan-dense hunyuan-moe internlm2 jais "
    "llama maincoder minicpm minimax-m2 mistral3 nemotron olmo olmoe orion phi2 qwen qwen2 qwen2moe qwen2vl "
    "qwen3 qwen3moe qwen3vl qwen3vlmoe refact seed_oss smollm3 stablelm starcoder starcoder2 xverse"
)
# Layers slide, each n-th attends fully, unless the file states another pattern; no window stated, none slides.
_SLIDING = {
    "cohere2": 4,
    "exaone4": 4,
    "gemma2": 2,
    "gemma3": 6,
    "gemma3n": 5,
    "gpt-oss": 2,
    "llama4": 4,
    "olmo2": 4,
}
_UNUSED_WINDOW = frozenset({"phi3", "phimoe"})
_LATENT = frozenset({"deepseek2", "mistral4"})
_INTERVAL = frozenset({"qwen35", "qwen35moe", "qwen3next"})
# A layer without KV heads keeps a state.
_ZERO_HEADS = frozenset({"granitehybrid", "jamba", "kimi-linear", "lfm2", "lfm2moe", "nemotron_h", "nemotron_h_moe"})
_RECURRENT = frozenset({"mamba", "mamba2", "rwkv6", "rwkv7"})
_ENCODERS = words(
    "bert modern-bert nomic-bert nomic-bert-moe neo-bert jina-bert-v2 jina-bert-v3 eurobert gemma-embedding t5encoder "
    "llama-embed"
)
_KNOWN = _PLAIN | set(_SLIDING) | _LATENT | _INTERVAL | _ZERO_HEADS | _RECURRENT | _UNUSED_WINDOW
_KNOWN |= {"falcon-h1", "gemma4"}
# gemma3n states no count: llama.cpp holds KV for its first 20 layers.
_GEMMA3N_HOLDING = 20
_LLAMA4_CHUNK = 8192
_FLOAT32 = 4


def layout_of_gguf(metadata: Mapping[str, Any], file: str, name: str) -> TurnLayout:
    """Raises ModelError, one sentence that names the file, for an architecture that is not known or badly stated."""
    general = Fields(metadata, file)
    kind = general.name("general.architecture")
    fields = Fields(metadata, file, f"{kind}.")
    _refuse(general, kind)
    layers = fields.layers("block_count")
    # Layers that only guess the tokens after the next hold nothing of a turn.
    guessing = fields.number_of("nextn_predict_layers", 0)
    if guessing >= layers:
        raise fields.wrong("nextn_predict_layers", f"but block_count is {layers}")
    layers -= guessing
    recurrent = _recurrent(fields, kind, layers, guessing)
    groups = () if kind in _RECURRENT else _groups(fields, kind, layers, guessing, recurrent)
    state = _state(fields, kind) if any(recurrent) else State(0, 0)
    nbytes = sum(recurrent) * (state.convolution + state.recurrent) * _FLOAT32
    if nbytes:
        fields.note(f"The state of {sum(recurrent)} layers is counted in float32, as llama.cpp keeps it.")
    return TurnLayout(name, groups, nbytes, fields.context("context_length"), tuple(fields.notes))


def _refuse(general: Fields, kind: str) -> None:
    if kind == "t5":
        raise general.refused("general.architecture", "an encoder-decoder, which holds KV of its input and its output")
    if kind in _ENCODERS:
        raise general.refused("general.architecture", "an encoder, which keeps no KV from token to token")
    if kind not in _KNOWN:
        raise ModelError(
            f"{general.file}: general.architecture {shown(kind)!r} is not known, so its KV layout would be a "
            "guess; choose another model, or write its shape into a card profile (README, Cards)."
        )


def _groups(
    fields: Fields, kind: str, layers: int, guessing: int, recurrent: tuple[bool, ...]
) -> tuple[LayerGroup, ...]:
    if kind in _LATENT or kind == "kimi-linear":
        latent = _latent(fields)
        return grouped(None if keeps_state else latent for keeps_state in recurrent)
    per_layer = _kv_heads(fields, layers, guessing)
    both = kind == "falcon-h1"
    slides, window = _windows(fields, kind, layers, guessing)
    full = _widths(fields, "")
    narrow = _widths(fields, "_swa") if fields.has("attention.key_length_swa") else full
    holding = layers - _shared(fields, kind, layers)
    found: list[LayerGroup | None] = []
    for layer, heads in enumerate(per_layer):
        if heads == 0 or layer >= holding or (recurrent[layer] and not both):
            found.append(None)
        else:
            sliding = slides[layer]
            found.append(LayerGroup(1, heads, narrow if sliding else full, window if sliding else None))
    return grouped(found)


def _kv_heads(fields: Fields, layers: int, guessing: int) -> tuple[int, ...]:
    """Per layer, as one number or a list; left out, as many as heads."""
    key = "attention.head_count_kv" if fields.has("attention.head_count_kv") else "attention.head_count"
    if fields.has_list(key):
        return fields.numbers(key, layers + guessing)[:layers]
    return (fields.size(key),) * layers


def _widths(fields: Fields, suffix: str) -> tuple[int, int]:
    keys = (f"attention.key_length{suffix}", f"attention.value_length{suffix}")
    if suffix or all(fields.has(key) for key in keys):
        return fields.size(keys[0]), fields.size(keys[1])
    hidden = fields.size("embedding_length")
    if fields.has_list("attention.head_count"):
        raise fields.wrong("attention.head_count", "a list, so attention.key_length and value_length must be stated")
    heads = fields.size("attention.head_count")
    if hidden % heads:
        raise fields.wrong("embedding_length", f"which does not divide into {heads} heads")
    own = hidden // heads
    key_width, value_width = (fields.size(key) if fields.has(key) else own for key in keys)
    return key_width, value_width


def _latent(fields: Fields) -> LayerGroup:
    """Files of an older form hold K and V of every head instead; llama.cpp then keeps those."""
    rank, rotary = fields.size("attention.kv_lora_rank"), fields.size("rope.dimension_count")
    if not fields.has("attention.key_length_mla"):
        raise ModelError(
            f"{fields.file}: states no attention.key_length_mla, so it is of the older form whose latent attention is "
            "unpacked into every head; convert the model anew."
        )
    fields.note(f"MLA is counted as one vector of {rank + rotary} per token and layer.")
    return LayerGroup(1, 1, (rank + rotary,))


def _windows(fields: Fields, kind: str, layers: int, guessing: int) -> tuple[tuple[bool, ...], int | None]:
    """Which layers slide, and their window."""
    key, pattern = "attention.sliding_window", "attention.sliding_window_pattern"
    stated = fields.number_of(key, 0)
    if kind in _UNUSED_WINDOW:
        if stated:
            fields.note("The window that the file states is not used: llama.cpp holds every token of this family.")
        return (False,) * layers, None
    if kind == "llama4" and not (fields.has(key) and stated == 0):
        fields.note(f"Chunked attention is counted as a window of {_LLAMA4_CHUNK:,} tokens, llama.cpp's own size.")
        stated = _LLAMA4_CHUNK
    if kind == "gemma2" and not fields.has(key):
        stated = fields.size(key, 4096)
    if stated == 0 or (kind not in _SLIDING and kind != "gemma4"):
        if stated:
            raise fields.refused(key, f"which is not known for architecture {shown(kind)!r}")
        return (False,) * layers, None
    if fields.has_list(pattern):
        return fields.flags(pattern, layers + guessing)[:layers], stated
    if kind == "gemma4" and not fields.has(pattern):
        raise fields.wrong(pattern, "")
    period = fields.size(pattern, most=MOST_LAYERS) if fields.has(pattern) else _SLIDING[kind]
    return tuple(i % period < period - 1 for i in range(layers)), stated


def _shared(fields: Fields, kind: str, layers: int) -> int:
    """How many of the last layers hold no KV of their own."""
    if fields.has("attention.shared_kv_layers"):
        shared = fields.number_of("attention.shared_kv_layers")
        if shared >= layers:
            raise fields.wrong("attention.shared_kv_layers", f"but block_count is {layers}")
        return shared
    return max(layers - _GEMMA3N_HOLDING, 0) if kind == "gemma3n" else 0


def _recurrent(fields: Fields, kind: str, layers: int, guessing: int) -> tuple[bool, ...]:
    """Which layers keep a state."""
    if kind in _RECURRENT or kind == "falcon-h1":
        return (True,) * layers
    if kind in _INTERVAL:
        if fields.has_list("attention.recurrent_layers"):
            return fields.flags("attention.recurrent_layers", layers + guessing)[:layers]
        period = fields.size("full_attention_interval") if fields.has("full_attention_interval") else 4
        return tuple((i + 1) % period != 0 for i in range(layers))
    if kind not in _ZERO_HEADS:
        return (False,) * layers
    heads = _kv_heads(fields, layers, guessing)
    if kind.startswith("nemotron_h"):
        # A layer with a feed-forward part is only that.
        inner = fields.numbers("feed_forward_length", layers + guessing)[:layers]
        return tuple(count == 0 and width == 0 for count, width in zip(heads, inner, strict=True))
    return tuple(count == 0 for count in heads)


def _state(fields: Fields, kind: str) -> State:
    if kind.startswith("rwkv"):
        hidden = fields.size("embedding_length")
        return State(fields.number_of("token_shift_count", 2) * hidden, hidden * fields.size("wkv.head_size"))
    if kind.startswith("lfm2"):
        return State(fields.size("embedding_length") * (fields.size("shortconv.l_cache") - 1), 0)
    kernel = fields.size("ssm.conv_kernel")
    if kind == "kimi-linear":
        heads, width = fields.size("attention.head_count"), fields.size("kda.head_dim")
        return delta_net(heads, heads, width, width, kernel)
    inner, state = fields.size("ssm.inner_size"), fields.size("ssm.state_size")
    groups = fields.number_of("ssm.group_count", 0)
    return State((inner + 2 * groups * state) * (kernel - 1), inner * state)
