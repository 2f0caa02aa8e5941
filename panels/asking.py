"""Asking the engine and saying how it went. A command takes effect at the next token boundary, so the page waits a
moment for the answer and, when the engine is in a long step, says so instead of waiting on."""

from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Literal

from engine.errors import ParkdeckError

PATIENCE_S = 1.5
Tone = Literal["good", "bad", "wait"]


@dataclass(frozen=True, slots=True)
class Answer:
    """The sentence for the user. `tone` wait: asked, and not yet carried out."""

    text: str
    tone: Tone = "good"


def outcome(future: "Future[Any]", asked: str, patience: float | None = None) -> Answer:
    """What became of a command; `asked` is its name in a few words."""
    try:
        result = future.result(timeout=PATIENCE_S if patience is None else patience)
    except TimeoutError:
        return Answer(f"{asked}: asked; it takes effect at the next token boundary", "wait")
    except ParkdeckError as refusal:
        return Answer(str(refusal), "bad")
    return Answer(result if isinstance(result, str) else f"{asked}: done")
