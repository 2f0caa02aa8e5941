"""Attention of decode rows over the arena's blocks, against torch over a gathered copy in float32."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.backends.torch.kernel_checks import Heads, random_contexts, relative
from engine.backends.torch.ops import Contexts, TorchOps, TritonOps
from engine.backends.torch.planes import KVPlanes
from engine.geometry import KVDtype
from engine.kernels.gpu.attend import PART
from tests.engine.kernels.gpu.lab import DEVICE, normal

TOKENS = st.lists(st.sampled_from([1, 15, 16, 17, 300]), min_size=1, max_size=3).map(tuple)


@settings(max_examples=24)
@given(
    dim=st.sampled_from([64, 80, 128]),
    group=st.sampled_from([1, 3, 4]),
    kv_heads=st.integers(1, 2),
    tokens=TOKENS,
    dtype=st.sampled_from([KVDtype.FP32, KVDtype.FP16, KVDtype.Q8]),
    half=st.booleans(),
)
def test_as_torch_over_a_copy(
    dim: int, group: int, kv_heads: int, tokens: tuple[int, ...], dtype: KVDtype, half: bool
) -> None:
    planes, contexts = random_contexts(dtype, Heads(group * kv_heads, kv_heads, dim, 16), DEVICE, tokens)
    q = normal(len(tokens), group * kv_heads, dim).to(torch.float16 if half else torch.float32)
    found = TritonOps().attend(q, 1, contexts, planes)
    assert found.dtype == q.dtype
    assert found.shape == (len(tokens), group * kv_heads * dim)
    assert relative(found, TorchOps().attend(q.float(), 1, contexts, planes)) < (1e-3 if half else 1e-6)


@pytest.mark.parametrize("dtype", [KVDtype.FP16, KVDtype.Q8])
def test_a_row_has_the_same_bits_in_every_batch(dtype: KVDtype) -> None:
    """Alone it has as many parts as its own context needs, beside others as many as the longest."""
    tokens = (1, PART, 3, PART + 1, 3 * PART + 7)
    planes, contexts = random_contexts(dtype, Heads(3, 1, 64, 16), DEVICE, tokens)
    q = normal(len(tokens), 3, 64)
    every = TritonOps().attend(q, 1, contexts, planes)
    for row, count in enumerate(tokens):
        alone = Contexts(contexts.tables[row : row + 1], contexts.lengths[row : row + 1], (count,))
        assert torch.equal(TritonOps().attend(q[row : row + 1], 1, alone, planes)[0], every[row])


@pytest.mark.parametrize("dtype", [KVDtype.FP16, KVDtype.Q8])
def test_what_is_not_the_rows_own_does_not_matter(dtype: KVDtype) -> None:
    """Not a number everywhere else: other layers, other heads' rows behind the context, blocks of nobody."""
    tokens = (5, 33)
    planes, contexts = random_contexts(dtype, Heads(2, 1, 64, 16), DEVICE, tokens)
    q = normal(2, 2, 64)
    wanted = TritonOps().attend(q, 1, contexts, planes)
    poisoned(planes, contexts)
    assert torch.equal(TritonOps().attend(q, 1, contexts, planes), wanted)


def poisoned(planes: KVPlanes, contexts: Contexts) -> None:
    planes.values[:, 0] = 127 if planes.scales is not None else torch.nan
    if planes.scales is not None:
        planes.scales[:, 0] = torch.nan
    for row, count in enumerate(contexts.tokens):
        last = int(contexts.tables[row, (count - 1) // 16])
        for plane in (planes.values, planes.scales):
            if plane is not None:
                plane[last, 1, :, :, count % 16 :] = torch.nan if plane.is_floating_point() else 127


def test_zero_scales_are_zeros() -> None:
    """A token whose key and value are all 0 has scale 0 at q8: it takes its share of the weights and adds nothing."""
    planes, contexts = random_contexts(KVDtype.Q8, Heads(1, 1, 64, 16), DEVICE, (16,))
    block = contexts.tables[0, :1].long()
    zeros = torch.zeros(1, 1, 64, device=DEVICE)
    for slot in range(16):
        planes.write(1, block, torch.tensor([slot], device=DEVICE), zeros, zeros)
    assert planes.scales is not None
    assert (planes.scales[block, 1] == 0).all()
    q = normal(1, 1, 64)
    assert (TritonOps().attend(q, 1, contexts, planes) == 0).all()
    ones = torch.ones(1, 1, 64, device=DEVICE)
    planes.write(1, block, torch.tensor([3], device=DEVICE), zeros, ones)
    assert torch.allclose(TritonOps().attend(q, 1, contexts, planes), torch.tensor(1 / 16, device=DEVICE), atol=1e-6)


def test_large_scores_do_not_overflow() -> None:
    planes, contexts = random_contexts(KVDtype.FP16, Heads(2, 1, 64, 16), DEVICE, (40,))
    q = normal(1, 2, 64) * 1e4
    found = TritonOps().attend(q, 1, contexts, planes)
    assert relative(found, TorchOps().attend(q, 1, contexts, planes)) < 1e-6
