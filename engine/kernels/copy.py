"""Copying and hashing in one pass: blocks of an arena to units of a slab or back, with the XXH3 sum of each unit.

The sums are those of the xxhash library (seed 0) for a unit of more than SHORT bytes; the bytes go round the cache
where the target allows, as a memcpy of as many would. Everything is a multiple of STRIPE bytes.
"""

import numpy as np
from llvmlite import ir
from numba import types, uint64
from numba.extending import intrinsic

from engine.kernels.compiled import njit
from engine.kernels.emit import I64, Emitter, vector

STRIPE = 64
SHORT = 240
"""XXH3 sums up to this many bytes in another way."""

_LANES = 8
_BLOCK = 16
"""Stripes from one scramble to the next."""

_SECRET = np.frombuffer(
    bytes.fromhex(
        "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
        "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
        "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
        "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
    ),
    np.uint8,
).copy()
_SCRAMBLE_AT = _SECRET.size - STRIPE
_LAST_AT = _SCRAMBLE_AT - 7
_MERGE_AT = 11
_PRIME32 = uint64(0x9E3779B1)
_PRIME64 = uint64(0x9E3779B185EBCA87)
_AVALANCHE = uint64(0x165667919E3779F9)
_START = np.array(
    [
        0xC2B2AE3D, 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9,
        0x85EBCA77C2B2AE63, 0x85EBCA77, 0x27D4EB2F165667C5, 0x9E3779B1,
    ],
    np.uint64,
)  # fmt: skip


def _stripes(streaming: bool, moving: bool):
    """source -> target and into `acc` (8 x uint64): `count` stripes, the secret moving on by 8 bytes with each."""

    def typed(typing_context, source, source_at, target, target_at, count, secret, secret_at, acc):
        signature = types.void(source, source_at, target, target_at, count, secret, secret_at, acc)

        def codegen(context, builder, sig, args):
            e = Emitter(context, builder, sig, args)
            source, source_at, target, target_at, count, secret, secret_at, acc = e.args
            swapped = [1, 0, 3, 2, 5, 4, 7, 6]
            half = ir.Constant(vector(I64, _LANES), [32] * _LANES)
            low = ir.Constant(vector(I64, _LANES), [0xFFFFFFFF] * _LANES)

            def stripe(index: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
                step = builder.mul(index, e.count(STRIPE))
                data = e.load(source, builder.add(source_at, step), I64, _LANES, 1)
                if moving:
                    place = builder.bitcast(e.at(target, builder.add(target_at, step)), data.type.as_pointer())
                    written = builder.store(data, place, align=STRIPE if streaming else 1)
                    if streaming:
                        written.set_metadata(
                            "nontemporal", builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)])
                        )
                at = builder.add(secret_at, builder.mul(index, e.count(8)))
                key = builder.xor(data, e.load(secret, at, I64, _LANES, 1))
                product = builder.mul(builder.and_(key, low), builder.lshr(key, half))
                return [builder.add(builder.add(carried[0], e.shuffle(data, data, swapped)), product)]

            (total,) = e.loop(count, [e.load(acc, e.count(0), I64, _LANES, 8)], stripe)
            builder.store(total, builder.bitcast(acc, total.type.as_pointer()), align=8)
            return e.done()

        return signature, codegen

    return intrinsic(typed)


_hashed = _stripes(streaming=False, moving=False)
_copied = _stripes(streaming=False, moving=True)
_streamed = _stripes(streaming=True, moving=True)


@intrinsic
def _fold(typing_context, a, b):
    """Both halves of the 128-bit product, one upon the other."""

    def codegen(context, builder, sig, args):
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
        high = builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), I64)
        return builder.xor(builder.trunc(product, I64), high)

    return types.uint64(a, b), codegen


@intrinsic
def _settle(typing_context):
    """Streamed bytes are in memory before anybody is told that they are."""

    def codegen(context, builder, sig, args):
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), codegen


