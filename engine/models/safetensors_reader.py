"""A model directory as Hugging Face lays it out: config.json, safetensors (one file or sharded), tokenizer.json."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import ModelError
from engine.models.architectures import experts_refused, served
from engine.models.config import Architecture, ModelConfig
from engine.models.end_tokens import end_ids
from engine.models.file_kind import PICKLES, pickle_refused
from engine.models.loaded import LoadedModel, ServedModel
from engine.models.rope import rope_from_config
from engine.models.safetensors_file import StoredTensor, map_tensors, read_header
from engine.models.shapes import check_config, check_shapes
from engine.models.stated import flag, integer, json_object, number, printable, read_text, shown, wrong
from engine.models.template import ChatTemplate
from engine.models.tokenizer import TextTokenizer, load_tokenizer

if TYPE_CHECKING:
    from torch import Tensor

_SINGLE, _INDEX = "model.safetensors", "model.safetensors.index.json"
_GENERATION = "generation_config.json"
_QWEN3_HEAD_DIM = 128
# Tables that follow from the configuration; old checkpoints carry them.
_DERIVED = ".rotary_emb.inv_freq"


def read_directory(path: Path, source: str, name: str | None = None) -> LoadedModel:
    """The model, its weights memory mapped where they lie. Raises ModelError naming file, tensor and reason."""
    raw = _json(path / "config.json", required=True)
    architecture = served(raw.get("model_type"), str(path / "config.json"))
    stored = _stored_tensors(path)
    config = _config(path, raw, architecture, stored, name or printable(path.resolve().name))
    tensors = {
        tensor: (file, entry)
        for tensor, (file, entry) in stored.items()
        if not tensor.endswith(_DERIVED) and not (config.tied_head and tensor == "lm_head.weight")
    }
    check_shapes(config, {tensor: entry.shape for tensor, (_, entry) in tensors.items()}, str(path))
    weights: dict[str, Tensor] = {}
    for file in sorted({file for file, _ in tensors.values()}):
        weights |= map_tensors(file, {tensor: entry for tensor, (at, entry) in tensors.items() if at == file})
    settings = _json(path / "tokenizer_config.json")
    tokenizer = _tokenizer(path, config.vocab_size, config.eos_ids, config.bos_id, settings)
    return LoadedModel(
        config=config,
        weights=weights,
        tokenizer=tokenizer,
        template=_template(path, settings),
        path=path,
        source=source,
        revision=_revision(raw, stored),
        note="weights as stored in the safetensors files",
    )


def read_served(path: Path, source: str, name: str | None = None) -> ServedModel:
    """The text side alone, whatever the architecture. Raises ModelError naming file and reason."""
    file = str(path / "config.json")
    raw = _json(path / "config.json", required=True)
    if not any(path.glob("*.safetensors")):
        raise _no_weights(path)
    # Multimodal models keep what concerns text in a part of its own.
    part = raw.get("text_config")
    text = raw | part if isinstance(part, dict) else raw
    eos, vocab = _eos(path, text), integer(text, "vocab_size", file)
    settings, bos = _json(path / "tokenizer_config.json"), text.get("bos_token_id")
    return ServedModel(
        name=name or printable(path.resolve().name),
        max_context=integer(text, "max_position_embeddings", file),
        eos_ids=eos,
        tokenizer=_tokenizer(path, vocab, eos, bos if isinstance(bos, int) else None, settings),
        template=_template(path, settings),
        source=source,
    )


def _stored_tensors(path: Path) -> dict[str, tuple[Path, StoredTensor]]:
    """Tensor name -> the file that holds it and its place there."""
    if (path / _INDEX).is_file():
        named = _json(path / _INDEX).get("weight_map")
        if not isinstance(named, dict) or not named or not all(_names_file(file) for file in named.values()):
            raise ModelError(
                f"{path / _INDEX}: the list of weights (weight_map) is missing or broken; download it again."
            )
        files = sorted({path / Path(file).name for file in named.values()})
    elif (path / _SINGLE).is_file():
        named, files = {}, [path / _SINGLE]
    else:
        raise _no_weights(path)
    found = {tensor: (file, entry) for file in files for tensor, entry in read_header(file).items()}
    for tensor, file in named.items():
        if tensor not in found:
            raise ModelError(
                f"{path / str(file)}: tensor {tensor} is missing, though the index lists it; download it again."
            )
    return found


def _names_file(stated: object) -> bool:
    return isinstance(stated, str) and 0 < len(Path(stated).name) < 200


def _no_weights(path: Path) -> ModelError:
    for file in sorted(path.iterdir()):
        if file.suffix in PICKLES:
            return pickle_refused(file)
    return ModelError(f"{path}: no {_SINGLE} and no {_INDEX}; give a directory that holds the model's weights.")


def _config(
    path: Path,
    raw: Mapping[str, Any],
    architecture: Architecture,
    stored: Mapping[str, tuple[Path, StoredTensor]],
    name: str,
) -> ModelConfig:
    file = str(path / "config.json")
    _check_served(raw, architecture, file)
    hidden, heads = integer(raw, "hidden_size", file), integer(raw, "num_attention_heads", file)
    own = _QWEN3_HEAD_DIM if architecture == "qwen3" else hidden // max(1, heads)
    vocab, bos = integer(raw, "vocab_size", file), integer(raw, "bos_token_id", file, -1)
    config = ModelConfig(
        name=name,
        architecture=architecture,
        hidden_size=hidden,
        intermediate_size=integer(raw, "intermediate_size", file),
        layers=integer(raw, "num_hidden_layers", file),
        heads=heads,
        kv_heads=integer(raw, "num_key_value_heads", file, heads),
        head_dim=integer(raw, "head_dim", file, own),
        vocab_size=vocab,
        max_context=integer(raw, "max_position_embeddings", file),
        rms_norm_eps=number(raw, "rms_norm_eps", file, 1e-6),
        rope=rope_from_config(raw, file),
        tied_head=flag(raw, "tie_word_embeddings", file),
        qkv_bias="model.layers.0.self_attn.q_proj.bias" in stored,
        qk_norm=architecture == "qwen3",
        eos_ids=_eos(path, raw),
        bos_id=bos if 0 <= bos < vocab else None,
    )
    return check_config(config, file)


def _check_served(raw: Mapping[str, Any], architecture: Architecture, file: str) -> None:
    if raw.get("num_local_experts") or raw.get("num_experts"):
        raise experts_refused(architecture, file)
    if quantization := raw.get("quantization_config"):
        method = quantization.get("quant_method", "unknown") if isinstance(quantization, dict) else "unknown"
        raise ModelError(
            f"{file}: weights quantized by {shown(method)} are not served; run this model on the vLLM backend."
        )
    if (activation := raw.get("hidden_act", "silu")) != "silu":
        raise ModelError(
            f"{file}: activation {shown(activation)!r} is not served, 'silu' is; run it on the vLLM backend."
        )
    if flag(raw, "mlp_bias", file):
        raise ModelError(f"{file}: biases in the MLP (mlp_bias) are not served; run this model on the vLLM backend.")
    if _slides(raw, architecture, file):
        raise ModelError(
            f"{file}: attention slides over {raw.get('sliding_window')} tokens; this engine attends to the whole "
            "context, so run this model on the vLLM backend."
        )


def _slides(raw: Mapping[str, Any], architecture: Architecture, file: str) -> bool:
    """Whether some layer really attends to a window shorter than the context."""
    window = integer(raw, "sliding_window", file, 0)
    if architecture == "llama" or not window or window >= integer(raw, "max_position_embeddings", file):
        return False
    if layers := raw.get("layer_types"):
        if not isinstance(layers, list):
            raise wrong(raw, "layer_types", file, "not a list")
        return "sliding_attention" in layers
    full = integer(raw, "max_window_layers", file, 0)
    return flag(raw, "use_sliding_window", file) and full < integer(raw, "num_hidden_layers", file)


def _eos(path: Path, config: Mapping[str, Any]) -> frozenset[int]:
    """Ids that the configurations state, the tokenizer's own end token, and known end markers among its controls."""
    stated: list[int | None] = []
    for name, source in (("config.json", config), (_GENERATION, _json(path / _GENERATION))):
        ids = source.get("eos_token_id")
        several = ids if isinstance(ids, list) else [] if ids is None else [ids]
        if any(not isinstance(index, int) or isinstance(index, bool) for index in several):
            raise wrong(source, "eos_token_id", str(path / name), "not a token's id or a list of ids")
        stated += several
    tokenizer = load_tokenizer(path / "tokenizer.json")
    own = _spelled(_json(path / "tokenizer_config.json").get("eos_token"))
    stated.append(tokenizer.token_to_id(own) if own else None)
    control = {at: token.content for at, token in tokenizer.get_added_tokens_decoder().items() if token.special}
    return end_ids(stated, control)


