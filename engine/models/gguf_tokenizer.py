"""The tokenizer that a GGUF file carries as lists, built anew for the `tokenizers` library.

`tokenizer.ggml.model` is `gpt2` (byte-level BPE, split before merging as `tokenizer.ggml.pre` names) or `llama`
(SentencePiece BPE, merges implied by the scores). The split patterns are those of the models' own tokenizer.json and
of llama.cpp, which the names come from.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from engine.errors import ModelError
from engine.models.end_tokens import end_ids
from engine.models.stated import flag, shown, wrong
from engine.models.tokenizer import TextTokenizer

_CONTROL, _USER_DEFINED = 3, 4
# A SentencePiece token is tried at every cut, so its length costs by the square; real ones have a tenth of this.
_LONGEST_PIECE = 512

_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_LLAMA3 = _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}" + _TAIL
_QWEN2 = _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + _TAIL
_TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

_DIGITS_THEN_GPT2 = (r"\p{N}", _GPT2)
_SPLITS: dict[str, tuple[str, ...]] = {
    "default": (r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", r"[0-9][0-9][0-9]"),
    "gpt-2": (_GPT2,),
    "smollm": _DIGITS_THEN_GPT2,
    "starcoder": _DIGITS_THEN_GPT2,
    "refact": _DIGITS_THEN_GPT2,
    "codeshell": _DIGITS_THEN_GPT2,
    "exaone": _DIGITS_THEN_GPT2,
    "minerva-7b": _DIGITS_THEN_GPT2,
    "llama-bpe": (_LLAMA3,),
    "llama3": (_LLAMA3,),
    "llama-v3": (_LLAMA3,),
    "falcon3": (_LLAMA3,),
    "smaug-bpe": (_LLAMA3,),
    "qwen2": (_QWEN2,),
    "deepseek-r1-qwen": (_QWEN2,),
    "megrez": (_QWEN2,),
    "tekken": (_TEKKEN,),
}
# A word that is one token is taken whole, without walking the merges.
_WHOLE_WORDS = frozenset({"llama-bpe", "llama3", "llama-v3", "falcon3", "tekken"})
_STARTS_WITH_BOS = _WHOLE_WORDS
_NFC = frozenset({"qwen2", "deepseek-r1-qwen", "megrez"})


def build_tokenizer(metadata: Mapping[str, Any], vocab_size: int, file: str) -> TextTokenizer:
    """Raises ModelError when the tokenizer is missing, of another kind, or larger than the embedding."""
    tokens = _list(metadata, "tokens", file, str)
    kind = metadata.get("tokenizer.ggml.model")
    if not tokens or kind in (None, "none", "no_vocab"):
        raise ModelError(
            f"{file}: the tokenizer is missing (no tokenizer.ggml.tokens); choose a file that carries one."
        )
    if len(tokens) > vocab_size:
        raise ModelError(
            f"{file}: the tokenizer has {len(tokens):,} tokens but token_embd.weight only {vocab_size:,} rows; "
            "the two do not belong together."
        )
    if kind == "gpt2":
        tokenizer = _byte_level(metadata, tokens, file)
    elif kind == "llama":
        tokenizer = _sentencepiece(metadata, tokens, file)
    else:
        raise ModelError(
            f"{file}: tokenizer kind {shown(kind)!r} is not served; 'gpt2' (byte-level BPE) and 'llama' are."
        )
    types = _list(metadata, "token_type", file, int)
    control = {
        index: token for index, (token, type_) in enumerate(zip(tokens, types, strict=False)) if type_ == _CONTROL
    }
    plain = [token for token, type_ in zip(tokens, types, strict=False) if type_ == _USER_DEFINED]
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in control.values()])
    tokenizer.add_tokens([AddedToken(token, normalized=False, special=False) for token in plain])
    return TextTokenizer(
        tokenizer,
        vocab_size=vocab_size,
        eos_ids=end_ids((_stated(metadata, name) for name in ("eos", "eot", "eom")), control),
        bos_id=_stated(metadata, "bos"),
        add_bos=flag(metadata, "tokenizer.ggml.add_bos_token", file, _habit(metadata, kind)),
    )


def special_tokens(metadata: Mapping[str, Any]) -> dict[str, str]:
    """The names that chat templates use, `bos_token` and the like, with their spelling."""
    tokens = metadata.get("tokenizer.ggml.tokens") or []
    named = {"bos_token": "bos", "eos_token": "eos", "unk_token": "unknown", "pad_token": "padding"}
    ids = {name: _stated(metadata, key) for name, key in named.items()}
    return {name: tokens[index] for name, index in ids.items() if index is not None}


def _list(metadata: Mapping[str, Any], name: str, file: str, item: type | tuple[type, ...]) -> list[Any]:
    """The list of that name, empty when it is absent."""
    key = f"tokenizer.ggml.{name}"
    values = metadata.get(key)
    if values is not None and not (isinstance(values, list) and all(isinstance(value, item) for value in values)):
        raise wrong(metadata, key, file, "not a list of texts" if item is str else "not a list of numbers")
    return values or []


def _stated(metadata: Mapping[str, Any], name: str) -> int | None:
    index = metadata.get(f"tokenizer.ggml.{name}_token_id")
    known = len(metadata.get("tokenizer.ggml.tokens") or [])
    return index if isinstance(index, int) and 0 <= index < known else None


def _habit(metadata: Mapping[str, Any], kind: str) -> bool:
    """What llama.cpp does with a file that does not say whether text begins with the start token."""
    return kind == "llama" or metadata.get("tokenizer.ggml.pre") in _STARTS_WITH_BOS


def _byte_level(metadata: Mapping[str, Any], tokens: Sequence[str], file: str) -> Tokenizer:
    pre = metadata.get("tokenizer.ggml.pre") or "default"
    if not isinstance(pre, str) or pre not in _SPLITS:
        raise ModelError(
            f"{file}: tokenizer.ggml.pre is {shown(pre)!r}, whose way of splitting text is not known here; "
            f"known are {', '.join(sorted(_SPLITS))}."
        )
    merges = _list(metadata, "merges", file, str)
    if not merges:
        raise ModelError(
            f"{file}: the tokenizer has no merges (tokenizer.ggml.merges); choose a file that carries them."
        )
    vocab = {token: index for index, token in enumerate(tokens)}
    try:
        # The search starts at 1: the left side of a merge may itself be a space.
        pairs = [(merge[: (at := merge.index(" ", 1))], merge[at + 1 :]) for merge in merges]
        model = models.BPE(vocab=vocab, merges=pairs, fuse_unk=False, ignore_merges=pre in _WHOLE_WORDS)
    except Exception as error:
        raise ModelError(
            f"{file}: the tokenizer's merges and tokens do not fit together ({shown(error, 150)})."
        ) from error
    tokenizer = Tokenizer(model)
    if pre in _NFC:
        tokenizer.normalizer = normalizers.NFC()
    splits = [pre_tokenizers.Split(Regex(pattern), behavior="isolated") for pattern in _SPLITS[pre]]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [*splits, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _sentencepiece(metadata: Mapping[str, Any], tokens: Sequence[str], file: str) -> Tokenizer:
    scores = _list(metadata, "scores", file, (int, float))
    if not scores or len(scores) != len(tokens):
        raise ModelError(
            f"{file}: the tokenizer has no scores (tokenizer.ggml.scores); choose a file that carries them."
        )
    longest = max(tokens, key=len)
    if len(longest) > _LONGEST_PIECE:
        raise ModelError(
            f"{file}: the token {shown(longest)!r} has {len(longest):,} characters, {_LONGEST_PIECE} are served; "
            "choose another file."
        )
    vocab = {token: index for index, token in enumerate(tokens)}
    unknown = _stated(metadata, "unknown")
    tokenizer = Tokenizer(
        models.BPE(
            vocab=vocab,
            merges=_merges_from_scores(tokens, scores, vocab),
            unk_token=tokens[0 if unknown is None else unknown],
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    prefixed = flag(metadata, "tokenizer.ggml.add_space_prefix", file, True)
    marks = [normalizers.Replace(" ", "\u2581")]
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), *marks] if prefixed else marks)
    spaces = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence([*spaces, decoders.Strip(" ", 1, 0)] if prefixed else spaces)
    return tokenizer


def _merges_from_scores(
    tokens: Sequence[str], scores: Sequence[float], vocab: Mapping[str, int]
) -> list[tuple[str, str]]:
    """SentencePiece joins the neighbours whose union scores best: every way to make a token, best token first."""
    made: list[tuple[float, int, int, str, str]] = []
    for token, score in zip(tokens, scores, strict=True):
        for at in range(1, len(token)):
            left, right = token[:at], token[at:]
            if left in vocab and right in vocab:
                made.append((-score, vocab[left], vocab[right], left, right))
    made.sort()
    return [(left, right) for *_, left, right in made]
