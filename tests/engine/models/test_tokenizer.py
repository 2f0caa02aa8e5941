"""Encoding: start tokens, tokens without embedding, and equality with transformers on the real default model."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import pre_tokenizers

from engine.errors import ModelError, Refused
from engine.models.fetch import default_model_file
from engine.models.loaded import LoadedModel
from engine.models.progress import silent
from engine.models.resolve import load_model
from engine.models.tokenizer import TextTokenizer
from tests.models_factory import VOCAB_SIZE, tiny_gguf, tiny_tokenizer

TEXTS = [
    "Hello, world! It's a test; we'll see.",
    "a😀你好é\nñandú Straße œuvre — “quoted”",
    "def decode(self, tokens):\n    return [self.text[t] for t in tokens]\n\n\n# end",
    "1234567 x2 3.14 v1.0.2 2024-01-02",
    "<|im_start|>user\nhi<|im_end|>\n<|endoftext|>",
    "    indented\n\ttabs\r\nwindows  \n trailing   ",
    "مرحبا बोन日本語 한국어 Привет",
    "",
]


@pytest.fixture(scope="module")
def reference(default_model: LoadedModel) -> Callable[[str], list[int]]:
    """transformers' reading of the same file, with the split at digits that the model was trained with.

    transformers leaves that split out of GGUF tokenizers, which shows where several spaces stand before a digit.
    """
    from transformers import AutoTokenizer

    file = default_model_file(silent)
    backend = AutoTokenizer.from_pretrained(str(file.parent), gguf_file=file.name).backend_tokenizer
    for text in TEXTS:
        assert default_model.tokenizer.encode(text) == backend.encode(text, add_special_tokens=False).ids
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    return lambda text: backend.encode(text, add_special_tokens=False).ids


def test_default_model_equals_transformers(default_model: LoadedModel, reference: Callable[[str], list[int]]) -> None:
    source = Path(random.__file__).read_text(encoding="utf-8")
    for text in [*TEXTS, "x =   42   # three spaces", source]:
        ids = default_model.tokenizer.encode(text)
        assert ids == reference(text)
        assert default_model.tokenizer.decode(ids, skip_special=False) == text


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text())
def test_default_model_equals_transformers_on_any_text(
    default_model: LoadedModel, reference: Callable[[str], list[int]], text: str
) -> None:
    assert default_model.tokenizer.encode(text) == reference(text)


def test_start_token_is_never_doubled() -> None:
    tokenizer = TextTokenizer(tiny_tokenizer(), vocab_size=VOCAB_SIZE, eos_ids=frozenset({2}), bos_id=1, add_bos=True)
    plain = tokenizer.encode("the", add_bos=False)
    assert tokenizer.encode("the") == [1, *plain]
    assert tokenizer.encode("<|im_start|>the") == [1, *plain]
    assert tokenizer.encode("", add_bos=True) == [1]


def test_no_start_token_where_the_model_has_none() -> None:
    tokenizer = TextTokenizer(tiny_tokenizer(), vocab_size=VOCAB_SIZE, eos_ids=frozenset(), bos_id=None, add_bos=True)
    assert tokenizer.encode("the") == tokenizer.encode("the", add_bos=False)


def test_a_token_without_embedding_is_refused() -> None:
    last = max(tiny_tokenizer().encode("the quick brown").ids)
    tokenizer = TextTokenizer(tiny_tokenizer(), vocab_size=last, eos_ids=frozenset(), bos_id=None, add_bos=False)
    with pytest.raises(Refused, match="no embedding"):
        tokenizer.encode("the quick brown")


def sentencepiece_metadata() -> dict[str, object]:
    """A SentencePiece vocabulary with the scores that a trainer gives: the longer the better."""
    pieces = ["\u2581", *"helowrd", "he", "ll", "lo", "hell", "hello", "\u2581hello", "\u2581w", "or", "ld", "orld"]
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *pieces]
    scores = [0.0] * 259 + [float(len(piece)) - 10 for piece in pieces]
    types = [2, 3, 3, *[6] * 256, *[1] * len(pieces)]
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": scores,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.merges": None,
        "tokenizer.ggml.add_bos_token": None,
        "tokenizer.ggml.unknown_token_id": 0,
    }


def test_sentencepiece_vocabulary_of_a_gguf_file(tmp_path: Path, own_cache: Path) -> None:
    file = tiny_gguf(tmp_path / "spm.gguf", "llama", metadata=sentencepiece_metadata())
    tokenizer = load_model(str(file)).tokenizer
    names = ["\u2581hello", "\u2581w", "orld", "<0x0A>"]
    assert tokenizer.encode("hello world\n") == [1, *(tokenizer.token_id(name) for name in names)]
    assert tokenizer.decode(tokenizer.encode("hello world\n")) == "hello world\n"
    assert tokenizer.decode(tokenizer.encode("a😀你")) == "a😀你"
    assert tokenizer.eos_ids == {2}


def test_user_defined_tokens_stay_whole_and_are_text(tmp_path: Path, own_cache: Path) -> None:
    from tests.models_factory import tiny_tokenizer

    names = sorted(tiny_tokenizer().get_vocab(), key=tiny_tokenizer().get_vocab().__getitem__)
    types = [3, 3, 3, *[1] * (len(names) - 3), 4]
    metadata = {"tokenizer.ggml.tokens": [*names, "<think>"], "tokenizer.ggml.token_type": types}
    tokenizer = load_model(str(tiny_gguf(tmp_path / "u.gguf", "llama", metadata=metadata))).tokenizer
    ids = tokenizer.encode("the<think>the")
    assert len(names) in ids
    assert tokenizer.decode(ids) == "the<think>the"


@pytest.mark.parametrize(
    ("pre", "text", "pieces"),
    [
        ("llama-bpe", "12345 don't", ["123", "45", " don", "'t"]),
        ("qwen2", "12 DON'T", ["1", "2", " DON", "'T"]),
        ("smollm", "a   12", ["a", "   ", "1", "2"]),
        ("gpt-2", "a   12", ["a", "  ", " 12"]),
        ("default", "12345!", ["123", "45", "!"]),
    ],
)
def test_text_is_split_before_merging_as_the_file_names(pre: str, text: str, pieces: list[str]) -> None:
    from engine.models.gguf_tokenizer import build_tokenizer
    from tests.models_factory import _vocabulary

    tokens, types, merges = _vocabulary()
    metadata = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.merges": merges,
    }
    tokenizer = build_tokenizer(metadata, VOCAB_SIZE, "file.gguf")
    splitter = tokenizer._tokenizer.pre_tokenizer
    assert [text[start:end] for _, (start, end) in splitter.pre_tokenize_str(text)] == pieces


def test_an_unknown_way_of_splitting_is_refused(tmp_path: Path, own_cache: Path) -> None:
    file = tiny_gguf(tmp_path / "p.gguf", "llama", metadata={"tokenizer.ggml.pre": "martian"})
    with pytest.raises(ModelError, match=r"tokenizer\.ggml\.pre is 'martian'"):
        load_model(str(file))
