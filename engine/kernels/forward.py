"""The whole decoder in one call without the GIL: rows of tokens in, logits out, K and V written on the way."""

from typing import NamedTuple

import numpy as np

from engine.kernels.attend import attend, join_spans
from engine.kernels.compiled import njit
from engine.kernels.emit import LANES
from engine.kernels.linear import gated, linear, linear_add
from engine.kernels.norm import rms_norm
from engine.kernels.share import APART
from engine.kernels.sizes import compiled_in
from engine.kernels.store import store

PASSES = 5
"""Of a layer that the workers share by counters: three projections, attention, the gated product."""


def counter_values(layers: int) -> int:
    """int64 values that a call's passes count in, the head's among them."""
    return (layers * PASSES + 1) * APART


class Shape(NamedTuple):
    """Sizes as the kernels use them: all but `dim`, `hidden` and `vocab` padded to multiples of 16."""

    layers: int
    hidden: int
    hidden_padded: int
    inner: int
    heads: int
    kv_heads: int
    dim: int
    padded: int
    vocab_padded: int
    block_size: int
    eps: np.float32


def attention_sizes(shape: Shape) -> np.ndarray:
    """What `attend` has compiled in."""
    return compiled_in(dim=shape.dim, padded=shape.padded, group=shape.heads // shape.kv_heads, block=shape.block_size)


class Weights(NamedTuple):
    """Flat arrays, layers one after the other; linear weights int8 or float32 as `linear` lays them out.

    qkv: (heads + 2 kv_heads) x padded outputs; q_norm, k_norm: empty where the model has none; embedding is laid out
    as the head is and is the head when they are tied.
    """

    embedding: np.ndarray
    embedding_scale: np.ndarray
    input_norm: np.ndarray
    qkv: np.ndarray
    qkv_scale: np.ndarray
    qkv_bias: np.ndarray
    q_norm: np.ndarray
    k_norm: np.ndarray
    out: np.ndarray
    out_scale: np.ndarray
    post_norm: np.ndarray
    gate_up: np.ndarray
    gate_up_scale: np.ndarray
    down: np.ndarray
    down_scale: np.ndarray
    final_norm: np.ndarray
    head: np.ndarray
    head_scale: np.ndarray
    no_bias: np.ndarray


class Scratch(NamedTuple):
    """Flat float32, for a fixed number of rows; `attend` is (workers, scratch_floats), `counters` int64, APART for each
    pass of a call; `wide` is what `linear` takes."""

    residual: np.ndarray
    normed: np.ndarray
    qkv: np.ndarray
    attended: np.ndarray
    inner: np.ndarray
    attend: np.ndarray
    wide: np.ndarray
    counters: np.ndarray


class Work(NamedTuple):
    """How the rows of one call are shared out.

    rows, ended: `row_blocks` of all rows and of those that get logits; units, splits, slots: see `attend` and
    `join_spans`.
    """

    rows: np.ndarray
    ended: np.ndarray
    units: np.ndarray
    splits: np.ndarray
    slots: np.ndarray


class Blocks(NamedTuple):
    """The arena as the kernels see it: values and scales as flat views of the same bytes, and their strides per block.

    scales: float32 at q8, an empty integer array otherwise.
    """

    values: np.ndarray
    values_stride: int
    scales: np.ndarray
    scales_offset: int
    scales_stride: int


@njit(nogil=True, cache=True)
def _embed(tokens, hidden, embedding, scale, out):
    """`hidden` is padded."""
    for row in range(tokens.size):
        token = tokens[row]
        at = (token // LANES) * hidden * LANES + token % LANES
        for k in range(hidden):
            out[row * hidden + k] = np.float32(embedding[at + k * LANES]) * scale[token]


@njit(nogil=True, cache=True)
def _normalise(x, first, rows, shape, weight, weight_at, out):
    for row in range(rows):
        rms_norm(
            x, (first + row) * shape.hidden_padded, shape.hidden_padded, shape.hidden, weight, weight_at, shape.eps,
            out, row * shape.hidden_padded,
        )  # fmt: skip


@njit(nogil=True, cache=True)
def forward(tokens, positions, turns, table, work, cos, sin, shape, sizes, weights, scratch, blocks, first, logits):
    """Run the rows through all layers and write logits (rows, vocab_padded), flat, of the rows from `first` on.

    tokens, positions, turns (row of `table`): int64 (n,); sizes: `attention_sizes` of the shape; logits may be empty,
    then the head is skipped.
    """
    hidden = shape.hidden_padded
    rows = tokens.size
    counters = scratch.counters
    counters[:] = 0
    width = (shape.heads + 2 * shape.kv_heads) * shape.padded
    out_width = shape.heads * shape.padded
    _embed(tokens, hidden, weights.embedding, weights.embedding_scale, scratch.residual)
    for layer in range(shape.layers):
        turn = layer * PASSES * APART
        _normalise(scratch.residual, 0, rows, shape, weights.input_norm, layer * hidden, scratch.normed)
        linear(
            scratch.normed, work.rows, hidden, weights.qkv, layer * width * hidden, weights.qkv_scale, weights.qkv_bias,
            layer * width, width, scratch.qkv, scratch.wide, counters, turn,
        )  # fmt: skip
        store(
            scratch.qkv, width, rows, positions, turns, table, shape.heads, shape.kv_heads, shape.dim,
            shape.padded, layer, shape.block_size, weights.q_norm, weights.k_norm, shape.eps, cos, sin, blocks.values,
            blocks.values_stride, blocks.scales, blocks.scales_offset, blocks.scales_stride,
        )  # fmt: skip
        attend(
            scratch.qkv, width, work.units, positions, table, shape.kv_heads, layer, sizes, blocks.values,
            blocks.values_stride, blocks.scales, blocks.scales_offset, blocks.scales_stride, scratch.attend, work.slots,
            scratch.attended, counters, turn + APART,
        )  # fmt: skip
        join_spans(work.splits, shape.heads, shape.padded, work.slots, scratch.attended)
        linear_add(
            scratch.attended, work.rows, out_width, weights.out, layer * hidden * out_width, weights.out_scale,
            layer * hidden, hidden, scratch.residual, scratch.wide, counters, turn + 2 * APART,
        )  # fmt: skip
        _normalise(scratch.residual, 0, rows, shape, weights.post_norm, layer * hidden, scratch.normed)
        gated(
            scratch.normed, work.rows, hidden, weights.gate_up, layer * 2 * shape.inner * hidden, weights.gate_up_scale,
            layer * 2 * shape.inner, shape.inner, scratch.inner, scratch.wide, counters, turn + 3 * APART,
        )  # fmt: skip
        linear_add(
            scratch.inner, work.rows, shape.inner, weights.down, layer * hidden * shape.inner, weights.down_scale,
            layer * hidden, hidden, scratch.residual, scratch.wide, counters, turn + 4 * APART,
        )  # fmt: skip
    if logits.size > 0:
        _normalise(scratch.residual, first, rows - first, shape, weights.final_norm, 0, scratch.normed)
        linear(
            scratch.normed, work.ended, hidden, weights.head, 0, weights.head_scale, weights.no_bias, 0,
            shape.vocab_padded, logits, scratch.wide, counters, shape.layers * PASSES * APART,
        )  # fmt: skip
