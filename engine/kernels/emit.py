"""Vector code for numba intrinsics, written as LLVM IR so that its order of operations is ours, not the optimiser's.

Everything here emits plain IEEE operations and `llvm.fmuladd`, without fast-math flags: one row and lane always sees
the same operations in the same order, whatever the vector width of the machine and whatever runs beside it.
"""

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba.core import cgutils, config, types

F16 = ir.HalfType()
F32 = ir.FloatType()
I8 = ir.IntType(8)
I16 = ir.IntType(16)
I32 = ir.IntType(32)
I64 = ir.IntType(64)

LANES = 16
"""Floats in one vector of the kernels; LLVM splits it into what the machine has (2 AVX2, 1 AVX-512, 4 NEON)."""

REGISTER = 16 if not config.CPU_NAME and get_host_cpu_features().get("avx512f") else 8
"""Floats in one register: where sums must stay in registers, code is written in vectors of this size. 8 where numba is
told to compile for another CPU than this one."""

_ROUND = 12582912.0
"""1.5 x 2^23: adding and subtracting it rounds a small float to the nearest integer."""


def vector(element: ir.Type, lanes: int) -> ir.VectorType:
    return ir.VectorType(element, lanes)


class Emitter:
    """One intrinsic's body: a builder, and the few vector operations that the kernels need."""

    def __init__(self, context: Any, builder: ir.IRBuilder, signature: Any, args: Sequence[ir.Value]) -> None:
        self.context = context
        self.b = builder
        self.args = list(args)
        for i, ty in enumerate(signature.args):
            if isinstance(ty, types.Array):
                self.args[i] = context.make_array(ty)(context, builder, args[i]).data

    def count(self, value: int) -> ir.Constant:
        return ir.Constant(I64, value)

    def fill(self, value: float, lanes: int) -> ir.Constant:
        return ir.Constant(vector(F32, lanes), [value] * lanes)

    def at(self, pointer: ir.Value, offset: ir.Value) -> ir.Value:
        return self.b.gep(pointer, [offset])

    def load(self, pointer: ir.Value, offset: ir.Value, element: ir.Type, lanes: int, align: int) -> ir.Value:
        address = self.b.bitcast(self.at(pointer, offset), vector(element, lanes).as_pointer())
        return self.b.load(address, align=align)

    def load_f32(self, pointer: ir.Value, offset: ir.Value, lanes: int) -> ir.Value:
        return self.load(pointer, offset, F32, lanes, 4)

    def load_scalar(self, pointer: ir.Value, offset: ir.Value) -> ir.Value:
        return self.b.load(self.at(pointer, offset))

    def store(self, value: ir.Value, pointer: ir.Value, offset: ir.Value) -> None:
        self.b.store(value, self.b.bitcast(self.at(pointer, offset), value.type.as_pointer()), align=4)

    def store_scalar(self, value: ir.Value, pointer: ir.Value, offset: ir.Value) -> None:
        self.b.store(value, self.at(pointer, offset))

    def widen(self, pointer: ir.Value, offset: ir.Value, kind: types.Type, lanes: int) -> ir.Value:
        """`lanes` stored values as float32: int8, IEEE half (kept as uint16) or float32."""
        wide = vector(F32, lanes)
        if kind == types.int8:
            return self.b.sitofp(self.load(pointer, offset, I8, lanes, 1), wide)
        if kind == types.uint16:
            return self.b.fpext(self.b.bitcast(self.load(pointer, offset, I16, lanes, 2), vector(F16, lanes)), wide)
        return self.load_f32(pointer, offset, lanes)

    def prefetch(self, pointer: ir.Value, offset: ir.Value) -> None:
        """Ask for the cache line at `offset`, for reading soon; any address will do."""
        name, kinds = "llvm.prefetch.p0", [I8.as_pointer(), I32, I32, I32]
        function = cgutils.get_or_insert_function(self.b.module, ir.FunctionType(ir.VoidType(), kinds), name)
        address = self.b.bitcast(self.at(pointer, offset), I8.as_pointer())
        self.b.call(function, [address, *(ir.Constant(I32, value) for value in (0, 3, 1))])

    def splat(self, value: ir.Value, lanes: int) -> ir.Value:
        undefined = ir.Constant(vector(value.type, lanes), ir.Undefined)
        first = self.b.insert_element(undefined, value, ir.Constant(I32, 0))
        return self.shuffle(first, undefined, [0] * lanes)

    def shuffle(self, a: ir.Value, b: ir.Value, order: Sequence[int]) -> ir.Value:
        return self.b.shuffle_vector(a, b, ir.Constant(vector(I32, len(order)), list(order)))

    def fma(self, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        """a x b + c, fused where the machine can."""
        ty = a.type
        name = f"llvm.fmuladd.v{ty.count}f32" if isinstance(ty, ir.VectorType) else "llvm.fmuladd.f32"
        function = cgutils.get_or_insert_function(self.b.module, ir.FunctionType(ty, [ty, ty, ty]), name)
        return self.b.call(function, [a, b, c])

    def sqrt(self, value: ir.Value) -> ir.Value:
        """Of one float."""
        function = cgutils.get_or_insert_function(self.b.module, ir.FunctionType(F32, [F32]), "llvm.sqrt.f32")
        return self.b.call(function, [value])

    def larger(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.b.select(self.b.fcmp_ordered(">", a, b), a, b)

    def fold(self, value: ir.Value, combine: Callable[[ir.Value, ir.Value], ir.Value]) -> ir.Value:
        """All lanes combined into one float, by halves."""
        lanes = value.type.count
        while lanes > 1:
            lanes //= 2
            undefined = ir.Constant(value.type, ir.Undefined)
            low = self.shuffle(value, undefined, range(lanes))
            high = self.shuffle(value, undefined, range(lanes, 2 * lanes))
            value = combine(low, high)
        return self.b.extract_element(value, ir.Constant(I32, 0))

    def loop(
        self,
        count: ir.Value,
        carried: Sequence[ir.Value],
        body: Callable[[ir.Value, list[ir.Value]], Sequence[ir.Value]],
    ) -> list[ir.Value]:
        """`for i in range(count): carried = body(i, carried)`; the carried values live in registers."""
        b = self.b
        entry = b.block
        head = b.append_basic_block("loop")
        after = b.append_basic_block("after")
        b.cbranch(b.icmp_signed(">", count, self.count(0)), head, after)
        b.position_at_end(head)
        index = b.phi(I64)
        index.add_incoming(self.count(0), entry)
        inside = [b.phi(value.type) for value in carried]
        for phi, value in zip(inside, carried, strict=True):
            phi.add_incoming(value, entry)
        results = list(body(index, list(inside)))
        last = b.block
        following = b.add(index, self.count(1))
        index.add_incoming(following, last)
        for phi, value in zip(inside, results, strict=True):
            phi.add_incoming(value, last)
        b.cbranch(b.icmp_signed("<", following, count), head, after)
        b.position_at_end(after)
        outside = [b.phi(value.type) for value in carried]
        for phi, before, value in zip(outside, carried, results, strict=True):
            phi.add_incoming(before, entry)
            phi.add_incoming(value, last)
        return outside

    def exp(self, x: ir.Value) -> ir.Value:
        """e^x for each lane within 2 ulp, clamped to -87.3..88: Cephes' expf (range reduction by ln 2, degree 6)."""
        b = self.b
        lanes = x.type.count
        x = b.select(b.fcmp_ordered("<", x, self.fill(-87.3, lanes)), self.fill(-87.3, lanes), x)
        x = b.select(b.fcmp_ordered(">", x, self.fill(88.0, lanes)), self.fill(88.0, lanes), x)
        shifted = self.fma(x, self.fill(1.44269504, lanes), self.fill(_ROUND, lanes))
        turns = b.fsub(shifted, self.fill(_ROUND, lanes))
        r = self.fma(turns, self.fill(-0.693359375, lanes), x)
        r = self.fma(turns, self.fill(2.12194440e-4, lanes), r)
        y = self.fill(1.9875691500e-4, lanes)
        for c in (1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1):
            y = self.fma(y, r, self.fill(c, lanes))
        y = b.fadd(self.fma(y, b.fmul(r, r), r), self.fill(1.0, lanes))
        whole = vector(I32, lanes)
        power = b.sub(b.bitcast(shifted, whole), ir.Constant(whole, [0x4B400000 - 127] * lanes))
        return b.fmul(y, b.bitcast(b.shl(power, ir.Constant(whole, [23] * lanes)), x.type))

    def done(self) -> ir.Value:
        return self.context.get_dummy_value()
