"""Errors whose text is shown to a person: one sentence, what was given, what is allowed, what to do."""


class ParkdeckError(Exception):
    """Base of every error that is a user's to read; `str(error)` is the sentence to show."""


class Refused(ParkdeckError):
    """A request or command that cannot be taken; nothing was changed."""


class ModelError(ParkdeckError):
    """A model file or directory that cannot be served, with the file, the tensor and the reason."""


class BadKnob(Refused):
    """A knob value outside its range; the old value stays in force."""


class BadField(Refused):
    """A value that a form cannot take. `field` names it as the form does; the text is the sentence beside it."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(text)
        self.field = field


class TurnsOpen(Refused):
    """What was asked needs an engine without turns, and some are open."""


class UnknownTurn(Refused):
    """The turn is not known (never was, or ended and was forgotten)."""


class IntegrityError(Exception):
    """The books do not add up: free + held != total, or a block is held twice. A bug, never a user's mistake."""


class CorruptCopy(Exception):
    """A host copy failed its checksum or could not be copied; the turn must be recomputed."""
