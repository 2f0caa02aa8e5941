"""Hybrids: some layers attend, the others keep a state of fixed size (or both do, or some keep nothing)."""

from collections.abc import Callable, Iterable

from engine.layout import LayerGroup
from engine.models.layouts.attention import Kind, Sizes, kinds, plain_layer
from engine.models.layouts.fields import Fields
from engine.models.layouts.latent import latent_layer
from engine.models.layouts.shape import Shape
from engine.models.layouts.states import State, delta_net, mamba1, mamba2, state_bytes

_WITH_LINEAR = frozenset({Kind.FULL, Kind.LINEAR})
_LETTERS = {"M": Kind.LINEAR, "*": Kind.FULL, "-": None, "E": None}
_WORDS = {"mamba": Kind.LINEAR, "linear_attention": Kind.LINEAR, "attention": Kind.FULL, "full_attention": Kind.FULL}
_NOTHING = ("mlp", "moe")


def _shape(layer: LayerGroup, listed: Iterable[Kind | None], state: int, context: int | None) -> Shape:
    attending = sum(kind is Kind.FULL for kind in listed)
    groups = (LayerGroup(attending, layer.heads, layer.widths, layer.window),) if attending else ()
    return Shape(groups, context, state)


def _qwen_next(fields: Fields, sizes: Sizes) -> Shape:
    layers = fields.layers()
    period = fields.size("full_attention_interval") if fields.has("full_attention_interval") else 4
    own = tuple(Kind.LINEAR if (i + 1) % period else Kind.FULL for i in range(layers))
    listed = kinds(fields, layers, own, _WITH_LINEAR)
    state = delta_net(
        fields.size("linear_num_key_heads", 16),
        fields.size("linear_num_value_heads", 32),
        fields.size("linear_key_head_dim", 128),
        fields.size("linear_value_head_dim", 128),
        fields.size("linear_conv_kernel_dim", 4),
    )
    nbytes = state_bytes(fields, listed.count(Kind.LINEAR), state)
    return _shape(plain_layer(fields, sizes), listed, nbytes, fields.context())


def _qwen3_next(fields: Fields) -> Shape:
    return _qwen_next(fields, Sizes(16, 2, 256))


def _qwen3_5(fields: Fields) -> Shape:
    return _qwen_next(fields, Sizes(16, 4, 256))


def _qwen3_5_moe(fields: Fields) -> Shape:
    return _qwen_next(fields, Sizes(16, 2, 256))


def _jamba(fields: Fields) -> Shape:
    layers = fields.layers()
    period, offset = fields.size("attn_layer_period", 8), fields.number_of("attn_layer_offset", 4)
    own = tuple(Kind.FULL if i % period == offset else Kind.LINEAR for i in range(layers))
    listed = kinds(fields, layers, own, _WITH_LINEAR)
    inner = fields.size("mamba_expand", 2) * fields.size("hidden_size")
    state = mamba1(inner, fields.size("mamba_d_state", 16), fields.size("mamba_d_conv", 4))
    nbytes = state_bytes(fields, listed.count(Kind.LINEAR), state)
    return _shape(plain_layer(fields, Sizes(kv_heads=8)), listed, nbytes, fields.context())


def _mamba2_state(fields: Fields, inner: int) -> State:
    """In the spelling of Bamba, Granite and Falcon-H1."""
    heads = fields.size("mamba_n_heads", 128)
    if fields.has("mamba_d_head") and not fields.is_text("mamba_d_head"):
        head_dim = fields.size("mamba_d_head")
    else:
        head_dim = _parted(fields, "mamba_n_heads", inner, heads)
    return mamba2(
        inner,
        fields.size("mamba_n_groups", 1),
        heads,
        head_dim,
        fields.size("mamba_d_state", 256),
        fields.size("mamba_d_conv", 4),
    )


def _parted(fields: Fields, key: str, width: int, heads: int) -> int:
    if width % heads:
        raise fields.wrong(key, f"which does not divide a width of {width:,}")
    return width // heads


def _bamba(fields: Fields) -> Shape:
    layers = fields.layers()
    attending = fields.positions("attn_layer_indices", layers) if fields.has("attn_layer_indices") else frozenset()
    own = tuple(Kind.FULL if i in attending else Kind.LINEAR for i in range(layers))
    listed = kinds(fields, layers, own, _WITH_LINEAR)
    state = _mamba2_state(fields, fields.size("mamba_expand", 2) * fields.size("hidden_size"))
    nbytes = state_bytes(fields, listed.count(Kind.LINEAR), state)
    return _shape(plain_layer(fields, Sizes(kv_heads=8)), listed, nbytes, fields.context())


