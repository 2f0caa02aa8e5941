"""Families whose layers all attend, fully or within a window. Defaults are those of transformers' config classes."""

from dataclasses import dataclass, field

from engine.layout import LayerGroup
from engine.models.layouts.attention import (
    USUAL,
    Keys,
    Kind,
    Pattern,
    Sizes,
    all_full,
    check_divides,
    kinds,
    plain_layer,
    windowed,
)
from engine.models.layouts.fields import Fields
from engine.models.layouts.shape import Shape, grouped

_GPT = Keys("n_layer", "n_head", "", "", "n_embd", "n_positions")


@dataclass(frozen=True, slots=True)
class Family:
    """`window`: the family's own, where a config that slides may leave it out."""

    sizes: Sizes = field(default_factory=Sizes)
    pattern: Pattern = all_full
    window: int | None = None


def read_dense(fields: Fields, family: Family) -> Shape:
    keys = family.sizes.keys
    layers = fields.layers(fields.spelled(keys.layers, USUAL.layers))
    layer = plain_layer(fields, family.sizes)
    listed = kinds(fields, layers, family.pattern(fields, layers))
    windows = {kind: windowed(fields, layer, kind, family.window) for kind in dict.fromkeys(listed)}
    return Shape(grouped(windows[kind] for kind in listed), fields.context(fields.spelled(keys.context, USUAL.context)))


def every(period: int) -> Pattern:
    """Layers slide, each `period`-th attends fully; a config may state another `sliding_window_pattern`."""

    def pattern(fields: Fields, layers: int) -> tuple[Kind, ...]:
        fields.ignore("use_sliding_window")
        # Beside layer_types some configs spell the same in letters.
        beside_list = fields.has("layer_types")
        own = None if beside_list and fields.is_text("sliding_window_pattern") else "sliding_window_pattern"
        step = fields.size(own) if own is not None and fields.has(own) else period
        return tuple(Kind.SLIDING if (i + 1) % step else Kind.FULL for i in range(layers))

    return pattern


def _where_stated(fields: Fields, layers: int) -> tuple[Kind, ...]:
    """A window that is stated holds for every layer."""
    slides = fields.has("sliding_window") and fields.flag("use_sliding_window", True)
    fields.ignore("max_window_layers")
    return (Kind.SLIDING if slides else Kind.FULL,) * layers


def _mistral(fields: Fields, layers: int) -> tuple[Kind, ...]:
    """As above, but a config that leaves the window out has the family's."""
    slides = not fields.is_null("sliding_window")
    return (Kind.SLIDING if slides else Kind.FULL,) * layers


def _qwen(fields: Fields, layers: int) -> tuple[Kind, ...]:
    fields.ignore("sliding_window")
    first = fields.number_of("max_window_layers", 28)
    slides = fields.flag("use_sliding_window") and not fields.is_null("sliding_window")
    return tuple(Kind.SLIDING if slides and i >= first else Kind.FULL for i in range(layers))


def _exaone4(fields: Fields, layers: int) -> tuple[Kind, ...]:
    if fields.is_null("sliding_window"):
        fields.ignore("sliding_window_pattern")
        return all_full(fields, layers)
    return every(4)(fields, layers)


def _llama4(fields: Fields, layers: int) -> tuple[Kind, ...]:
    """Layers with a rotary embedding attend within their chunk."""
    step = fields.number_of("no_rope_layer_interval", 4) or 4
    rotary = tuple((i + 1) % step != 0 for i in range(layers))
    if fields.has_list("no_rope_layers"):
        rotary = fields.flags("no_rope_layers", layers)
    chunked = not fields.is_null("attention_chunk_size")
    return tuple(Kind.CHUNKED if turned and chunked else Kind.FULL for turned in rotary)


def _smollm3(fields: Fields, layers: int) -> tuple[Kind, ...]:
    listed = fields.has("layer_types")
    if not listed and fields.flag("use_sliding_window") and fields.has("sliding_window"):
        raise fields.refused("use_sliding_window", "whose layers are not listed in layer_types")
    fields.ignore("use_sliding_window", "sliding_window", "max_window_layers")
    return all_full(fields, layers)


def _minimax_m2(fields: Fields, layers: int) -> tuple[Kind, ...]:
    if fields.has("attn_type_list") and not all(fields.flags("attn_type_list", layers)):
        raise fields.refused("attn_type_list", "with layers that are not full attention, unknown for this family")
    return all_full(fields, layers)


def read_falcon(fields: Fields) -> Shape:
    """The old form shares one KV head, or none; the new one states how many."""
    layers = fields.layers()
    layer = plain_layer(fields, Sizes(keys=Keys(kv_heads="")))
    if fields.flag("new_decoder_architecture"):
        kv_heads = fields.size("num_kv_heads") if fields.has("num_kv_heads") else layer.heads
        check_divides(fields, "num_kv_heads", kv_heads, layer.heads)
    else:
        kv_heads = 1 if fields.flag("multi_query", True) else layer.heads
    fields.ignore("num_kv_heads")
    return Shape((LayerGroup(layers, kv_heads, layer.widths),), fields.context())


def read_gpt_bigcode(fields: Fields) -> Shape:
    layers = fields.layers(fields.spelled("n_layer", USUAL.layers))
    layer = plain_layer(fields, Sizes(keys=_GPT))
    kv_heads = 1 if fields.flag("multi_query", True) else layer.heads
    return Shape((LayerGroup(layers, kv_heads, layer.widths),), fields.context("n_positions"))


