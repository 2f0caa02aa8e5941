"""A model that is ready to be served: what every reader returns and every backend takes."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from engine.models.config import ModelConfig
from engine.models.template import ChatTemplate
from engine.models.tokenizer import TextTokenizer

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class ServedModel:
    """What the engine around a backend knows of its model, whatever runs it. `max_context` in tokens."""

    name: str
    max_context: int
    eos_ids: frozenset[int]
    tokenizer: TextTokenizer
    template: ChatTemplate | None
    source: str


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """`weights`: CPU tensors, memory mapped, in the dtypes they are stored in (bf16, fp16 or fp32; may be mixed).

    Names are Hugging Face's for the llama family, as `shapes.expected_shapes` lists them; linear weights are
    (out, in), query and key rows in the half-split rotary order. `lm_head.weight` is there only when untied.
    `path` is a directory as Hugging Face lays it out, `source` is where it came from, `revision` a hash that tells this
    version from others, `note` says how the weights are stored and why.
    """

    config: ModelConfig
    weights: Mapping[str, "Tensor"]
    tokenizer: TextTokenizer
    template: ChatTemplate | None
    path: Path
    source: str
    revision: str
    note: str = ""

    @property
    def served(self) -> ServedModel:
        config = self.config
        return ServedModel(config.name, config.max_context, config.eos_ids, self.tokenizer, self.template, self.source)

    @property
    def weight_bytes(self) -> int:
        return sum(tensor.nbytes for tensor in self.weights.values())
