"""The host pool on vLLM: which unit holds which block, and the calls that make the workers copy."""

from collections.abc import Callable, Mapping, Sequence

from engine.backends.vllm.slab import Units
from engine.errors import IntegrityError, Refused
from engine.turn import TurnId

Call = Callable[..., object]


class HostPool:
    """`call(method, *args)` reaches every worker; `block_bytes` is one block over all of them; `asked` is what was
    asked for, `nbytes` what is given."""

    def __init__(self, call: Call, block_bytes: int, nbytes: int, asked: int) -> None:
        self._call = call
        self._block_bytes = block_bytes
        self._units = Units(0)
        self._held: dict[TurnId, tuple[int, ...]] = {}
        self.asked = asked
        self.resize(nbytes // block_bytes)

    @property
    def units(self) -> int:
        return self._units.total

    @property
    def total_bytes(self) -> int:
        return self._units.total * self._block_bytes

    @property
    def used_bytes(self) -> int:
        return self._units.used * self._block_bytes

    def of(self, turn: TurnId) -> int:
        """Blocks of the turn that are here."""
        return len(self._held.get(turn, ()))

    def store(self, turn: TurnId, blocks: Sequence[int]) -> int | None:
        """Copy the blocks here; bytes, or None, with nothing changed, if so many units are not free."""
        units = self._units.take(len(blocks))
        if units is None:
            return None
        self._call("parkdeck_out", list(blocks), list(units))
        self._held[turn] = units
        return len(units) * self._block_bytes

    def load(self, turn: TurnId, blocks: Sequence[int]) -> int:
        """Copy them back into as many blocks, and free the units; bytes."""
        units = self._held[turn]
        self._call("parkdeck_in", list(units), list(blocks))
        self.trim(turn, 0)
        return len(units) * self._block_bytes

    def trim(self, turn: TurnId, keep: int) -> None:
        """Free what lies behind the turn's first `keep` blocks."""
        units = self._held.pop(turn, ())
        self._units.give(units[keep:])
        if units[:keep]:
            self._held[turn] = units[:keep]

    def check(self, nbytes: int, room: int) -> None:
        """Raises Refused below 0, and above `room` unless it was that large before."""
        limit = max(self.total_bytes, room)
        if nbytes < 0 or nbytes > limit:
            raise Refused(
                f"A host pool of {nbytes / 2**20:.1f} MiB was asked for; give 0 to {limit / 2**20:.1f} MiB, half of "
                "the memory that this machine and its container have available."
            )

    def ask(self, nbytes: int, room: int) -> None:
        """Resize to `nbytes`. Raises Refused as `check` does, and below what is in use."""
        self.check(nbytes, room)
        if nbytes // self._block_bytes < self._units.used:
            raise Refused(
                f"The host pool holds {self.used_bytes / 2**20:.1f} MiB of parked turns and cannot shrink to "
                f"{nbytes / 2**20:.1f} MiB; let turns come back first or drop some."
            )
        self.asked = nbytes
        self.resize(nbytes // self._block_bytes)

    def resize(self, units: int) -> None:
        """A slab of `units` units; the copies that are there move to its front."""
        self._call("parkdeck_slab", units, [unit for held in self._held.values() for unit in held])
        self._units = Units(units)
        self._held = {turn: self._moved(len(held)) for turn, held in self._held.items()}

    def _moved(self, count: int) -> tuple[int, ...]:
        units = self._units.take(count)
        if units is None:
            raise IntegrityError(f"a host pool of {self._units.total} units cannot hold what is in use")
        return units

    def faults(self, turns: Mapping[TurnId, object]) -> list[str]:
        """What is wrong in the books: sentences, none if all is well."""
        held = [unit for units in self._held.values() for unit in units]
        found = []
        if len(set(held)) != len(held) or self._units.is_free() & set(held):
            found.append("a unit of the host pool is held twice, or both held and free")
        if len(held) != self._units.used:
            found.append(f"{self._units.used} units of the host pool are taken, turns hold {len(held)}")
        found += [f"the host pool holds a copy of turn {turn}, which has ended" for turn in self._held.keys() - turns]
        return found