def _granite(fields: Fields) -> Shape:
    layers = fields.layers()
    listed = kinds(fields, layers, (Kind.LINEAR,) * layers, _WITH_LINEAR)
    state = _mamba2_state(fields, fields.size("mamba_expand", 2) * fields.size("hidden_size"))
    nbytes = state_bytes(fields, listed.count(Kind.LINEAR), state)
    return _shape(plain_layer(fields, Sizes()), listed, nbytes, fields.context())


def _falcon_h1(fields: Fields) -> Shape:
    """Every layer attends and keeps a state beside it."""
    layers = fields.layers()
    if fields.has("mamba_d_ssm"):
        inner = fields.size("mamba_d_ssm")
    else:
        inner = fields.size("mamba_expand", 2) * fields.size("hidden_size")
    fields.ignore("mamba_expand")
    nbytes = state_bytes(fields, layers, _mamba2_state(fields, inner))
    layer = plain_layer(fields, Sizes(kv_heads=8))
    return _shape(layer, (Kind.FULL,) * layers, nbytes, fields.context())


def _nemotron_h(fields: Fields) -> Shape:
    listed = _nemotron_layers(fields)
    heads, head_dim = fields.size("mamba_num_heads", 128), fields.size("mamba_head_dim", 64)
    groups = fields.size("n_groups" if fields.has("n_groups") else "mamba_n_groups", 8)
    kernel = fields.size("conv_kernel" if fields.has("conv_kernel") else "mamba_d_conv", 4)
    state = mamba2(heads * head_dim, groups, heads, head_dim, fields.size("ssm_state_size", 128), kernel)
    nbytes = state_bytes(fields, listed.count(Kind.LINEAR), state, own="float32")
    older = fields.has("attention_head_dim") and not fields.has("head_dim")
    layer = plain_layer(fields, Sizes(32, 8, fields.size("attention_head_dim") if older else 128))
    return _shape(layer, listed, nbytes, fields.context())


def _nemotron_layers(fields: Fields) -> tuple[Kind | None, ...]:
    """From a letter per layer (M state, * attention, - and E neither), or from a word per layer."""
    if fields.has("hybrid_override_pattern"):
        letters = fields.name("hybrid_override_pattern")
        if any(letter not in _LETTERS for letter in letters):
            raise fields.refused("hybrid_override_pattern", "with a letter that is not one of M, *, - and E")
        if fields.has("num_hidden_layers") and fields.layers() != len(letters):
            raise fields.wrong("num_hidden_layers", f"but hybrid_override_pattern has {len(letters)} letters")
        return tuple(_LETTERS[letter] for letter in letters)
    words = fields.names("layers_block_type", fields.layers())
    unknown = [word for word in words if word not in _WORDS and word not in _NOTHING]
    if unknown:
        raise fields.refused("layers_block_type", f"in which {unknown[0][:40]!r} is not known for this family")
    return tuple(_WORDS.get(word) for word in words)


def _zamba2(fields: Fields) -> Shape:
    """Every layer keeps a state; the hybrid ones call a shared attention, and each call keeps KV of its own."""
    layers = fields.layers()
    words = fields.names("layers_block_type", layers)
    unknown = [word for word in words if word not in ("mamba", "linear_attention", "hybrid")]
    if unknown:
        raise fields.refused("layers_block_type", f"in which {unknown[0][:40]!r} is not known for this family")
    hidden, heads = fields.size("hidden_size"), fields.size("num_attention_heads", 32)
    kv_heads = fields.size("num_key_value_heads") if fields.has("num_key_value_heads") else heads
    own = _parted(fields, "num_attention_heads", 2 * hidden, heads)
    head_dim = fields.size("attention_head_dim") if fields.has("attention_head_dim") else own
    inner, mamba_heads = fields.size("mamba_expand", 2) * hidden, fields.size("n_mamba_heads", 8)
    groups, state_size = fields.size("mamba_ngroups", 1), fields.size("mamba_d_state", 64)
    kernel = fields.size("mamba_d_conv", 4)
    mamba_width = _parted(fields, "n_mamba_heads", inner, mamba_heads)
    state = mamba2(inner, groups, mamba_heads, mamba_width, state_size, kernel)
    nbytes = state_bytes(fields, layers, state)
    fields.ignore("hybrid_layer_ids", "kv_channels", "mamba_headdim")
    layer = LayerGroup(words.count("hybrid"), kv_heads, (head_dim, head_dim))
    return Shape((layer,) if layer.layers else (), fields.context(), nbytes)


