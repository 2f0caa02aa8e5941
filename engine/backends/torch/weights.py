"""Model weights as the CPU kernels read them: int8 with one scale per output row, or fp32, in tiles of 16 outputs."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np
import torch

from engine.errors import ModelError
from engine.kernels.emit import LANES
from engine.kernels.forward import Shape, Weights
from engine.models.config import ModelConfig
from engine.models.progress import Progress, Report


class Model(Protocol):
    """What an executor needs of a loaded model: its shape, and its tensors by their Hugging Face names."""

    @property
    def config(self) -> ModelConfig: ...

    @property
    def weights(self) -> Mapping[str, torch.Tensor]: ...


def pad16(count: int) -> int:
    return -(-count // LANES) * LANES


def shape_of(config: ModelConfig, block_size: int) -> Shape:
    """Sizes for the kernels. Raises ModelError for an odd head dim and for heads that KV heads do not divide."""
    if config.head_dim % 2:
        raise ModelError(f"{config.name} has a head dim of {config.head_dim}; only even ones can be rotated.")
    if config.heads % config.kv_heads:
        raise ModelError(
            f"{config.name} has {config.heads} heads over {config.kv_heads} KV heads; these must divide evenly."
        )
    return Shape(
        layers=config.layers,
        hidden=config.hidden_size,
        hidden_padded=pad16(config.hidden_size),
        inner=pad16(config.intermediate_size),
        heads=config.heads,
        kv_heads=config.kv_heads,
        dim=config.head_dim,
        padded=pad16(config.head_dim),
        vocab_padded=pad16(config.vocab_size),
        block_size=block_size,
        eps=np.float32(config.rms_norm_eps),
    )


def pack_weights(model: Model, shape: Shape, exact: bool, report: Report) -> Weights:
    """Quantise (unless `exact`) and lay out all weights; one layer's fp32 copy is held at a time.

    Raises ModelError naming a tensor that is missing, of another shape than the config says, or not finite.
    """
    return _Packer(model, shape, exact, report).pack()


class _Packer:
    def __init__(self, model: Model, shape: Shape, exact: bool, report: Report) -> None:
        self._config = model.config
        self._tensors = model.weights
        self._shape = shape
        self._exact = exact
        self._report = report
        self._dtype = torch.float32 if exact else torch.int8

    def pack(self) -> Weights:
        c, s = self._config, self._shape
        width = (s.heads + 2 * s.kv_heads) * s.padded
        embedding, embedding_scale = self._layers(1, s.vocab_padded, s.hidden_padded, self._embedding)
        head, head_scale = embedding, embedding_scale
        if not c.tied_head:
            head, head_scale = self._layers(1, s.vocab_padded, s.hidden_padded, self._head)
        qkv, qkv_scale = self._layers(s.layers, width, s.hidden_padded, self._qkv)
        out, out_scale = self._layers(s.layers, s.hidden_padded, s.heads * s.padded, self._out)
        gate_up, gate_up_scale = self._layers(s.layers, 2 * s.inner, s.hidden_padded, self._gate_up)
        down, down_scale = self._layers(s.layers, s.hidden_padded, s.inner, self._down)
        return Weights(
            embedding=embedding,
            embedding_scale=embedding_scale,
            input_norm=self._norms("input_layernorm", c.hidden_size),
            qkv=qkv,
            qkv_scale=qkv_scale,
            qkv_bias=self._biases(width),
            q_norm=self._norms("self_attn.q_norm", c.head_dim) if c.qk_norm else np.empty(0, np.float32),
            k_norm=self._norms("self_attn.k_norm", c.head_dim) if c.qk_norm else np.empty(0, np.float32),
            out=out,
            out_scale=out_scale,
            post_norm=self._norms("post_attention_layernorm", c.hidden_size),
            gate_up=gate_up,
            gate_up_scale=gate_up_scale,
            down=down,
            down_scale=down_scale,
            final_norm=_vector(self._tensor("model.norm.weight", (c.hidden_size,))),
            head=head,
            head_scale=head_scale,
            no_bias=np.zeros(s.vocab_padded, np.float32),
        )

    def _layers(
        self, layers: int, outputs: int, inputs: int, parts: Callable[[int], Sequence[torch.Tensor]]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Tiles of all layers, flat, and the scale of each output."""
        packed = torch.zeros(layers, outputs // LANES, inputs, LANES, dtype=self._dtype)
        scales = torch.ones(layers, outputs)
        for layer in range(layers):
            rows = torch.zeros(outputs, inputs)
            at = 0
            for part in parts(layer):
                rows[at : at + part.shape[0], : part.shape[1]] = part
                at += pad16(part.shape[0])
            if not self._exact:
                scales[layer] = rows.abs().amax(1) / 127.0
                rows /= scales[layer].clamp_min(torch.finfo(torch.float32).tiny).unsqueeze(1)
                rows.round_()
            packed[layer] = rows.view(outputs // LANES, LANES, inputs).transpose(1, 2)
            self._report(Progress("load", None, "laying out the weights"))
        return packed.numpy().reshape(-1), scales.numpy().reshape(-1)

    def _embedding(self, _: int) -> list[torch.Tensor]:
        return [self._matrix("model.embed_tokens", self._config.vocab_size)]

    def _head(self, _: int) -> list[torch.Tensor]:
        return [self._matrix("lm_head", self._config.vocab_size)]

    def _qkv(self, layer: int) -> list[torch.Tensor]:
        c, s = self._config, self._shape
        parts = []
        for name, heads in (("q_proj", c.heads), ("k_proj", c.kv_heads), ("v_proj", c.kv_heads)):
            rows = self._matrix(f"model.layers.{layer}.self_attn.{name}", heads * c.head_dim).float()
            parts.append(_pad_heads(rows, heads, s.padded))
        return parts

    def _out(self, layer: int) -> list[torch.Tensor]:
        c, s = self._config, self._shape
        columns = self._matrix(f"model.layers.{layer}.self_attn.o_proj", c.hidden_size, c.heads * c.head_dim).float()
        return [_pad_heads(columns.T, c.heads, s.padded).T]

    def _gate_up(self, layer: int) -> list[torch.Tensor]:
        inner = self._config.intermediate_size
        return [self._matrix(f"model.layers.{layer}.mlp.{name}", inner) for name in ("gate_proj", "up_proj")]

    def _down(self, layer: int) -> list[torch.Tensor]:
        c = self._config
        return [self._matrix(f"model.layers.{layer}.mlp.down_proj", c.hidden_size, c.intermediate_size)]

    def _biases(self, width: int) -> np.ndarray:
        c, s = self._config, self._shape
        biases = torch.zeros(s.layers, width)
        if c.qkv_bias:
            for layer in range(s.layers):
                parts = []
                for name, heads in (("q_proj", c.heads), ("k_proj", c.kv_heads), ("v_proj", c.kv_heads)):
                    bias = self._tensor(f"model.layers.{layer}.self_attn.{name}.bias", (heads * c.head_dim,)).float()
                    parts.append(_pad_heads(bias.unsqueeze(1), heads, s.padded).squeeze(1))
                biases[layer] = torch.cat(parts)
        return biases.numpy().reshape(-1)

    def _norms(self, name: str, count: int) -> np.ndarray:
        return np.concatenate(
            [_vector(self._tensor(f"model.layers.{i}.{name}.weight", (count,))) for i in range(self._shape.layers)]
        )

    def _matrix(self, name: str, rows: int, columns: int | None = None) -> torch.Tensor:
        return self._tensor(f"{name}.weight", (rows, columns or self._config.hidden_size))

    def _tensor(self, name: str, shape: tuple[int, ...]) -> torch.Tensor:
        return checked_tensor(self._tensors, name, shape)


def checked_tensor(tensors: Mapping[str, torch.Tensor], name: str, shape: tuple[int, ...]) -> torch.Tensor:
    """The tensor `name`. Raises ModelError if it is missing or not of `shape`."""
    tensor = tensors.get(name)
    if tensor is None:
        raise ModelError(f"tensor {name} is missing; the file is incomplete.")
    if tuple(tensor.shape) != shape:
        raise ModelError(f"tensor {name} is {tuple(tensor.shape)} where the config says {shape}; the file is corrupt.")
    return tensor


def _pad_heads(rows: torch.Tensor, heads: int, padded: int) -> torch.Tensor:
    """(heads x dim, n) -> (heads x padded, n), zeros behind each head."""
    split = rows.reshape(heads, -1, rows.shape[1])
    return torch.nn.functional.pad(split, (0, 0, 0, padded - split.shape[1])).reshape(heads * padded, -1)


def _vector(values: torch.Tensor) -> np.ndarray:
    out = np.zeros(pad16(values.numel()), np.float32)
    out[: values.numel()] = values.float().numpy()
    return out
