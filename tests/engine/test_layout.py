"""A turn's bytes and the context that fits: each is the other's inverse, for any mix of windows and states."""

from hypothesis import given
from hypothesis import strategies as st

from engine.geometry import KVGeometry
from engine.layout import LayerGroup, Store, TurnLayout, uniform

STORES = st.sampled_from(list(Store))
GROUPS = st.builds(
    LayerGroup,
    layers=st.integers(1, 64),
    heads=st.integers(1, 32),
    widths=st.sampled_from([(64, 64), (128, 128), (576,), (192, 128)]),
    window=st.none() | st.integers(1, 10_000),
)
LAYOUTS = st.builds(
    TurnLayout,
    name=st.just("any"),
    groups=st.lists(GROUPS, max_size=4).map(tuple),
    state_bytes=st.integers(0, 10**8),
)
TOKENS = st.integers(0, 200_000)


@given(LAYOUTS, STORES, TOKENS)
def test_a_turn_fits_into_its_own_bytes_and_the_next_token_does_not(
    layout: TurnLayout, store: Store, tokens: int
) -> None:
    nbytes = layout.turn_bytes(tokens, store)
    longest = layout.context_in(nbytes, store)
    if longest is None:
        # Nothing grows any more: whatever the context, it fits.
        assert layout.turn_bytes(10**9, store) <= nbytes
    else:
        assert longest >= tokens
        assert layout.turn_bytes(longest, store) == nbytes
        assert layout.turn_bytes(longest + 1, store) > nbytes


@given(LAYOUTS, STORES, st.integers(-(10**6), 10**12) | st.floats(0, 1e12))
def test_the_context_is_the_longest_that_fits(layout: TurnLayout, store: Store, nbytes: float) -> None:
    longest = layout.context_in(nbytes, store)
    if longest is None:
        assert layout.turn_bytes(10**9, store) <= nbytes
    else:
        assert layout.turn_bytes(longest, store) <= nbytes or longest == 0
        assert layout.turn_bytes(longest + 1, store) > nbytes


@given(LAYOUTS, STORES, TOKENS, st.integers(0, 5_000))
def test_more_context_never_takes_less(layout: TurnLayout, store: Store, tokens: int, more: int) -> None:
    assert layout.turn_bytes(tokens + more, store) >= layout.turn_bytes(tokens, store)
    grown = layout.turn_bytes(tokens + more, store) - layout.turn_bytes(tokens, store)
    assert grown <= more * layout.bytes_per_token(store)


@given(LAYOUTS, STORES, st.lists(st.integers(0, 10**10), min_size=2, max_size=2).map(sorted))
def test_more_bytes_never_hold_less(layout: TurnLayout, store: Store, amounts: list[int]) -> None:
    less, more = (layout.context_in(nbytes, store) for nbytes in amounts)
    assert more is None or (less is not None and less <= more)


@given(LAYOUTS, TOKENS)
def test_q8_is_half_and_its_scales(layout: TurnLayout, tokens: int) -> None:
    """The state is as large in every precision of KV."""
    vectors = sum(g.layers * g.heads * len(g.widths) * g.held(tokens) for g in layout.groups)
    half = layout.kv_bytes(tokens, Store.FP16) // 2
    assert layout.kv_bytes(tokens, Store.Q8_HALF) == half
    assert layout.kv_bytes(tokens, Store.Q8) == half + 4 * vectors
    for store in Store:
        assert layout.turn_bytes(tokens, store) == layout.kv_bytes(tokens, store) + layout.state_bytes


@given(LAYOUTS, STORES, TOKENS)
def test_layers_one_by_one_take_what_their_groups_take(layout: TurnLayout, store: Store, tokens: int) -> None:
    singles = tuple(
        LayerGroup(1, group.heads, group.widths, group.window) for group in layout.groups for _ in range(group.layers)
    )
    split = TurnLayout("split", singles, layout.state_bytes)
    assert split.turn_bytes(tokens, store) == layout.turn_bytes(tokens, store)
    assert split.context_in(10**9, store) == layout.context_in(10**9, store)


def test_windows_one_after_the_other() -> None:
    """Two layers of 4 bytes a token: one for 10 tokens, one for 20, one for all; beside a state of 100 bytes."""
    groups = tuple(LayerGroup(1, 1, (2,), window) for window in (10, 20, None))
    layout = TurnLayout("steps", groups, 100)
    assert layout.turn_bytes(10, Store.FP16) == 100 + 3 * 10 * 4
    assert layout.turn_bytes(20, Store.FP16) == 100 + (10 + 20 + 20) * 4
    assert layout.turn_bytes(50, Store.FP16) == 100 + (10 + 20 + 50) * 4
    assert layout.context_in(99, Store.FP16) == 0
    assert layout.context_in(100 + 3 * 10 * 4 - 1, Store.FP16) == 9
    assert layout.context_in(100 + 3 * 10 * 4, Store.FP16) == 10
    assert layout.context_in(100 + (10 + 11 + 11) * 4, Store.FP16) == 11
    assert layout.context_in(100 + (10 + 20 + 50) * 4, Store.FP16) == 50


def test_uniform_layers() -> None:
    layout = uniform("x", KVGeometry(40, 8, 128))
    assert layout.bytes_per_token(Store.FP16) == 2 * 40 * 8 * 128 * 2 == 163_840
