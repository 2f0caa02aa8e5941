"""How workers share a pass: each takes the next unit until none is left, so that one whose core is busy elsewhere takes
fewer. Who computes a unit changes no bit of it."""

from numba import types
from numba.extending import intrinsic

from engine.kernels.emit import Emitter

APART = 8
"""int64 values from one pass's counter to the next: a cache line."""


@intrinsic
def take(typing_context, counters, at):
    """counters[at]++, for all workers at once."""
    signature = types.int64(counters, at)

    def codegen(context, builder, sig, args):
        e = Emitter(context, builder, sig, args)
        counters, at = e.args
        one = e.count(1)
        return builder.atomic_rmw("add", e.at(counters, at), one, "monotonic")

    return signature, codegen