def read_dbrx(fields: Fields) -> Shape:
    layers = fields.layers("n_layers")
    layer = plain_layer(fields, Sizes(keys=Keys("n_layers", "n_heads", "", "", "d_model", "max_seq_len")))
    attention = fields.part("attn_config")
    kv_heads = attention.size("kv_n_heads")
    check_divides(attention, "kv_n_heads", kv_heads, layer.heads)
    return Shape((LayerGroup(layers, kv_heads, layer.widths),), fields.context("max_seq_len"))


_PLAIN = Family()
_LLAMA = Family(Sizes(heads=32, hidden=4096))
_QWEN2 = Family(Sizes(heads=32, kv_heads=32, hidden=4096), _qwen, 4096)
_QWEN2_VL = Family(Sizes(heads=64, kv_heads=8, hidden=8192), _qwen, 4096)
_QWEN3 = Family(Sizes(heads=32, kv_heads=32, head_dim=128), _qwen, 4096)
_GEMMA3 = Family(Sizes(heads=8, kv_heads=4, head_dim=256), every(6), 4096)
_GLM4 = Family(Sizes(kv_heads=2, head_dim=128))
_STARCODER2 = Family(Sizes(kv_heads=2), _where_stated)

DENSE: dict[str, Family] = {
    "apertus": _PLAIN,
    "arcee": _PLAIN,
    "bitnet": Family(Sizes(kv_heads=5)),
    "bloom": Family(Sizes(keys=Keys("n_layer", "n_head", "", "", "n_embed", "seq_length"))),
    "codegen": Family(Sizes(keys=_GPT)),
    "cohere": _PLAIN,
    "cohere2": Family(Sizes(), every(4), 4096),
    "ernie4_5": Family(Sizes(kv_heads=2, head_dim=128)),
    "ernie4_5_moe": Family(Sizes(kv_heads=4)),
    "exaone4": Family(Sizes(kv_heads=32), _exaone4, 4096),
    "gemma": Family(Sizes(heads=16, kv_heads=16, head_dim=256)),
    "gemma2": Family(Sizes(heads=8, kv_heads=4, head_dim=256), every(2), 4096),
    "gemma3": _GEMMA3,
    "gemma3_text": _GEMMA3,
    "glm": _GLM4,
    "glm4": _GLM4,
    "glm4_moe": Family(Sizes(kv_heads=8)),
    "glm4v_moe_text": Family(Sizes(kv_heads=8)),
    "glm4v_text": Family(Sizes(kv_heads=2)),
    "gpt2": Family(Sizes(heads=12, hidden=768, keys=_GPT)),
    "gpt_neox": _PLAIN,
    "gpt_oss": Family(Sizes(heads=64, kv_heads=8, head_dim=64), every(2), 128),
    "gptj": Family(Sizes(keys=_GPT)),
    "granite": _PLAIN,
    "granitemoe": _PLAIN,
    "granitemoeshared": _PLAIN,
    "helium": Family(Sizes(kv_heads=20, head_dim=128)),
    "hunyuan_v1_dense": _PLAIN,
    "hunyuan_v1_moe": _PLAIN,
    "internlm2": _PLAIN,
    "internlm3": Family(Sizes(kv_heads=2, head_dim=128)),
    "llama": _LLAMA,
    "llama4_text": Family(Sizes(heads=40, kv_heads=8, head_dim=128), _llama4, 8192),
    "minimax_m2": Family(Sizes(kv_heads=8, head_dim=128), _minimax_m2),
    "ministral": Family(Sizes(heads=32, kv_heads=8, hidden=4096), _mistral, 4096),
    "ministral3": Family(Sizes(heads=32, kv_heads=8, head_dim=128), _where_stated),
    "mistral": Family(Sizes(heads=32, kv_heads=8, hidden=4096), _mistral, 4096),
    "mixtral": Family(Sizes(heads=32, kv_heads=8, hidden=4096), _where_stated),
    "nemotron": _PLAIN,
    "olmo": _PLAIN,
    "olmo2": _PLAIN,
    "olmo3": Family(Sizes(), every(4), 4096),
    "olmoe": _PLAIN,
    "opt": _PLAIN,
    "persimmon": _PLAIN,
    "phi": _PLAIN,
    "phi3": Family(Sizes(), _where_stated),
    "phimoe": Family(Sizes(kv_heads=8), _where_stated),
    "qwen2": _QWEN2,
    "qwen2_5_vl": _QWEN2_VL,
    "qwen2_5_vl_text": _QWEN2_VL,
    "qwen2_moe": Family(Sizes(kv_heads=16)),
    "qwen2_vl": _QWEN2_VL,
    "qwen2_vl_text": _QWEN2_VL,
    "qwen3": _QWEN3,
    "qwen3_moe": Family(Sizes(kv_heads=4)),
    "qwen3_vl_moe_text": Family(Sizes(kv_heads=16)),
    "qwen3_vl_text": Family(Sizes(kv_heads=32, head_dim=128)),
    "seed_oss": Family(Sizes(kv_heads=8, head_dim=128)),
    "smollm3": Family(Sizes(kv_heads=4), _smollm3),
    "solar_open": Family(Sizes(kv_heads=8, head_dim=128)),
    "stablelm": Family(Sizes(kv_heads=32)),
    "starcoder2": _STARCODER2,
    "vaultgemma": Family(Sizes(heads=8, kv_heads=4, head_dim=256), every(2), 4096),
}
