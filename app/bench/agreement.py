"""How far one set of logits is from another along the same text: KL in float64, top tokens, the text's likelihood."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch


def log_probabilities(logits: np.ndarray) -> torch.Tensor:
    """float64 (rows, vocab)."""
    return torch.from_numpy(logits).double().log_softmax(1)


def divergence(log_p: torch.Tensor, log_q: torch.Tensor) -> torch.Tensor:
    """KL(p || q) of each row in nats."""
    return (log_p.exp() * (log_p - log_q)).sum(1)


@dataclass(frozen=True, slots=True)
class Along:
    """Logits held against others at each position of a text. `loss`: of the text's next token, in nats."""

    kl: torch.Tensor
    same: torch.Tensor
    loss: torch.Tensor

    @property
    def positions(self) -> int:
        return self.kl.numel()

    @property
    def mean_kl(self) -> float:
        return float(self.kl.mean())

    @property
    def kl_error(self) -> float:
        """The mean's standard error."""
        return float(self.kl.std()) / self.positions**0.5

    @property
    def top1(self) -> float:
        """Share of positions with the same top token."""
        return float(self.same.double().mean())

    @property
    def perplexity(self) -> float:
        return float(self.loss.mean().exp())


def along(log_p: torch.Tensor, log_q: torch.Tensor, following: Sequence[int]) -> Along:
    """Both over the same rows, p the reference; `following`: the text's token behind each row."""
    loss = -log_q.gather(1, torch.tensor(following).unsqueeze(1)).squeeze(1)
    return Along(divergence(log_p, log_q), log_p.argmax(1) == log_q.argmax(1), loss)


def joined(parts: Sequence[Along]) -> Along:
    """Pieces of one text."""
    return Along(*(torch.cat([getattr(part, name) for part in parts]) for name in ("kl", "same", "loss")))
