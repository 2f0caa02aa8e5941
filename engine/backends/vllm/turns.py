"""What the vLLM backend remembers of an open turn."""

from dataclasses import dataclass

from vllm.sampling_params import SamplingParams
from vllm.v1.request import Request

from engine.turn import TurnId


@dataclass(slots=True)
class OpenTurn:
    """`request` is the present one of its `requests` so far."""

    id: TurnId
    request: Request
    params: SamplingParams
    requests: int = 1

    @property
    def rid(self) -> str:
        return self.request.request_id

    @property
    def pending(self) -> int:
        return self.request.num_tokens - self.request.num_computed_tokens
