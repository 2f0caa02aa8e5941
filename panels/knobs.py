"""The sidebar's knobs. A widget shows the engine's value and sends only what its user has just moved (following.py), at
once or, where he wants a preview first, when he applies it; a value refused at once falls back to the engine's with the
refusal's sentence."""

import math
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache
from typing import Any

import streamlit as st

from engine.control import Control
from engine.knob_words import unit, value_of
from engine.knobs import LABELS, Knobs
from engine.policies import known_parameter, parameters, policies, refused_policies
from engine.snapshot import Snapshot
from panels import effect, following, preview_box, tab
from panels.asking import Answer, outcome
from panels.plain import plain
from panels.preview_words import in_unit
from panels.units import MIB, MISSING


@dataclass(frozen=True, slots=True)
class Knob:
    """`to_widget` and `to_engine` translate between the engine's value and what the widget holds."""

    name: str
    hint: str
    to_widget: Callable[[Any], Any]
    to_engine: Callable[[Any], Any]

    @property
    def label(self) -> str:
        """The engine's word for it, and the unit where neither the widget nor the hint has it."""
        own = known_parameter(self.name)
        word, shown_in = (own.label if own else LABELS[self.name]), unit(self.name)
        there = not shown_in or (own is None and shown_in in ("%", "tok"))
        return word if there else f"{word}, {shown_in}"

    @property
    def widget(self) -> str:
        return f"knob_{self.name}"


def _percent(value: float) -> int:
    return round(value * 100)


def _from_percent(value: int) -> float:
    return value / 100


def _mib(value: int) -> int:
    return round(value / MIB)


def _from_mib(value: int) -> int:
    return int(value) * MIB


