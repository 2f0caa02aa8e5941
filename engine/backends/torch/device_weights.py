"""A model's weights on the device, matrix by matrix: one is float32 at a time."""

from dataclasses import dataclass

import torch

from engine.backends.base import WeightDtype
from engine.backends.torch.quantised import Int8, Weight, Whole, to_int4, to_int8
from engine.backends.torch.weights import Model, checked_tensor
from engine.models.progress import Progress, Report


@dataclass(frozen=True, slots=True)
class Layer:
    """Linear weights (out, in); norms and bias float32."""

    input_norm: torch.Tensor
    qkv: Weight
    qkv_bias: torch.Tensor | None
    q_norm: torch.Tensor | None
    k_norm: torch.Tensor | None
    out: Weight
    post_norm: torch.Tensor
    gate_up: Weight
    down: Weight


@dataclass(frozen=True, slots=True)
class DeviceWeights:
    """`head` is `embedding` itself where the model ties them. Both are int8 at int4, which is too coarse for them."""

    embedding: Whole | Int8
    layers: tuple[Layer, ...]
    final_norm: torch.Tensor
    head: Whole | Int8

    @property
    def nbytes(self) -> int:
        parts = [getattr(layer, name) for layer in self.layers for name in Layer.__slots__]
        parts += [self.embedding, self.final_norm]
        if self.head is not self.embedding:
            parts.append(self.head)
        return sum(part.nbytes for part in parts if part is not None)


def load_weights(
    model: Model, device: torch.device, compute: torch.dtype, dtype: WeightDtype, report: Report
) -> DeviceWeights:
    """FP16 keeps them in the precision of `compute`. Raises ModelError for tensors that are missing or misshapen."""
    return _Loader(model, device, compute, dtype).load(report)


class _Loader:
    def __init__(self, model: Model, device: torch.device, compute: torch.dtype, dtype: WeightDtype) -> None:
        self._config = model.config
        self._tensors = model.weights
        self._device = device
        self._compute = compute
        self._dtype = dtype

    def load(self, report: Report) -> DeviceWeights:
        c = self._config
        embedding = self._per_token("model.embed_tokens")
        head = embedding if c.tied_head else self._per_token("lm_head")
        final_norm = self._vector("model.norm.weight", c.hidden_size)
        layers = []
        for index in range(c.layers):
            report(Progress("load", index / c.layers, f"copying the weights to {self._device}"))
            layers.append(self._layer(index))
        return DeviceWeights(embedding, tuple(layers), final_norm, head)

    def _layer(self, index: int) -> Layer:
        c = self._config
        prefix = f"model.layers.{index}"
        sizes = {"q": c.heads * c.head_dim, "k": c.kv_heads * c.head_dim, "v": c.kv_heads * c.head_dim}
        bias = None
        if c.qkv_bias:
            bias = torch.cat([self._vector(f"{prefix}.self_attn.{n}_proj.bias", size) for n, size in sizes.items()])
        norms: list[torch.Tensor | None] = [None, None]
        if c.qk_norm:
            norms = [self._vector(f"{prefix}.self_attn.{n}_norm.weight", c.head_dim) for n in "qk"]
        inner = c.intermediate_size
        return Layer(
            input_norm=self._vector(f"{prefix}.input_layernorm.weight", c.hidden_size),
            qkv=self._matrix({f"{prefix}.self_attn.{n}_proj": size for n, size in sizes.items()}, c.hidden_size),
            qkv_bias=bias,
            q_norm=norms[0],
            k_norm=norms[1],
            out=self._matrix({f"{prefix}.self_attn.o_proj": c.hidden_size}, c.heads * c.head_dim),
            post_norm=self._vector(f"{prefix}.post_attention_layernorm.weight", c.hidden_size),
            gate_up=self._matrix({f"{prefix}.mlp.{n}_proj": inner for n in ("gate", "up")}, c.hidden_size),
            down=self._matrix({f"{prefix}.mlp.down_proj": c.hidden_size}, inner),
        )

    def _per_token(self, name: str) -> Whole | Int8:
        rows = self._rows(name, self._config.vocab_size, self._config.hidden_size)
        if self._dtype is WeightDtype.FP16:
            return Whole(rows.to(self._device, self._compute))
        return to_int8(rows.to(self._device, torch.float32))

    def _matrix(self, parts: dict[str, int], inputs: int) -> Weight:
        """Matrices of these names and outputs, one below the other."""
        dtype = self._compute if self._dtype is WeightDtype.FP16 else torch.float32
        rows = torch.cat([self._rows(name, size, inputs).to(self._device, dtype) for name, size in parts.items()])
        if self._dtype is WeightDtype.FP16:
            return Whole(rows)
        return to_int8(rows) if self._dtype is WeightDtype.INT8 else to_int4(rows)

    def _rows(self, name: str, outputs: int, inputs: int) -> torch.Tensor:
        return checked_tensor(self._tensors, f"{name}.weight", (outputs, inputs))

    def _vector(self, name: str, count: int) -> torch.Tensor:
        return checked_tensor(self._tensors, name, (count,)).to(self._device, torch.float32)
