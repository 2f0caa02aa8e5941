"""The effect of a change in words: six figures with their spread, and over which spans they were measured. Pure."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from engine.effect import MOST_S, Compared, Effect, Figure, Stage, Verdict
from engine.snapshot import Bands
from engine.words import counted
from panels.scale import Scale
from panels.units import MISSING, short, unit_name
from panels.units import seconds as time_words

Tone = Literal["better", "worse", "plain"]
HOW = "Medians and counts; in small print the middle half (p25–p75), of counts per sixth of the span."
WORDS: dict[Tone, str] = {"better": "✓ better", "worse": "✗ worse", "plain": ""}
UNDECIDED = {
    Verdict.SAME: "= the same",
    Verdict.WITHIN: "≈ within noise",
    Verdict.UNSURE: "too short to tell",
    Verdict.NONE: "not measured",
}


@dataclass(frozen=True, slots=True)
class Cell:
    """`value`: '5.23 → 7.10'; `spread`: the middle halves of both spans; `verdict` begins with a symbol, so that
    `tone` is not told by colour alone; `said`: all of it in a sentence."""

    key: str
    label: str
    value: str
    unit: str
    spread: str
    verdict: str
    tone: Tone
    hint: str
    said: str


def cells(shown: Effect, scale: Scale, bands: Bands | None) -> tuple[Cell, ...]:
    """Bytes at `scale`, in the unit of the charts of `bands`."""
    unit = scale.unit(bands)
    ms = not _largest(shown.itl) >= 1.0
    return (
        _cell("headroom", "Headroom", unit_name(unit), shown.headroom, lambda b: short(scale.kv(b) / unit), more=True,
              hint=f"Ceiling minus what is used; median of the samples. {scale.label}."),
        _cell("paused_fit", "Paused that fit", "", shown.paused_fit, lambda n: f"{n:g}", more=True,
              hint="How many more average turns could stay paused in the arena; median of the samples."),
        _cell("itl", "ITL", "ms" if ms else "s", shown.itl, lambda s: short(s * 1e3 if ms else s), more=False,
              hint="Inter-token latency: median of all tokens of the span, each between two tokens of a turn that kept "
              "its slot. A latency that began before the change counts on neither side."),
        _cell("decode", "Decode", "tok/s", shown.decode, short, more=True,
              hint="Tokens generated per second by all turns together; median of the span's seconds."),
        _cell("swaps", "Swaps, out + in", "", shown.swaps, lambda n: f"{n:,.0f}", more=False,
              hint="Swaps out and in, a count over the span."),
        _cell("recomputed", "Recomputed", "tok", shown.recomputed, lambda n: f"{n:,.0f}", more=False,
              hint="Tokens whose KV had been dropped and was computed again, a count over the span."),
    )  # fmt: skip


def note(shown: Effect) -> str:
    """Over which spans, and why they are no longer."""
    match shown.stage:
        case Stage.NO_BEFORE:
            since = f"“{shown.previous.text}”" if shown.previous else "the session's start"
            return f"Nothing to compare with: less than a second lies between {since} and this change."
        case Stage.NO_AFTER:
            return "Nothing to compare with: the next change came within a second."
        case Stage.GONE:
            return "Too long ago to be measured now: the samples of that time are no longer kept whole."
    if not shown.after_s:
        return "Measuring; the first figures come after a second."
    spans = f"{shown.before_s:.0f} s before and {shown.after_s:.0f} s after"
    spans += " so far" if shown.stage is Stage.GROWING else _limit(shown)
    return f"{spans}. {HOW}"


def took(shown: Effect) -> str:
    """'took 41.0 ms, 2 turns left for it'."""
    change = shown.change
    words = f"took {time_words(change.seconds)}" if change.seconds else "at once"
    if not shown.left:
        return words
    return f"{words}, {counted(shown.left, 'turn')} moved for it"


def _limit(shown: Effect) -> str:
    if shown.after_s > MOST_S - 1:
        return ""
    if shown.next and shown.next.at - shown.change.at < shown.after_s + 1.5 + (shown.next.seconds or 0.0):
        return f", until {shown.next.text}"
    return f", since {shown.previous.text}" if shown.previous else ", since the session's start"


def _cell(
    key: str, label: str, unit: str, compared: Compared, write: Callable[[float], str], *, more: bool, hint: str
) -> Cell:
    """`more`: is better."""
    before, after = compared.before, compared.after
    value = MISSING if before is None and after is None else f"{_value(before, write)} → {_value(after, write)}"
    tone = _tone(compared.verdict, more)
    verdict = WORDS[tone] or UNDECIDED[compared.verdict]
    spread = _spread(compared, write)
    sides = f"before {_value(before, write)}, after {_value(after, write)} {unit}".strip()
    return Cell(key, label, value, unit, spread, verdict, tone, hint,
                f"{label}: {sides}; {verdict.lstrip('✓✗≈= ')}")  # fmt: skip


def _tone(verdict: Verdict, more: bool) -> Tone:
    if verdict not in (Verdict.UP, Verdict.DOWN):
        return "plain"
    return "better" if (verdict is Verdict.UP) == more else "worse"


def _value(figure: Figure | None, write: Callable[[float], str]) -> str:
    return MISSING if figure is None else write(figure.value)


def _spread(compared: Compared, write: Callable[[float], str]) -> str:
    """Empty where neither side has one."""
    sides = (compared.before, compared.after)
    if all(figure is None or figure.low is None for figure in sides):
        return ""
    parts = max(figure.parts for figure in sides if figure is not None)
    halves = " → ".join(_half(figure, write) for figure in sides)
    return halves if parts == 1 else f"{halves} per sixth"


def _half(figure: Figure | None, write: Callable[[float], str]) -> str:
    if figure is None or figure.low is None or figure.high is None:
        return MISSING
    low, high = write(figure.low), write(figure.high)
    return low if low == high else f"{low}–{high}"


def _largest(compared: Compared) -> float:
    return max((f.value for f in (compared.before, compared.after) if f is not None), default=math.nan)
