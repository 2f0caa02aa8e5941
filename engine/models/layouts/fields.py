"""The values that a model's config states, read one by one: each is checked, and what nobody has read is known."""

from collections.abc import Iterable, Mapping
from typing import Any

from engine.errors import ModelError
from engine.models import stated
from engine.models.stated import shown

MOST_LAYERS = 4096
_MOST = 1 << 24
_MOST_CONTEXT = 1 << 40


def words(text: str) -> frozenset[str]:
    """The names in a text that spaces set apart."""
    return frozenset(text.split())


class Fields:
    """`file` names where the values are from, `prefix` stands before each key in that file.

    Errors are ModelErrors of one sentence with file and key. A default that is the family's own is told in `notes`.
    """

    def __init__(self, values: Mapping[str, Any], file: str, prefix: str = "") -> None:
        self.file = file
        self.notes: list[str] = []
        self._values, self._prefix = values, prefix
        self._read: set[str] = set()

    def has(self, key: str) -> bool:
        return self._value(key) is not None

    def spelled(self, own: str, usual: str) -> str:
        """The key as this config spells it: a family's own word for it, or the usual one where that alone is there."""
        return usual if not self.has(own) and self.has(usual) else own

    def is_null(self, key: str) -> bool:
        """The key is there and holds null, which is not the same as a key that is missing."""
        return self._prefix + key in self._values and self._value(key) is None

    def number_of(self, key: str, default: int | None = None, most: int = _MOST) -> int:
        """A whole number from 0 up."""
        self._value(key)
        value = stated.integer(self._values, self._prefix + key, self.file, default)
        if value < 0:
            raise self.wrong(key, "it must be at least 0")
        if value > most:
            raise self.wrong(key, f"more than the {most:,} that any model has")
        return value

    def size(self, key: str, default: int | None = None, most: int = _MOST) -> int:
        """A whole number from 1 up; a default that is taken becomes a note."""
        value = self.number_of(key, default, most)
        if value < 1:
            raise self.wrong(key, "it must be at least 1")
        if not self.has(key):
            self.note(f"{key} is not stated; the family's own {value:,} is taken.")
        return value

    def layers(self, key: str = "num_hidden_layers") -> int:
        return self.size(key, most=MOST_LAYERS)

    def context(self, key: str = "max_position_embeddings") -> int | None:
        return self.size(key, most=_MOST_CONTEXT) if self.has(key) else None

    def flag(self, key: str, default: bool = False) -> bool:
        self._value(key)
        return stated.flag(self._values, self._prefix + key, self.file, default)

    def name(self, key: str, default: str | None = None) -> str:
        value = self._value(key)
        value = default if value is None else value
        if not isinstance(value, str) or not value:
            raise self.wrong(key, "not a name")
        return value

    def names(self, key: str, length: int) -> tuple[str, ...]:
        """One name per layer."""
        values = self._per_layer(key, length)
        if not all(isinstance(value, str) for value in values):
            raise self.wrong(key, "not a list of names")
        return tuple(values)

    def numbers(self, key: str, length: int) -> tuple[int, ...]:
        """One whole number from 0 up per layer."""
        values = self._per_layer(key, length)
        if not all(type(value) is int and 0 <= value <= _MOST for value in values):
            raise self.wrong(key, "not a list of whole numbers from 0 up")
        return tuple(values)

    def flags(self, key: str, length: int) -> tuple[bool, ...]:
        """True or false (or 1 and 0) per layer."""
        values = self._per_layer(key, length)
        if not all(type(value) in (bool, int) and value in (0, 1) for value in values):
            raise self.wrong(key, "not a list of true and false")
        return tuple(bool(value) for value in values)

    def positions(self, key: str, layers: int, first: int = 0) -> frozenset[int]:
        """Which layers a list names, counted from 0 here and from `first` in the file."""
        values = self._list(key)
        if not all(type(value) is int and first <= value < layers + first for value in values):
            raise self.wrong(key, f"not a list of layers from {first} to {layers + first - 1}")
        return frozenset(value - first for value in values)

    def has_list(self, key: str) -> bool:
        """A list with something in it."""
        value = self._value(key)
        return isinstance(value, list | tuple) and len(value) > 0

    def is_text(self, key: str) -> bool:
        return isinstance(self._value(key), str)

    def part(self, key: str) -> "Fields":
        """The object under a key."""
        value = self._value(key)
        if not isinstance(value, Mapping):
            raise self.wrong(key, "not an object")
        return Fields(value, f"{self.file}: {self._prefix}{key}")

    def is_part(self, key: str) -> bool:
        return isinstance(self._value(key), Mapping)

    def note(self, sentence: str) -> None:
        if sentence not in self.notes:
            self.notes.append(sentence)

    def ignore(self, *keys: str) -> None:
        """Counts as read: known to change nothing here."""
        self._read.update(keys)

    def unread(self, keys: Iterable[str]) -> list[str]:
        """Those of the keys that state something and that nobody has read."""
        says = (key for key in keys if key not in self._read)
        return [key for key in says if self._values.get(self._prefix + key) not in (None, False, 0, [], {}, "")]

    def wrong(self, key: str, why: str) -> ModelError:
        return stated.wrong(self._values, self._prefix + key, self.file, why)

    def refused(self, key: str, why: str) -> ModelError:
        """For a value that is well formed, of a layout that is not known here."""
        value = shown(self._value(key), 40)
        return ModelError(f"{self.file}: {self._prefix}{key} is {value}, {why}; choose another model.")

    def _value(self, key: str) -> Any:
        self._read.add(key)
        return self._values.get(self._prefix + key)

    def _list(self, key: str) -> list[Any]:
        value = self._value(key)
        if not isinstance(value, list | tuple):
            raise self.wrong(key, "not a list")
        return list(value)

    def _per_layer(self, key: str, length: int) -> list[Any]:
        values = self._list(key)
        if len(values) != length:
            raise self.wrong(key, f"a list of {len(values):,} for {length:,} layers")
        return values
