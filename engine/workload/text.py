"""Prompts cut from real text: the Python standard library's own source files, tokenized with the model's tokenizer."""

import random
import sysconfig
import tokenize
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from engine.errors import Refused


class Encoder(Protocol):
    """Text to token ids; `engine.models.tokenizer.TextTokenizer` is one."""

    def encode(self, text: str, add_bos: bool | None = None) -> list[int]: ...


def library_files() -> tuple[Path, ...]:
    """The standard library's top-level modules, by name; empty where it is shipped without sources."""
    return tuple(sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")))


class PromptSource:
    """Cuts token spans from the files. The same seed, key, files and encoder give the same tokens; another key gives
    another place. Each file is tokenized once, when it is first needed (4 bytes a token are kept). Not thread-safe.

    Raises Refused when there are no files.
    """

    def __init__(self, encoder: Encoder, seed: int = 0, files: tuple[Path, ...] | None = None) -> None:
        self._encoder = encoder
        self._seed = seed
        self._files = library_files() if files is None else files
        self._tokens: dict[Path, array[int]] = {}
        if not self._files:
            raise Refused("this Python has no source files of its standard library to cut prompts from; install them")

    def cut(self, key: str, count: int) -> tuple[int, ...]:
        """`count` tokens from a place that the seed and the key choose, running on into the next files. Raises
        Refused when the files hold no token at all."""
        rng = random.Random(f"{self._seed}/{key}")
        first = rng.randrange(len(self._files))
        start = rng.random()
        taken: list[int] = []
        for tokens in self._from(first):
            offset = int(start * len(tokens)) if not taken else 0
            taken.extend(tokens[offset : offset + count - len(taken)])
            if len(taken) == count:
                return tuple(taken)
        raise Refused(f"the {len(self._files)} source files hold no text to cut prompts from")

    def _from(self, first: int) -> Iterator["array[int]"]:
        """Files from `first` on, round and round while they hold anything."""
        while True:
            held = 0
            for step in range(len(self._files)):
                tokens = self._tokenized(self._files[(first + step) % len(self._files)])
                held += len(tokens)
                yield tokens
            if not held:
                return

    def _tokenized(self, path: Path) -> "array[int]":
        known = self._tokens.get(path)
        if known is None:
            with tokenize.open(path) as file:
                known = array("I", self._encoder.encode(file.read(), add_bos=False))
            self._tokens[path] = known
        return known