def _tokenizer(
    path: Path, vocab_size: int, eos_ids: frozenset[int], bos_id: int | None, settings: Mapping[str, Any]
) -> TextTokenizer:
    tokenizer = load_tokenizer(path / "tokenizer.json")
    bos_name = _spelled(settings.get("bos_token"))
    bos = tokenizer.token_to_id(bos_name) if bos_name else None
    bos = bos_id if bos is None else bos
    # The post-processor tells whether plain text starts with the start token, unless the settings say so outright.
    added = tokenizer.encode("", add_special_tokens=True).ids[:1] == [bos]
    add_bos = flag(settings, "add_bos_token", str(path / "tokenizer_config.json"), added)
    return TextTokenizer(
        tokenizer,
        vocab_size=vocab_size,
        eos_ids=eos_ids,
        bos_id=bos,
        add_bos=add_bos,
    )


def _template(path: Path, settings: Mapping[str, Any]) -> ChatTemplate | None:
    """chat_template.jinja, or `chat_template` of tokenizer_config.json as one text or as a list of named ones."""
    names = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token")
    tokens = {name: text for name in names if (text := _spelled(settings.get(name)))}
    file = path / "chat_template.jinja"
    stated = read_text(file) if file.is_file() else settings.get("chat_template")
    if isinstance(stated, list) and all(_names_template(entry) for entry in stated):
        named = {entry["name"]: entry["template"] for entry in stated}
        default = named.get("default") or next(iter(named.values()), None)
        return ChatTemplate(default, tokens, named.get("tool_use")) if default else None
    if stated is not None and not isinstance(stated, str):
        raise wrong(
            settings, "chat_template", str(path / "tokenizer_config.json"), "not a text or a list of named ones"
        )
    return ChatTemplate(stated, tokens) if stated else None


def _names_template(entry: object) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("name"), str) and isinstance(entry.get("template"), str)


def _spelled(token: object) -> str | None:
    """A special token in tokenizer_config.json is a text or an object with its `content`."""
    if isinstance(token, dict):
        token = token.get("content")
    return token if isinstance(token, str) else None


def check_directory(path: Path) -> None:
    """Raises ModelError where no model can be in it, without reading one."""
    _json(path / "config.json", required=True)


def _json(path: Path, required: bool = False) -> dict[str, Any]:
    if not path.is_file():
        if required:
            raise ModelError(
                f"{path}: missing; give a directory that holds config.json, safetensors and tokenizer.json."
            )
        return {}
    return json_object(path)


def _revision(raw: Mapping[str, Any], stored: Mapping[str, tuple[Path, StoredTensor]]) -> str:
    """A hash of the configuration and of the weight files' names, sizes and times."""
    files = sorted({file for file, _ in stored.values()})
    stats = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    return hashlib.sha256(json.dumps([raw, stats], sort_keys=True).encode()).hexdigest()[:16]
