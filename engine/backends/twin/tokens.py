"""The tokens of a modelled turn: bytes of text on the way in, letters on the way out, which follow from the turn's seed
and the token's position alone."""

from functools import cache

from tokenizers import Tokenizer, decoders, models

from engine.models.tokenizer import TextTokenizer, byte_alphabet

VOCABULARY = 256
"""A token is a byte."""

_LETTERS = b"eeeeeetttttaaaaooooiiinnnsssrrrhhhdddlluuccmmffyywwggppbbvk     "
_MASK = (1 << 64) - 1


def token_at(seed: int, position: int) -> int:
    """The same for the same seed and position, whatever ran beside it and wherever the KV has been."""
    mixed = (seed + position * 0x9E3779B97F4A7C15) & _MASK
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
    return _LETTERS[mixed >> 58]


class _Bytes(TextTokenizer):
    """Encoding without the library: the twin's agents cut their prompts from megabytes of text."""

    def encode(self, text: str, add_bos: bool | None = None) -> list[int]:
        return list(text.encode())


@cache
def modelled_tokenizer() -> TextTokenizer:
    """Needs no file. Immutable, so there is one."""
    vocabulary = {spelled: byte for byte, spelled in byte_alphabet().items()}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.decoder = decoders.ByteLevel()
    return _Bytes(tokenizer, vocab_size=VOCABULARY, eos_ids=frozenset(), bos_id=None, add_bos=False)