def _lfm2(fields: Fields) -> Shape:
    layers = fields.layers()
    every = frozenset(range(layers))
    attending = fields.positions("full_attn_idxs", layers) if fields.has("full_attn_idxs") else every
    own = tuple(Kind.FULL if i in attending else Kind.CONV for i in range(layers))
    listed = kinds(fields, layers, own, frozenset({Kind.FULL, Kind.CONV}))
    width = fields.size("conv_dim") if fields.has("conv_dim") else fields.size("hidden_size")
    state = State(width * (fields.size("conv_L_cache", 3) - 1), 0)
    nbytes = state_bytes(fields, listed.count(Kind.CONV), state)
    return _shape(plain_layer(fields, Sizes(32, 8)), listed, nbytes, fields.context())


def _recurrent_gemma(fields: Fields) -> Shape:
    layers = fields.layers()
    own = ("recurrent", "recurrent", "attention")
    cycle = fields.names("block_types", 3) if fields.has_list("block_types") else own
    unknown = [word for word in cycle if word not in ("recurrent", "attention")]
    if unknown:
        raise fields.refused("block_types", f"in which {unknown[0][:40]!r} is not known for this family")
    attending = sum(cycle[i % 3] == "attention" for i in range(layers))
    hidden = fields.size("hidden_size")
    width = fields.size("lru_width") if fields.has("lru_width") else hidden
    state = State(hidden * (fields.size("conv1d_width", 4) - 1), width)
    nbytes = state_bytes(fields, layers - attending, state, own="float32")
    layer = plain_layer(fields, Sizes(heads=10))
    window = fields.size("attention_window_size", 2048)
    groups = (LayerGroup(attending, layer.heads, layer.widths, window),) if attending else ()
    return Shape(groups, fields.context(), nbytes)


def _minimax(fields: Fields) -> Shape:
    """Lightning attention keeps one matrix per head."""
    layers = fields.layers()
    if fields.has("attn_type_list"):
        full = fields.flags("attn_type_list", layers)
    else:
        full = tuple((i + 1) % 2 == 1 for i in range(layers))
    own = tuple(Kind.FULL if attends else Kind.LINEAR for attends in full)
    listed = kinds(fields, layers, own, _WITH_LINEAR)
    layer = plain_layer(fields, Sizes(kv_heads=8))
    heads, head_dim = fields.size("num_attention_heads"), layer.widths[0]
    nbytes = state_bytes(fields, listed.count(Kind.LINEAR), State(0, heads * head_dim * head_dim))
    return _shape(layer, listed, nbytes, fields.context())


def _kimi_linear(fields: Fields) -> Shape:
    layers = fields.layers()
    linear = fields.part("linear_attn_config")
    full = linear.positions("full_attn_layers", layers, first=1)
    delta = linear.positions("kda_layers", layers, first=1)
    if full & delta or len(full) + len(delta) != layers:
        raise linear.wrong("kda_layers", "which with full_attn_layers does not name each layer once")
    heads, head_dim = linear.size("num_heads"), linear.size("head_dim")
    state = delta_net(heads, heads, head_dim, head_dim, linear.size("short_conv_kernel_size", 4))
    nbytes = state_bytes(fields, len(delta), state, own="float32")
    layer = latent_layer(fields)
    groups = (LayerGroup(len(full), 1, layer.widths),) if full else ()
    context = fields.context("model_max_length")
    return Shape(groups, context if context is not None else fields.context(), nbytes)


HYBRID: dict[str, Callable[[Fields], Shape]] = {
    "bamba": _bamba,
    "falcon_h1": _falcon_h1,
    "granitemoehybrid": _granite,
    "jamba": _jamba,
    "kimi_linear": _kimi_linear,
    "lfm2": _lfm2,
    "lfm2_moe": _lfm2,
    "minimax": _minimax,
    "minimax_m1": _minimax,
    "minimax_text_01": _minimax,
    "nemotron_h": _nemotron_h,
    "qwen3_5_moe_text": _qwen3_5_moe,
    "qwen3_5_text": _qwen3_5,
    "qwen3_next": _qwen3_next,
    "recurrent_gemma": _recurrent_gemma,
    "zamba2": _zamba2,
}
