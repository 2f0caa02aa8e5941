"""Sizes that kernels have compiled in: they belong to the type of an array that holds nothing, so numba compiles and
keeps one version of a kernel for each set of them."""

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from engine.kernels.emit import I64


def compiled_in(**sizes: int) -> np.ndarray:
    """An empty array that carries `sizes`, each at least 1."""
    return np.empty(0, np.dtype([(name, np.int8, (value,)) for name, value in sizes.items()]))


@intrinsic(prefer_literal=True)
def size(typing_context, sizes, name):
    """One of them, a constant of the compiled code; `name` is a literal."""
    value = sizes.dtype.fields[name.literal_value].type.shape[0]

    def codegen(context, builder, sig, args):
        return ir.Constant(I64, value)

    return types.int64(sizes, name), codegen
