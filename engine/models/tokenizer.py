"""Text to token ids and back, whole and as a stream, over the `tokenizers` library.

Decoding goes through bytes: every token stands for some bytes (byte-level BPE by its alphabet, SentencePiece
vocabularies by their text or a `<0x..>` byte), and the bytes go through an incremental UTF-8 decoder. So the stream
and the whole text agree by construction, and the cost is linear. A byte run that is not UTF-8 becomes one U+FFFD for
each maximal broken part, in both.
"""

import codecs
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from engine.errors import ModelError, Refused
from engine.models.stated import shown

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_SPACE_MARK = "\u2581"


def byte_alphabet() -> dict[int, str]:
    """Byte -> the character that stands for it in a byte-level BPE vocabulary (GPT-2's table)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(256 + at) for at, byte in enumerate(others)}


_BYTE_OF = {character: byte for byte, character in byte_alphabet().items()}


@dataclass(frozen=True, slots=True)
class _Decoding:
    """How a vocabulary spells text: byte-level or SentencePiece, and whether a leading space is the tokenizer's own."""

    byte_level: bool
    strips_space: bool


class TextTokenizer:
    """A tokenizer with its end tokens; immutable but for a memo, safe to share between threads.

    `add_bos` is the model's own habit for plain text. Ids at or above `vocab_size` have no embedding.
    """

    def __init__(
        self, tokenizer: Tokenizer, *, vocab_size: int, eos_ids: frozenset[int], bos_id: int | None, add_bos: bool
    ) -> None:
        """Raises ModelError for a decoder that is neither byte-level nor SentencePiece."""
        self.vocab_size = vocab_size
        self.eos_ids = eos_ids
        self.bos_id = bos_id
        self.add_bos = add_bos and bos_id is not None
        self._tokenizer = tokenizer
        self._decoding = _decoding(tokenizer)
        added = tokenizer.get_added_tokens_decoder()
        self._special = frozenset(index for index, token in added.items() if token.special) | eos_ids
        self._bytes: dict[int, bytes] = {}

    def encode(self, text: str, add_bos: bool | None = None) -> list[int]:
        """Token ids; special tokens written out in the text are recognised.

        `add_bos` None follows the model's habit; the start token is never put before one that is there already.
        Raises Refused when the text holds a token that the model has no embedding for.
        """
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        for index in ids:
            if index >= self.vocab_size:
                token = self._tokenizer.id_to_token(index)
                raise Refused(
                    f"The text holds the token {token!r}, which this model has no embedding for; leave it out."
                )
        wanted = self.add_bos if add_bos is None else add_bos
        if wanted and self.bos_id is not None and ids[:1] != [self.bos_id]:
            ids.insert(0, self.bos_id)
        return ids

    def decode(self, ids: Iterable[int], skip_special: bool = True) -> str:
        """The text of the ids; ids outside the vocabulary count as nothing."""
        stream = StreamDecoder(self, skip_special)
        return "".join([stream.feed(index) for index in ids]) + stream.flush()

    def is_special(self, index: int) -> bool:
        """A control token, as an end or role marker, that is no part of the text."""
        return index in self._special

    @property
    def strips_space(self) -> bool:
        """Decoding drops one space at the very start, as encoding put it there."""
        return self._decoding.strips_space

    def token_id(self, token: str) -> int | None:
        """The id of a token by its spelling in the vocabulary."""
        return self._tokenizer.token_to_id(token)

    def token_bytes(self, index: int) -> bytes:
        """The bytes a token stands for; empty for an id outside the vocabulary."""
        known = self._bytes.get(index)
        if known is None:
            known = self._bytes[index] = self._spell(self._tokenizer.id_to_token(index))
        return known

    def save(self, path: Path) -> None:
        """Writes tokenizer.json."""
        path.write_text(self._tokenizer.to_str(), encoding="utf-8")

    def _spell(self, token: str | None) -> bytes:
        if token is None:
            return b""
        if self._decoding.byte_level:
            spelled = [_BYTE_OF.get(character) for character in token]
            return token.encode() if None in spelled else bytes(byte for byte in spelled if byte is not None)
        if match := _BYTE_TOKEN.fullmatch(token):
            return bytes([int(match[1], 16)])
        return token.replace(_SPACE_MARK, " ").encode()


class StreamDecoder:
    """Text of one turn, token by token: the joined pieces equal `TextTokenizer.decode` of all ids.

    A character split over tokens is held back until it is whole or certainly broken. `continues` keeps the leading
    space of a SentencePiece vocabulary, for text that goes on where a prompt ended.
    """

    def __init__(self, tokenizer: TextTokenizer, skip_special: bool = True, continues: bool = False) -> None:
        self._tokenizer = tokenizer
        self._skip_special = skip_special
        self._strip = tokenizer.strips_space and not continues
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, index: int) -> str:
        """The text that has become certain with this token; often empty in mid-character."""
        if self._skip_special and self._tokenizer.is_special(index):
            return ""
        return self._stripped(self._utf8.decode(self._tokenizer.token_bytes(index)))

    def flush(self) -> str:
        """What was held back, U+FFFD where a character was cut; the decoder starts anew after it."""
        return self._stripped(self._utf8.decode(b"", final=True))

    def _stripped(self, text: str) -> str:
        if self._strip and text:
            self._strip = False
            return text.removeprefix(" ")
        return text


def load_tokenizer(path: Path) -> Tokenizer:
    """tokenizer.json as the `tokenizers` library reads it. Raises ModelError when missing or broken."""
    if not path.is_file():
        raise ModelError(f"{path}: the tokenizer is missing; put the model's own tokenizer.json beside its weights.")
    try:
        return Tokenizer.from_buffer(path.read_bytes())
    except Exception as error:
        raise ModelError(
            f"{path}: the tokenizer cannot be read ({shown(error, 150)}); download the file again."
        ) from error


def _decoding(tokenizer: Tokenizer) -> _Decoding:
    steps = list(_decoder_steps(tokenizer))
    kinds = {step["type"] for step in steps}
    if "ByteLevel" in kinds:
        return _Decoding(byte_level=True, strips_space=False)
    if kinds & {"ByteFallback", "Metaspace", "Replace"}:
        strips = any(
            (step["type"] == "Strip" and step.get("start", 0) > 0)
            or (step["type"] == "Metaspace" and step.get("prepend_scheme") != "never")
            for step in steps
        )
        return _Decoding(byte_level=False, strips_space=strips)
    named = ", ".join(sorted(kinds)) or "none"
    raise ModelError(
        f"The tokenizer's decoder ({named}) is neither byte-level BPE nor SentencePiece, which are served."
    )


def _decoder_steps(tokenizer: Tokenizer) -> Iterable[dict[str, Any]]:
    if tokenizer.decoder is None:
        return []
    state = json.loads(tokenizer.decoder.__getstate__())
    return state["decoders"] if state["type"] == "Sequence" else [state]
