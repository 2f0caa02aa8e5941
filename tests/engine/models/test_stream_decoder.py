"""H5: characters split over tokens, byte tokens, broken bytes; the stream and the whole text agree."""

from functools import lru_cache

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers

from engine.errors import ModelError
from engine.models.tokenizer import StreamDecoder, TextTokenizer
from tests.models_factory import SPECIALS, VOCAB_SIZE, tiny_tokenizer

CASE = "a😀你好é\n"


@lru_cache(maxsize=1)
def byte_level() -> TextTokenizer:
    return TextTokenizer(tiny_tokenizer(), vocab_size=VOCAB_SIZE, eos_ids=frozenset({0, 2}), bos_id=1, add_bos=False)


@lru_cache(maxsize=1)
def sentencepiece() -> TextTokenizer:
    """Three controls, 256 byte tokens, letters, and a few merges with the space mark."""
    letters = ["\u2581", *"abcdehlotuw"]
    pieces = ["he", "\u2581h", "\u2581he", "ll", "lo"]
    names = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *letters, *pieces]
    merges = [("h", "e"), ("\u2581", "h"), ("\u2581h", "e"), ("\u2581", "he"), ("l", "l"), ("l", "o")]
    vocab = {name: index for index, name in enumerate(names)}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    return TextTokenizer(tokenizer, vocab_size=len(names), eos_ids=frozenset({2}), bos_id=1, add_bos=True)


KINDS = {"byte-level": byte_level, "sentencepiece": sentencepiece}


@pytest.fixture(params=sorted(KINDS))
def tokenizer(request: pytest.FixtureRequest) -> TextTokenizer:
    return KINDS[request.param]()


def test_split_characters_are_held_back_until_whole(tokenizer: TextTokenizer) -> None:
    ids = tokenizer.encode(CASE, add_bos=False)
    stream = StreamDecoder(tokenizer)
    deltas = [stream.feed(index) for index in ids]
    assert len(ids) > len(CASE), "the case must split characters over tokens"
    assert all("\ufffd" not in delta for delta in deltas)
    assert "".join(deltas) == CASE
    assert stream.flush() == ""


def test_a_cut_in_mid_character_shows_at_flush_only(tokenizer: TextTokenizer) -> None:
    ids = tokenizer.encode("a😀", add_bos=False)[:-1]
    stream = StreamDecoder(tokenizer)
    shown = "".join(stream.feed(index) for index in ids)
    assert shown == "a"
    assert stream.flush() == "\ufffd"
    assert tokenizer.decode(ids) == "a\ufffd"


def test_markers_are_not_text_but_can_be_shown() -> None:
    ids = [1, *byte_level().encode("the"), 2, 0]
    assert byte_level().decode(ids) == "the"
    assert byte_level().decode(ids, skip_special=False) == SPECIALS[1] + "the" + SPECIALS[2] + SPECIALS[0]


def test_byte_tokens_print_as_their_bytes() -> None:
    newline = sentencepiece().token_id("<0x0A>")
    assert newline is not None
    assert sentencepiece().decode([newline, newline]) == "\n\n"


def test_sentencepiece_start_drops_its_own_space_once() -> None:
    ids = sentencepiece().encode("hello", add_bos=False)
    assert sentencepiece().decode(ids) == "hello"
    assert sentencepiece().decode([1, *ids]) == "hello"
    stream = StreamDecoder(sentencepiece(), continues=True)
    assert "".join(stream.feed(index) for index in ids) == " hello"


def test_ids_without_a_token_are_nothing() -> None:
    assert byte_level().decode([VOCAB_SIZE - 1, 10**9]) == ""


def test_an_unknown_decoder_is_refused_by_name() -> None:
    tokenizer = Tokenizer(models.BPE(vocab={"a": 0}, merges=[]))
    tokenizer.decoder = decoders.WordPiece()
    with pytest.raises(ModelError, match="WordPiece"):
        TextTokenizer(tokenizer, vocab_size=1, eos_ids=frozenset(), bos_id=None, add_bos=False)


@given(text=st.text())
def test_any_text_comes_back(text: str) -> None:
    ids = byte_level().encode(text)
    assert byte_level().decode(ids, skip_special=False) == text
    stream = StreamDecoder(byte_level(), skip_special=False)
    assert "".join([stream.feed(index) for index in ids]) == text
    assert stream.flush() == ""


@given(text=st.text())
def test_any_text_comes_back_from_sentencepiece(text: str) -> None:
    clear = text.replace("\u2581", "_")
    ids = sentencepiece().encode(clear, add_bos=False)
    assert sentencepiece().decode(ids, skip_special=False) == clear


@given(ids=st.lists(st.integers(0, VOCAB_SIZE - 1)))
def test_random_ids_agree_with_the_library_and_never_stall(ids: list[int]) -> None:
    whole = tiny_tokenizer().decode(ids, skip_special_tokens=False)
    stream = StreamDecoder(byte_level(), skip_special=False)
    deltas = [stream.feed(index) for index in ids]
    assert "".join(deltas) + stream.flush() == whole == byte_level().decode(ids, skip_special=False)


@given(ids=st.lists(st.integers(0, 275), min_size=1), more=st.text(alphabet="helo", min_size=1))
def test_after_broken_bytes_plain_text_flows_at_once(ids: list[int], more: str) -> None:
    tokenizer = sentencepiece()
    stream = StreamDecoder(tokenizer)
    for index in ids:
        stream.feed(index)
    letter = tokenizer.token_id("h")
    assert letter is not None
    assert stream.feed(letter).endswith("h")
    tail = [tokenizer.token_id(character) for character in more]
    assert "".join(stream.feed(token) for token in tail if token is not None) == more
