"""Linear layers for up to sixteen rows over int8 or int4 weights, which stay so in memory.

A program makes one tile of outputs from one part of the inputs; where there are few tiles the inputs are cut into
several parts, which a second kernel adds up in order.
"""

import torch
import triton
import triton.language as tl

ROWS = 16
GROUP = 32
"""int4 weights that share a scale and an offset; 16 bytes, byte i holds weight i (low half) and weight i + 16."""

_TILE = 32
_STEP = 128
_PROGRAMS = 512
"""Programs that keep a large device busy."""

_LEAST_STEPS = 4


@triton.jit(do_not_specialize=["rows"])
def _int8(x, values, scale, out, rows, outputs, inputs, part, TILE: tl.constexpr, STEP: tl.constexpr, IN: tl.constexpr):
    row = tl.arange(0, 16)
    o = tl.program_id(0) * TILE + tl.arange(0, TILE)
    first = tl.program_id(1) * part
    weights = values + o.to(tl.int64)[:, None] * inputs
    total = tl.zeros((16, TILE), tl.float32)
    for step in range(0, part, STEP):
        i = first + step + tl.arange(0, STEP)
        known = i[None, :] < inputs
        a = tl.load(x + row[:, None] * inputs + i[None, :], mask=(row[:, None] < rows) & known, other=0.0)
        w = tl.load(weights + i[None, :], mask=(o[:, None] < outputs) & known, other=0)
        total = tl.dot(a.to(IN), tl.trans(w.to(IN)), total, input_precision="ieee")
    total *= tl.load(scale + o, mask=o < outputs, other=0.0)[None, :]
    at = (tl.program_id(1) * rows + row[:, None]) * outputs + o[None, :]
    tl.store(out + at, total, mask=(row[:, None] < rows) & (o[None, :] < outputs))


@triton.jit(do_not_specialize=["rows"])
def _int4(
    x, packed, scale, offset, out, rows, outputs, inputs, groups, part, TILE: tl.constexpr, STEP: tl.constexpr,
    IN: tl.constexpr,
):  # fmt: skip
    row = tl.arange(0, 16)
    o = tl.program_id(0) * TILE + tl.arange(0, TILE)
    own = o.to(tl.int64)[:, None] * groups
    total = tl.zeros((16, TILE), tl.float32)
    for step in range(0, part, STEP):
        byte = tl.program_id(1) * part + step + tl.arange(0, STEP)
        group = byte // 16
        known = (o[:, None] < outputs) & (group[None, :] < groups)
        both = tl.load(packed + own * 16 + byte[None, :], mask=known, other=0)
        s = tl.load(scale + own + group[None, :], mask=known, other=0.0).to(tl.float32)
        m = tl.load(offset + own + group[None, :], mask=known, other=0.0).to(tl.float32)
        low = group * 32 + byte % 16
        here = x + row[:, None] * inputs + low[None, :]
        a = tl.load(here, mask=(row[:, None] < rows) & (low[None, :] < inputs), other=0.0)
        b = tl.load(here + 16, mask=(row[:, None] < rows) & (low[None, :] + 16 < inputs), other=0.0)
        w_low = ((both & 15).to(tl.float32) * s + m).to(IN)
        w_high = ((both >> 4).to(tl.float32) * s + m).to(IN)
        total = tl.dot(a.to(IN), tl.trans(w_low), total, input_precision="ieee")
        total = tl.dot(b.to(IN), tl.trans(w_high), total, input_precision="ieee")
    at = (tl.program_id(1) * rows + row[:, None]) * outputs + o[None, :]
    tl.store(out + at, total, mask=(row[:, None] < rows) & (o[None, :] < outputs))


@triton.jit
def _add_up(parts, out, count, size, TILE: tl.constexpr):
    at = tl.program_id(0) * TILE + tl.arange(0, TILE)
    total = tl.zeros((TILE,), tl.float32)
    for part in range(count):
        total += tl.load(parts + part * size + at, mask=at < size, other=0.0)
    tl.store(out + at, total, mask=at < size)


def linear_int8(x: torch.Tensor, values: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """x (rows <= 16, inputs) times values int8 (outputs, inputs), scale float32 (outputs,): float32 (rows, outputs)."""
    rows, inputs = _checked(x)
    outputs = values.shape[0]
    part, parts = _cut(outputs, inputs, _STEP)
    out = torch.empty(parts, rows, outputs, dtype=torch.float32, device=x.device)
    grid = (triton.cdiv(outputs, _TILE), parts)
    _int8[grid](x, values, scale, out, rows, outputs, inputs, part, TILE=_TILE, STEP=_STEP, IN=_operand(x))
    return _summed(out)


def linear_int4(x: torch.Tensor, packed: torch.Tensor, scale: torch.Tensor, offset: torch.Tensor) -> torch.Tensor:
    """x (rows <= 16, inputs) times packed uint8 (outputs, groups, 16), scale and offset float16 (outputs, groups):
    float32 (rows, outputs). A weight is its four bits times the scale, plus the offset."""
    rows, inputs = _checked(x)
    outputs, groups = scale.shape
    step = _STEP // 2
    part, parts = _cut(outputs, groups * GROUP // 2, step)
    out = torch.empty(parts, rows, outputs, dtype=torch.float32, device=x.device)
    grid = (triton.cdiv(outputs, _TILE), parts)
    _int4[grid](
        x, packed, scale, offset, out, rows, outputs, inputs, groups, part, TILE=_TILE, STEP=step, IN=_operand(x)
    )
    return _summed(out)


def _checked(x: torch.Tensor) -> tuple[int, int]:
    rows, inputs = x.shape
    if rows > ROWS or not x.is_contiguous():
        raise ValueError(f"{rows} rows, contiguous {x.is_contiguous()}, where at most {ROWS} contiguous ones can pass")
    return rows, inputs


def _cut(outputs: int, length: int, step: int) -> tuple[int, int]:
    """The length of a part, whole steps, and how many there are: by the weights' shape alone."""
    steps = triton.cdiv(length, step)
    wanted = min(triton.cdiv(_PROGRAMS, triton.cdiv(outputs, _TILE)), max(steps // _LEAST_STEPS, 1))
    own = triton.cdiv(steps, wanted)
    return own * step, triton.cdiv(steps, own)


def _summed(parts: torch.Tensor) -> torch.Tensor:
    if parts.shape[0] == 1:
        return parts[0]
    out = torch.empty_like(parts[0])
    _add_up[(triton.cdiv(out.numel(), 512),)](parts, out, parts.shape[0], out.numel(), TILE=512)
    return out


def _operand(x: torch.Tensor) -> tl.dtype:
    """What both sides are multiplied as. Triton's interpreter cannot multiply bfloat16; float32 gives the same."""
    if x.dtype == torch.bfloat16:
        return tl.float32 if x.device.type == "cpu" else tl.bfloat16
    return {torch.float16: tl.float16, torch.float32: tl.float32}[x.dtype]
