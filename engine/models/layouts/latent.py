"""Multi-head latent attention (MLA): each layer keeps one vector per token, which all heads share."""

from engine.layout import LayerGroup
from engine.models.layouts.fields import Fields
from engine.models.layouts.shape import Shape

# Families and how many attentions stand in each of their layers.
LATENT = {
    "deepseek_v2": 1,
    "deepseek_v3": 1,
    "glm4_moe_lite": 1,
    "kimi_k2": 1,
    "longcat_flash": 2,
    "mistral4": 1,
    "youtu": 1,
}


def read_latent(fields: Fields, attentions: int) -> Shape:
    key = "num_layers" if attentions > 1 else "num_hidden_layers"
    layers = fields.layers(key) * attentions
    layer = latent_layer(fields)
    return Shape((LayerGroup(layers, 1, layer.widths),), fields.context())


def latent_layer(fields: Fields) -> LayerGroup:
    if not fields.flag("use_mla", True) or fields.is_null("kv_lora_rank"):
        raise fields.refused("kv_lora_rank", "a variant of this family without latent attention, which is not known")
    width = fields.size("kv_lora_rank") + fields.size("qk_rope_head_dim")
    fields.ignore("head_dim", "v_head_dim")
    fields.note(
        f"MLA is counted as one vector of {width} per token and layer, as vLLM and llama.cpp keep it; transformers "
        "keeps K and V of every head."
    )
    return LayerGroup(1, 1, (width,))
