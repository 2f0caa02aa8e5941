"""From a config.json to a layout: by its model type, or one sentence that says why not."""

from collections.abc import Mapping
from typing import Any

from engine.errors import ModelError
from engine.layout import TurnLayout
from engine.models.layouts.dense import DENSE, read_dbrx, read_dense, read_falcon, read_gpt_bigcode
from engine.models.layouts.fields import Fields, words
from engine.models.layouts.hybrid import HYBRID
from engine.models.layouts.latent import LATENT, read_latent
from engine.models.layouts.recurrent import RECURRENT
from engine.models.layouts.shape import Shape
from engine.models.layouts.shared import SHARED
from engine.models.stated import shown

_OWN = {"dbrx": read_dbrx, "falcon": read_falcon, "gpt_bigcode": read_gpt_bigcode}
_TEXT_PARTS = ("text_config", "llm_config", "language_config")
# The text part of some models goes by the whole model's name, flat or under text_config.
_TEXT_TYPES = {
    "gemma3n": "gemma3n_text",
    "gemma4": "gemma4_text",
    "llama4": "llama4_text",
    "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_moe_text",
    "qwen3_vl": "qwen3_vl_text",
    "qwen3_vl_moe": "qwen3_vl_moe_text",
}
_ENCODER_DECODERS = words(
    "bart bigbird_pegasus blenderbot fsmt led longt5 m2m_100 marian mbart moonshine mt5 mvp nllb_moe pegasus "
    "pegasus_x plbart prophetnet seamless_m4t speech_to_text switch_transformers t5 t5gemma udop umt5 whisper "
    "encoder_decoder vision_encoder_decoder speech_encoder_decoder"
)
_ENCODERS = words(
    "albert bert big_bird camembert canine clip clip_text_model deberta deberta_v2 distilbert electra ernie esm "
    "eurobert flaubert funnel ibert layoutlm longformer megatron_bert mobilebert modernbert mpnet mra nomic_bert "
    "nystromformer rembert roberta roformer siglip siglip_text_model squeezebert vit xlm xlm_roberta "
    "xlm_roberta_xl"
)
_CROSS = frozenset({"idefics", "mllama", "mllama_text_model"})
# Fields that change what a turn holds. A family that states one which its reader does not read is not understood.
_CHANGES_KV = (
    "add_cross_attention",
    "attention_chunk_size",
    "attention_k_eq_v",
    "attention_types",
    "attention_window_size",
    "attn_config",
    "attn_layer_indices",
    "attn_layer_period",
    "attn_type_list",
    "block_configs",
    "block_types",
    "cla_share_factor",
    "compress_ratios",
    "conv_L_cache",
    "cross_attention_layers",
    "full_attention_interval",
    "full_attn_idxs",
    "global_attn_every_n_layers",
    "global_head_dim",
    "hybrid_layer_ids",
    "hybrid_override_pattern",
    "index_topk",
    "kv_lora_rank",
    "layer_types",
    "layers_block_type",
    "linear_attn_config",
    "linear_num_value_heads",
    "lru_width",
    "mamba_d_state",
    "mamba_num_heads",
    "max_window_layers",
    "num_global_key_value_heads",
    "num_key_value_heads_per_layer",
    "num_kv_shared_layers",
    "per_layer_config",
    "sliding_window",
    "sliding_window_pattern",
    "sliding_window_size",
    "ssm_state_size",
    "state_size",
    "use_cla",
    "use_mla",
    "use_sliding_window",
    "v_head_dim",
)
# Other words for a head's size: one that is not read has to say the same.
_HEAD_SIZES = ("attention_head_dim", "head_dim", "kv_channels")
# What a field that says false leaves without effect.
_SWITCHES = {
    "use_cla": ("cla_share_factor",),
    "use_mla": ("kv_lora_rank", "v_head_dim"),
    "use_sliding_window": ("sliding_window", "max_window_layers"),
}


def layout_of_config(values: Mapping[str, Any], file: str, name: str) -> TurnLayout:
    """Raises ModelError, one sentence that names the file, for a layout that is not known or badly stated."""
    fields = _text_part(Fields(values, file))
    kind = fields.name("model_type")
    shape = _read(fields, _TEXT_TYPES.get(kind, kind))
    unread = fields.unread(_CHANGES_KV)
    for switch, without_effect in _SWITCHES.items():
        if fields.has(switch) and not fields.flag(switch):
            unread = [key for key in unread if key not in without_effect]
    widths = {width for group in shape.groups for width in group.widths}
    unread += [key for key in fields.unread(_HEAD_SIZES) if fields.number_of(key) not in widths]
    if unread:
        raise fields.refused(unread[0], f"which changes a turn's KV and is not known for model_type {shown(kind)!r}")
    return TurnLayout(name, shape.groups, shape.state_bytes, shape.max_context, tuple(fields.notes))


def _text_part(fields: Fields) -> Fields:
    """The part of a model of several kinds of input that reads and writes text."""
    _refuse_by_kind(fields)
    for key in _TEXT_PARTS:
        if fields.is_part(key):
            part = fields.part(key)
            if not part.has("model_type"):
                raise part.wrong("model_type", "")
            _refuse_by_kind(part)
            return part
    return fields


def _refuse_by_kind(fields: Fields) -> None:
    kind = fields.name("model_type")
    if kind in _CROSS or fields.has_list("cross_attention_layers"):
        raise fields.refused("model_type", "whose cross-attention layers hold KV of an image, a layout not known here")
    if kind in _ENCODER_DECODERS or fields.flag("is_encoder_decoder"):
        raise fields.refused("model_type", "an encoder-decoder, which holds KV of its input and of its output")
    if fields.flag("add_cross_attention"):
        raise fields.refused("model_type", "with add_cross_attention, a layout not known here")
    bidirectional = "use_bidirectional_attention"
    if not fields.flag("is_causal", True):
        raise fields.refused("is_causal", "an encoder, which keeps no KV from token to token")
    every_layer = not fields.is_text(bidirectional) and fields.flag(bidirectional)
    if kind in _ENCODERS or every_layer or (fields.is_text(bidirectional) and fields.name(bidirectional) == "all"):
        raise fields.refused("model_type", "an encoder, which keeps no KV from token to token")


def _read(fields: Fields, kind: str) -> Shape:
    if kind in DENSE:
        return read_dense(fields, DENSE[kind])
    if kind in LATENT:
        return read_latent(fields, LATENT[kind])
    reader = HYBRID.get(kind) or SHARED.get(kind) or RECURRENT.get(kind) or _OWN.get(kind)
    if reader is None:
        raise ModelError(
            f"{fields.file}: model_type {shown(kind)!r} is not known, so its KV layout would be a "
            "guess; choose another model, or write its shape into a card profile (README, Cards)."
        )
    return reader(fields)
