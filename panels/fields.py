"""A figure to play with: a slider over usual values with a number field beside it for any other. What the field cannot
take is refused beside it in one sentence, and the last good value stays in force.

Values are kept apart from the widgets, whose own state Streamlit drops when its page is left.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence

import streamlit as st

from engine.errors import BadField

Check = Callable[[object], float]
WIDTHS = (3, 2)
"""Of the slider and of the number field beside it."""
_KEPT, _BAD = "kept", "bad"


def kept(key: str, value: float) -> float:
    """The figure's value in this tab; `value` until the user has changed it."""
    found: float = st.session_state.setdefault(_name(_KEPT, key), value)
    return found


def put(key: str, value: float) -> None:
    """Set the figure, its slider and its field, as a new card's defaults do."""
    st.session_state[_name(_KEPT, key)] = value
    st.session_state.pop(_name(_BAD, key), None)
    for part in ("slider", "field"):
        st.session_state.pop(_name(part, key), None)


def figure(
    key: str,
    label: str,
    value: float,
    stops: Sequence[float],
    check: Check,
    *,
    unit: str = "",
    hint: str | None = None,
    step: float = 1,
    below: Callable[[Sequence[float]], None] | None = None,
) -> float:
    """Draws slider and field and returns the value in force. `check` returns a good value or raises BadField; `stops`
    are what the slider offers, the present value beside them; whole figures have an int `step`; `below` draws what
    stands right below the slider, as wide as it is, and is given what the slider offers."""
    now = kept(key, value)
    slider, field = _name("slider", key), _name("field", key)
    whole = isinstance(step, int)
    shown = int(now) if whole else float(now)
    options = offered(stops, shown)
    if st.session_state.get(slider) not in options:
        st.session_state[slider] = shown
    if field not in st.session_state:
        st.session_state[field] = float(now)
    st.markdown(f"{label}{f', {unit}' if unit else ''}", help=hint)
    left, right = st.columns(WIDTHS, gap="small", vertical_alignment="center")
    with left:
        st.select_slider(
            label, options, key=slider, label_visibility="collapsed", format_func=_said, on_change=_slid, args=(key,)
        )
    with right:
        st.number_input(
            f"{label}: number",
            key=field,
            value=None,
            # A field of whole numbers alone would cut 1.5 and 1e9 down to 1 by itself instead of having them refused.
            step=float(step),
            format="%.10g",
            label_visibility="collapsed",
            on_change=_typed,
            args=(key, check),
        )
    if below:
        with st.columns(WIDTHS, gap="small")[0]:
            below(options)
    said = st.container()
    if bad := st.session_state.get(_name(_BAD, key)):
        said.markdown(f":red[{bad}]")
    return now


def offered(stops: Sequence[float], now: float) -> list[float]:
    """What the slider offers: the usual values and the present one, by size."""
    return sorted({*stops, now})


def place(options: Sequence[float], value: float) -> float:
    """Where `value` lies along a slider over `options`, from 0 to 1; between two of them in proportion."""
    steps = len(options) - 1
    if steps < 1 or value <= options[0]:
        return 0.0
    if value >= options[-1]:
        return 1.0
    after = bisect_right(options, value)
    low, high = options[after - 1], options[after]
    return (after - 1 + (value - low) / (high - low)) / steps


def _slid(key: str) -> None:
    chosen = st.session_state[_name("slider", key)]
    st.session_state[_name(_KEPT, key)] = chosen
    st.session_state[_name("field", key)] = float(chosen)
    st.session_state.pop(_name(_BAD, key), None)


def _typed(key: str, check: Check) -> None:
    try:
        good = check(st.session_state[_name("field", key)])
    except BadField as refusal:
        st.session_state[_name(_BAD, key)] = str(refusal)
        return
    st.session_state[_name(_KEPT, key)] = good
    st.session_state.pop(_name(_BAD, key), None)
    st.session_state.pop(_name("slider", key), None)


def _said(value: float) -> str:
    """Whole values in full, others in four digits."""
    return f"{value:,.0f}" if value == int(value) or value >= 1000 else f"{value:.4g}"


def _name(part: str, key: str) -> str:
    return f"figure_{part}_{key}"
