"""A model that is ready to be served: what every reader returns and every backend takes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.models.config import ModelConfig
from engine.models.template import ChatTemplate
from engine.models.tokenizer import TextTokenizer

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """`weights`: CPU tensors, memory mapped, in the dtypes they are stored in (bf16, fp16 or fp32; may be mixed).

    Names are Hugging Face's for the llama family, as `shapes.expected_shapes` lists them; linear weights are
    (out, in), query and key rows in the half-split rotary order. `lm_head.weight` is there only when untied.
    `source` is where it came from, `revision` a hash that tells this version from others, `note` says how the
    weights are stored and why.
    """

    config: ModelConfig
    weights: Mapping[str, "Tensor"]
    tokenizer: TextTokenizer
    template: ChatTemplate | None
    source: str
    revision: str
    note: str = ""

    @property
    def weight_bytes(self) -> int:
        return sum(tensor.nbytes for tensor in self.weights.values())
