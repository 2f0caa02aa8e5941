"""What swaps and recomputes of the session really cost, as points: a copy out followed by its turn's copy back is one
round trip; a copy without the other is one way; a recompute stands alone."""

from collections.abc import Sequence
from dataclasses import dataclass

from engine.events import EventKind, MoveCost
from engine.turn import TurnId
from panels.units import MIB

MOST_POINTS = 1_000


@dataclass(frozen=True, slots=True)
class Point:
    """`out_bytes`, `back_bytes`: moved each way, 0 where none were."""

    agent: str
    tokens: int
    out_bytes: int
    back_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Points:
    """All of the session that can be drawn on log axes, oldest first."""

    trips: tuple[Point, ...] = ()
    one_way: tuple[Point, ...] = ()
    recomputes: tuple[Point, ...] = ()

    @property
    def total(self) -> int:
        return len(self.trips) + len(self.one_way) + len(self.recomputes)


def points(moves: Sequence[MoveCost]) -> Points:
    """Pairs the session's moves, given oldest first. What took no time or moved no tokens has no place on log axes."""
    away: dict[TurnId, MoveCost] = {}
    trips: list[Point] = []
    one_way: list[Point] = []
    recomputes: list[Point] = []
    for move in moves:
        if move.tokens <= 0 or not move.seconds > 0:
            continue
        if move.kind == EventKind.RECOMPUTE:
            recomputes.append(Point(move.agent, move.tokens, 0, 0, move.seconds))
        elif move.kind == EventKind.SWAP_OUT:
            if (before := away.get(move.turn)) is not None:
                one_way.append(_out(before))
            away[move.turn] = move
        elif move.kind == EventKind.SWAP_IN:
            out = away.pop(move.turn, None)
            if out is None:
                one_way.append(Point(move.agent, move.tokens, 0, move.nbytes, move.seconds))
            else:
                trips.append(Point(out.agent, out.tokens, out.nbytes, move.nbytes, out.seconds + move.seconds))
    one_way += [_out(move) for move in away.values()]
    return Points(tuple(trips), tuple(one_way), tuple(recomputes))


def thinned(all_of_them: Sequence[Point], most: int = MOST_POINTS) -> Sequence[Point]:
    """At most about `most` of the points, evenly spaced and the latest among them."""
    every = max(1, -(-len(all_of_them) // most))
    return all_of_them[(len(all_of_them) - 1) % every :: every]


def described(point: Point) -> str:
    """Tokens and MiB of one point; agent and time are beside it."""
    ways = [f"{nbytes / MIB:,.1f} MiB {way}" for nbytes, way in _ways(point) if nbytes]
    return " · ".join([f"{point.tokens:,} tokens", *ways])


def _ways(point: Point) -> tuple[tuple[int, str], ...]:
    return (point.out_bytes, "out"), (point.back_bytes, "back")


def _out(move: MoveCost) -> Point:
    return Point(move.agent, move.tokens, move.nbytes, 0, move.seconds)