KNOBS = {
    knob.name: knob
    for knob in (
        Knob("kv_dtype", "The arena is converted in place at the next token boundary.", str, str),
        Knob(
            "high_watermark",
            "Share of the arena that the next step may need; above it paused turns leave.",
            _percent,
            _from_percent,
        ),
        Knob(
            "low_watermark",
            "Share of the arena down to which paused turns leave.",
            _percent,
            _from_percent,
        ),
        Knob("policy", "Decides who stays, who is swapped and who is dropped.", str, str),
        Knob("max_running", "Running slots: how many turns decode together.", int, int),
        Knob("prefill_chunk", "Prompt tokens computed beside one decode step.", int, int),
        Knob(
            "long_turn_tokens",
            "A paused turn of this many tokens leaves already above the low watermark.",
            int,
            int,
        ),
        Knob("min_quantum_s", "A resumed turn is not preempted sooner than this.", float, float),
        Knob(
            "host_pool_bytes",
            "Pinned host memory that holds parked turns.",
            _mib,
            _from_mib,
        ),
        Knob("overlap_copies", "Copies to and from the host pool go on beside the steps.", bool, bool),
    )
}
NUMBERS: tuple[tuple[tuple[str, float, float, float], ...], ...] = (
    (("max_running", 1, 64, 1), ("min_quantum_s", 0.0, 600.0, 0.05)),
    # A column holds no five digits beside its buttons.
    (("long_turn_tokens", 1, 10_000_000, 128),),
    (("prefill_chunk", 16, 16_384, 32),),
    (("host_pool_bytes", 0, (1 << 44) // MIB, 64),),
)


@cache
def known_knobs() -> Mapping[str, Knob]:
    """With those of the tier policies, each by POLICY.NAME."""
    own = {
        name: Knob(name, f"Of the tier policy {name.partition('.')[0]}: {one.low:g} to {one.high:g}.", float, float)
        for name, one in parameters().items()
    }
    return {**KNOBS, **own}


def send(control: Control, name: str) -> None:
    """The user has moved one widget: ask for that value, and no other; with a preview first, keep it as a draft."""
    knob = known_knobs()[name]
    current = value_of(control.snapshot.knobs, name)
    moved = following.moved(knob.widget)
    if moved is None or moved == knob.to_widget(current):
        # A widget that was just put back sends its own value, which may be rounded; a refusal above it stays.
        if following.drafted(knob.widget) is not None:
            following.discard(knob.widget, current)
    elif preview_box.wanted():
        following.draft(knob.widget, knob.to_engine(moved))
    else:
        _ask(control, {name: knob.to_engine(moved)})


def apply(control: Control) -> None:
    """All drafts as one change."""
    changes = drafts()
    if changes:
        _ask(control, changes)


def discard(control: Control) -> None:
    for name in drafts():
        following.discard(known_knobs()[name].widget, value_of(control.snapshot.knobs, name))


def drafts() -> dict[str, object]:
    """What this tab has moved and not applied, in the engine's units."""
    held = {name: following.drafted(knob.widget) for name, knob in known_knobs().items()}
    return {name: value for name, value in held.items() if value is not None}


def shown(control: Control, snapshot: Snapshot) -> Hashable | None:
    """All that `render` draws from; None while a draft's preview is asked for, or an answer is to come."""
    if not following.settled(knob.widget for knob in known_knobs().values()):
        return None
    return snapshot.knobs, snapshot.policies, _dtypes(snapshot), snapshot.bands is None, _told(control)


def render(control: Control, snapshot: Snapshot) -> None:
    """The widgets, inside a fragment in the sidebar that runs when `shown` is another."""
    _late_answers(control)
    off = snapshot.bands is None
    preview_box.choice(lambda: discard(control))
    # What marks a draft comes last in the container of its widget, so that it moves nothing else.
    with st.container(gap=None):
        _choice(control, snapshot, "kv_dtype", _dtypes(snapshot), off)
    for name in ("high_watermark", "low_watermark"):
        with st.container(gap=None):
            _widget(
                control, snapshot, name, st.slider, min_value=5, max_value=100, step=1, format="%d %%", disabled=off
            )
    with st.container(gap=None):
        _choice(control, snapshot, "policy", tuple(dict.fromkeys((*snapshot.policies, snapshot.knobs.policy))), off)
    _of_policy(control, snapshot, off)
    for row in NUMBERS:
        for column, (name, low, high, step) in zip(st.columns(len(row)), row, strict=True):
            with column:
                _widget(
                    control, snapshot, name, st.number_input, min_value=low, max_value=high, step=step, disabled=off
                )
    with st.container(gap=None):
        _widget(control, snapshot, "overlap_copies", st.toggle, disabled=off)
    held = drafts()
    # Two places, one of them empty: a sentence where a box stood would be taken for one of its parts.
    said, previewed = st.container(), st.container()
    if held:
        with previewed:
            preview_box.render(control, snapshot, held, lambda: apply(control), lambda: discard(control))
    else:
        with said:
            _say(control)


def _of_policy(control: Control, snapshot: Snapshot, off: bool) -> None:
    """What the chosen policy does, and its own knobs; also those of one that is not applied yet."""
    chosen = str(drafts().get("policy", snapshot.knobs.policy))
    policy = policies().get(chosen)
    with st.container(gap="xsmall"):
        for line in (policy.title if policy else "", *refused_policies()):
            st.markdown(f":small[{plain(line)}]")
        for one in policy.parameters if policy else ():
            step = 10.0 ** max(0, math.floor(math.log10(one.default or 1.0)) - 1)
            with st.container(gap=None):
                _widget(
                    control, snapshot, f"{chosen}.{one.name}", st.number_input, min_value=one.low, max_value=one.high,
                    step=step, format="%g", disabled=off,
                )  # fmt: skip


def _say(control: Control) -> None:
    told = _told(control)
    if told.tone == "bad":
        st.error(told.text)
    else:
        st.caption(plain(told.text))


def _told(control: Control) -> Answer:
    """What became of the last change."""
    return effect.told(st.session_state.get("knobs_note"), control.events(), tab.author())


def _dtypes(snapshot: Snapshot) -> tuple[str, ...]:
    offered = [str(dtype) for dtype, _ in snapshot.paused_fit_by_dtype]
    return tuple(dict.fromkeys((*offered, str(snapshot.knobs.kv_dtype))))


def _mark(control: Control, snapshot: Snapshot, name: str) -> None:
    """Beside a draft stands what the engine has."""
    if following.drafted(known_knobs()[name].widget) is not None:
        engine = plain(in_unit(name, value_of(snapshot.knobs, name)))
        last = effect.latest(control.events(), name)
        by = effect.by_other(last.author if last else None, tab.author())
        # Not a caption: its faded letters would be too faint in this colour.
        st.markdown(f":small[:orange[not applied], engine: {engine}{by}]")


def _widget(control: Control, snapshot: Snapshot, name: str, make: Callable[..., Any], **options: Any) -> None:
    knob = known_knobs()[name]
    key, value = following.follow(knob.widget, value_of(snapshot.knobs, name), snapshot.at)
    # Until a body has sized its own pool there is none to show.
    shown = None if name == "host_pool_bytes" and not value and snapshot.bands is None else knob.to_widget(value)
    if shown is None:
        options["placeholder"] = MISSING
    label = knob.label.replace(" of this machine", ", modelled") if snapshot.twin else knob.label
    make(label, value=shown, key=key, help=knob.hint, on_change=send, args=(control, name), **options)
    _mark(control, snapshot, name)


def _choice(control: Control, snapshot: Snapshot, name: str, options: tuple[str, ...], off: bool) -> None:
    knob = known_knobs()[name]
    key, value = following.follow(knob.widget, value_of(snapshot.knobs, name), snapshot.at)
    common: dict[str, Any] = {
        "key": key,
        "help": knob.hint,
        "on_change": send,
        "args": (control, name),
        "disabled": off,
    }
    if name == "kv_dtype":
        st.segmented_control(knob.label, options, default=str(value), required=True, width="stretch", **common)
    else:
        st.selectbox(knob.label, options, index=options.index(value) if value in options else 0, **common)
    _mark(control, snapshot, name)


def _ask(control: Control, changes: dict[str, object]) -> None:
    names = tuple(changes)
    future = control.set_knobs(changes, author=tab.author())
    _take(control, names, outcome(future, _labels(names)), future)


def _take(control: Control, names: tuple[str, ...], answer: Answer, future: "Future[Knobs]") -> None:
    st.session_state.knobs_note = effect.note(answer, control.events())
    for name in names:
        widget = known_knobs()[name].widget
        if answer.tone == "wait":
            following.ask(widget, future)
        elif answer.tone == "good":
            following.settle(widget, value_of(future.result(), name), control.snapshot.at)
        else:
            following.refuse(widget, value_of(control.snapshot.knobs, name))


def _late_answers(control: Control) -> None:
    late: dict[Future[Knobs], list[str]] = {}
    for knob in known_knobs().values():
        future = following.answered(knob.widget)
        if future is not None:
            late.setdefault(future, []).append(knob.name)
    for future, found in late.items():
        names = tuple(found)
        _take(control, names, outcome(future, _labels(names)), future)


def _labels(names: tuple[str, ...]) -> str:
    return ", ".join(known_knobs()[name].label for name in names)
