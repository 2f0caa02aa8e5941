"""What it costs to get a parked turn out of the way: copy it to the host and back, or drop it and prefill it again.

A round trip is KV bytes / link out + KV bytes / link back; a recompute is tokens / prefill rate. Both are linear in the
context where the layout is, so their ratio is then the same for every context. Nothing here is measured.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.cards.profile import CardProfile, Preset
from engine.layout import Store, TurnLayout

CONTEXTS = (2_000, 6_900, 16_000, 32_000, 55_000)
TOOL_WAIT_S = (0.05, 30.0)
"""What a coding agent that is blocked on a tool typically waits."""
TOOL_WAIT_P50_S, TOOL_WAIT_P90_S = 0.3, 13.6
"""Positive tool latencies of 4,265 coding sessions (TraceLab, University of Washington)."""


@dataclass(frozen=True, slots=True)
class PriceRow:
    """One context. `ratio`: recompute against the round trip; `restore_ratio`: against the way back alone."""

    tokens: int
    kv_bytes: float
    swap_s: float
    restore_s: float
    recompute_s: float
    ratio: float
    restore_ratio: float


@dataclass(frozen=True, slots=True)
class Prices:
    """`rounded`: bytes a token counts with, in place of the layout's (a study's rounding). `card_bytes`, `host_bytes`:
    room for KV on the card and pinned on the host."""

    layout: TurnLayout
    store: Store
    rounded: float | None
    out_bytes_per_s: float
    back_bytes_per_s: float
    prefill_tokens_per_s: float
    card_bytes: float
    host_bytes: float
    context: int

    def kv_bytes(self, tokens: int) -> float:
        """A turn's bytes that have to be moved, its fixed state included."""
        return tokens * self.rounded if self.rounded else self.layout.turn_bytes(tokens, self.store)

    def row(self, tokens: int) -> PriceRow:
        nbytes = self.kv_bytes(tokens)
        restore = nbytes / self.back_bytes_per_s
        swap = nbytes / self.out_bytes_per_s + restore
        recompute = tokens / self.prefill_tokens_per_s
        return PriceRow(tokens, nbytes, swap, restore, recompute, recompute / swap, recompute / restore)

    def rows(self, contexts: Sequence[int] = CONTEXTS) -> tuple[PriceRow, ...]:
        return tuple(self.row(tokens) for tokens in contexts)

    @property
    def break_even_prefill_tok_s(self) -> float:
        """The prefill rate at which recomputing `context` takes as long as the round trip."""
        return self.context / self.row(self.context).swap_s

    @property
    def break_even_restore_only_tok_s(self) -> float:
        """The same against the way back alone."""
        return self.context / self.row(self.context).restore_s

    @property
    def break_even_wait_s(self) -> float:
        """Swapping a turn of `context` out pays where its wait is longer than this: the round trip."""
        return self.row(self.context).swap_s

    @property
    def card_tokens(self) -> int:
        """Whole tokens that the card holds, in turns of `context` tokens."""
        return self._tokens_in(self.card_bytes)

    @property
    def host_tokens(self) -> int:
        """The same for the host's pinned memory."""
        return self._tokens_in(self.host_bytes)

    @property
    def card_turns(self) -> int:
        """Whole turns of `context` tokens that the card holds."""
        return int(self.card_bytes // self.kv_bytes(self.context))

    @property
    def host_turns(self) -> int:
        """The same for the host's pinned memory."""
        return int(self.host_bytes // self.kv_bytes(self.context))

    @property
    def fixed_ratio(self) -> bool:
        """Whether the ratio is the same at every context: no state of fixed size, no window that fills."""
        windows = any(group.window is not None for group in self.layout.groups)
        return self.rounded is not None or not (self.layout.state_bytes or windows)

    def _tokens_in(self, nbytes: float) -> int:
        return int(nbytes * self.context // self.kv_bytes(self.context))


def prices(
    card: CardProfile, preset: Preset, *, context: int | None = None, store: Store = Store.FP16, exact: bool = False
) -> Prices:
    """The price list of `card` for a model's shape. `context`: of the turn that is looked at, else the card's mean.
    `exact`: count a token as the shape gives it where the preset's study rounds; its rounding is for fp16 only."""
    rounded = preset.rounded_bytes_per_token if store is Store.FP16 and not exact else None
    room = preset.kv_room.amount if preset.kv_room else card.kv_budget_bytes
    return Prices(
        layout=preset.layout,
        store=store,
        rounded=rounded.amount if rounded else None,
        out_bytes_per_s=card.link_out.amount,
        back_bytes_per_s=card.link_back.amount,
        prefill_tokens_per_s=card.prefill.amount,
        card_bytes=room,
        host_bytes=card.pinned_host.amount,
        context=context or int(card.mean_context.amount),
    )
