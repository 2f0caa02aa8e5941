"""Which tokens end a turn: files often name only one of several."""

from collections.abc import Iterable, Mapping

# Markers that end a turn or a text wherever they are control tokens. Role openers as <|im_start|> are none.
_END_MARKERS = frozenset(
    {
        "</s>",
        "<EOT>",
        "<end_of_turn>",
        "<end_of_utterance>",
        "<eos>",
        "<|end_of_text|>",
        "<|endoftext|>",
        "<|end|>",
        "<|eom_id|>",
        "<|eot_id|>",
        "<|im_end|>",
        "<\uff5cend\u2581of\u2581sentence\uff5c>",
        "[EOS]",
        "[EOT]",
    }
)


def end_ids(stated: Iterable[int | None], control_tokens: Mapping[int, str]) -> frozenset[int]:
    """The ids that the file states, and every control token that is a known end marker."""
    marked = {index for index, token in control_tokens.items() if token in _END_MARKERS}
    return frozenset({index for index in stated if index is not None} | marked)
