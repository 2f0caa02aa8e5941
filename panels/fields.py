"""A figure to play with: a slider over usual values with a number field beside it for any other. What the field cannot
take is refused beside it in one sentence, and the last good value stays in force.

Values are kept apart from the widgets, whose own state Streamlit drops when its page is left. A browser that has not
yet drawn a new value reports the old one as its user's: so when the one of a figure's widgets is used the other is
shown anew, and what the browser still says of the old one concerns nobody (see following.py).

A run that another one overtakes never reaches the browser, and Streamlit takes for said what it said there: a widget
that is told its value once would begin empty or at its least. So the slider has its value as its default, in every run.
An empty default is what lets a field be emptied: it is told its value until a run has come to its end.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import streamlit as st

from engine.errors import BadField
from panels import following
from panels.whole import whole

Check = Callable[[object], float]
WIDTHS = (3, 2)
"""Of the slider and of the number field beside it."""


@dataclass(slots=True)
class _Figure:
    """`slider`, `field`: how often each was shown anew; `bad`: why what the field holds is refused; `told`: which
    showing of the field is known to have reached the browser."""

    value: float
    slider: int = 0
    field: int = 0
    bad: str = ""
    told: int | None = None


def kept(key: str, value: float) -> float:
    """The figure's value in this tab; `value` until the user has changed it."""
    return _figure(key, value).value


def put(key: str, value: float) -> None:
    """Set the figure, its slider and its field, as a new card's defaults do."""
    found = _figure(key, value)
    found.value, found.bad = value, ""
    found.slider += 1
    found.field += 1


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
    found = _figure(key, value)
    now = found.value
    slider, field = _widget("slider", key, found.slider), _widget("field", key, found.field)
    shown = int(now) if isinstance(step, int) else float(now)
    options = offered(stops, shown)
    if field not in st.session_state:
        found.told, found.bad = None, ""
    if found.told != found.field and not found.bad:
        st.session_state[field] = float(now)
    # As large as the labels of other widgets.
    st.markdown(f":small[{label}{f', {unit}' if unit else ''}]", help=hint)
    left, right = st.columns(WIDTHS, gap="small", vertical_alignment="center")
    with left:
        st.select_slider(
            label, options, value=shown, key=slider, label_visibility="collapsed", format_func=_said, on_change=_slid,
            args=(key, found.slider),
        )  # fmt: skip
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
            args=(key, found.field, check),
        )
    if below:
        with st.columns(WIDTHS, gap="small")[0]:
            below(options)
    said = st.container()
    if found.bad:
        said.markdown(f":small[:red[{found.bad}]]")
    return now


def told() -> None:
    """At the end of a page that draws figures: what they show is on its way to the browser."""
    for found in st.session_state.values():
        if isinstance(found, _Figure):
            found.told = found.field


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


@whole
def _slid(key: str, shown: int) -> None:
    found = _figure(key)
    if shown == found.slider:
        found.value, found.bad = st.session_state[_widget("slider", key, shown)], ""
        found.field += 1


@whole
def _typed(key: str, shown: int, check: Check) -> None:
    found = _figure(key)
    typed = st.session_state[_widget("field", key, shown)]
    if shown != found.field or (typed is None and found.told != shown):
        return
    found.told = shown
    try:
        found.value, found.bad = check(typed), ""
        found.slider += 1
    except BadField as refusal:
        found.bad = str(refusal)


def _said(value: float) -> str:
    """Whole values in full, others in four digits."""
    return f"{value:,.0f}" if value == int(value) or value >= 1000 else f"{value:.4g}"


def _figure(key: str, value: float = 0.0) -> _Figure:
    found: _Figure = st.session_state.setdefault(f"figure_{key}", _Figure(value))
    return found


def _widget(part: str, key: str, shown: int) -> str:
    return f"figure_{part}_{key}_{following.session_word()}_{shown}"
