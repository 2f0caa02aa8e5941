"""The kinds of what clients hand in, checked on their own thread: a value of the wrong kind is refused there and never
reaches the engine's."""

from engine.control import Unblock
from engine.errors import Refused
from engine.turn import Priority, Sampling, TurnId, TurnRequest


def check_request(request: TurnRequest) -> None:
    """Raises Refused naming the field, what was given and what is allowed."""
    _of(request, TurnRequest, "a turn's request")
    _text(request.agent, "agent")
    _tokens(request.prompt, "prompt")
    _of(request.priority, Priority, "priority")
    _of(request.sampling, Sampling, "sampling")
    if not isinstance(request.stop, tuple) or not all(isinstance(text, str) for text in request.stop):
        raise Refused(f"stop {_shown(request.stop)} is not a tuple of texts; give such as ('END',)")
    if request.then_block is not None:
        _text(request.then_block, "then_block")


def check_unblock(result: Unblock) -> None:
    _of(result, Unblock, "a tool's result")
    check_turn(result.turn)
    _tokens(result.tokens, "tokens")
    if result.then_block is not None:
        _text(result.then_block, "then_block")


def check_turn(turn: TurnId) -> None:
    if not isinstance(turn, int) or isinstance(turn, bool):
        raise Refused(f"turn {_shown(turn)} is not a turn's number; give the one that submit answered")


def _tokens(tokens: object, name: str) -> None:
    whole = isinstance(tokens, tuple | list) and all(type(token) is int for token in tokens)
    if not whole:
        raise Refused(f"{name} {_shown(tokens)} is not a tuple of token ids; give whole numbers")


def _text(value: object, name: str) -> None:
    if not isinstance(value, str):
        raise Refused(f"{name} {_shown(value)} is not a text; give a name")


def _of(value: object, kind: type, name: str) -> None:
    if not isinstance(value, kind):
        raise Refused(f"{name} {_shown(value)} is not a {kind.__name__}; give one")


def _shown(value: object) -> str:
    try:
        return repr(value)[:80]
    except ValueError:
        return "of too many digits"