@intrinsic
def _word(typing_context, data, at):
    """The eight bytes at `at` as one uint64."""

    def codegen(context, builder, sig, args):
        e = Emitter(context, builder, sig, args)
        address = builder.bitcast(e.at(e.args[0], e.args[1]), I64.as_pointer())
        return builder.load(address, align=1)

    return types.uint64(data, at), codegen


@njit(nogil=True, cache=True)
def _scramble(acc):
    for lane in range(_LANES):
        value = acc[lane]
        value = (value ^ (value >> uint64(47))) ^ _word(_SECRET, _SCRAMBLE_AT + 8 * lane)
        acc[lane] = value * _PRIME32


@njit(nogil=True, cache=True)
def _sum(acc, nbytes):
    total = uint64(nbytes) * _PRIME64
    for pair in range(0, _LANES, 2):
        at = _MERGE_AT + 8 * pair
        total += _fold(acc[pair] ^ _word(_SECRET, at), acc[pair + 1] ^ _word(_SECRET, at + 8))
    total = (total ^ (total >> uint64(37))) * _AVALANCHE
    return total ^ (total >> uint64(32))


@njit(nogil=True, cache=True)
def _pass(source, source_at, target, target_at, nbytes, moving, streaming, stripe, final, acc):
    """One span of a unit, whose stripe number `stripe` is its first; returns the number of the one behind it."""
    done = 0
    stripes = nbytes // STRIPE
    while done < stripes:
        in_block = stripe % _BLOCK
        count = min(_BLOCK - in_block, stripes - done)
        secret_at = 8 * in_block
        if stripe == final:
            secret_at = _LAST_AT
        elif stripe + count > final:
            count = final - stripe
        a = source_at + done * STRIPE
        b = target_at + done * STRIPE
        if not moving:
            _hashed(source, a, target, b, count, _SECRET, secret_at, acc)
        elif streaming:
            _streamed(source, a, target, b, count, _SECRET, secret_at, acc)
        else:
            _copied(source, a, target, b, count, _SECRET, secret_at, acc)
        done += count
        stripe += count
        if stripe % _BLOCK == 0 and stripe <= final:
            _scramble(acc)
    return stripe


@njit(nogil=True, cache=True)
def copy_units(
    arena, slab, out, blocks, block_bytes, units, unit_bytes, filled, skip, first, last, streaming, sums
):  # fmt: skip
    """Copy the units `first`..`last` - 1 of a job and put the XXH3 sum of each into `sums`, uint64 (units,).

    arena, slab: flat uint8; `out`: from arena to slab, else back. blocks, units: int64, where each begins; the stream
    of the blocks begins `skip` bytes into the first unit. filled: int64, bytes of each unit that its sum covers, also
    those beside the stream. `streaming`: all that is written begins at a multiple of STRIPE in memory. Sums of units of
    up to SHORT bytes mean nothing.
    """
    acc = np.empty(_LANES, np.uint64)
    nbytes = blocks.size * block_bytes
    for unit in range(first, last):
        acc[:] = _START
        final = filled[unit] // STRIPE - 1
        stripe = 0
        at = 0
        while at < filled[unit]:
            place = unit * unit_bytes - skip + at
            slab_at = units[unit] + at
            if place < 0 or place >= nbytes:
                size = min(-place, filled[unit] - at) if place < 0 else filled[unit] - at
                stripe = _pass(slab, slab_at, slab, slab_at, size, False, False, stripe, final, acc)
            else:
                size = min(block_bytes - place % block_bytes, filled[unit] - at)
                arena_at = blocks[place // block_bytes] + place % block_bytes
                if out:
                    stripe = _pass(arena, arena_at, slab, slab_at, size, True, streaming, stripe, final, acc)
                else:
                    stripe = _pass(slab, slab_at, arena, arena_at, size, True, streaming, stripe, final, acc)
            at += size
        sums[unit] = _sum(acc, filled[unit])
    _settle()
