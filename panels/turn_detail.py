"""The turn that a tab has open: asked of the engine at each refresh while it lives, and nothing when none is open."""

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

import streamlit as st

from engine.control import Control
from engine.errors import ParkdeckError
from engine.history import Paid, Span
from engine.models.loaded import ServedModel
from engine.snapshot import Snapshot, TurnDetail
from engine.turn import Phase, Tier, TurnId
from engine.words import counted
from panels.scale import Scale
from panels.units import MISSING, clock, seconds, size
from panels.whole import whole

PATIENCE_S = 0.25
TEXT_CHARACTERS = 2_000
PROMPT_CHARACTERS = 400
KEY = "turn_opened"


@dataclass(frozen=True, slots=True)
class Opened:
    """`session`: the engine's life that the turn belongs to; `asked`: the answer under way; `over`: why there will be
    no more, one sentence."""

    session: str
    turn: TurnId
    asked: "Future[TurnDetail] | None" = None
    detail: TurnDetail | None = None
    over: str = ""


@whole
def choose(control: Control, turn: int | None) -> None:
    """Open a turn in this tab, or close the one that is."""
    if turn is None:
        st.session_state.pop(KEY, None)
    else:
        st.session_state[KEY] = Opened(control.snapshot.session, TurnId(int(turn)))


def shown(control: Control, snapshot: Snapshot, scale: Scale) -> dict[str, Any] | None:
    """What the open turn's pane says now; None when none is open."""
    opened: Opened | None = st.session_state.get(KEY)
    if opened is None:
        return None
    opened = st.session_state[KEY] = follow(opened, control, snapshot.session)
    return pane(opened, scale, control.model)


def follow(opened: Opened, control: Control, session: str) -> Opened:
    """Ask again unless the turn is over. An engine in a long step is waited for only a moment, and asked once."""
    if opened.over or (opened.detail is not None and opened.detail.ended):
        return opened
    if session != opened.session:
        return replace(opened, asked=None, over="The engine has been started anew since.")
    asked = opened.asked or control.turn_detail(opened.turn)
    try:
        return replace(opened, asked=None, detail=asked.result(timeout=PATIENCE_S))
    except TimeoutError:
        return replace(opened, asked=asked)
    except ParkdeckError as refusal:
        return replace(opened, asked=None, over=str(refusal))


def pane(opened: Opened, scale: Scale, model: ServedModel | None) -> dict[str, Any]:
    """The pane in words. Bytes at `scale`, times as they passed on this machine."""
    detail = opened.detail
    if detail is None:
        return {"id": opened.turn, "title": f"turn {opened.turn}", "over": opened.over or "Asking the engine."}
    row = detail.row
    passed = "by the modelled clock" if scale.modelled else "on this machine"
    return {
        "id": opened.turn,
        "title": f"{row.agent} · turn {row.id}",
        "phase": row.phase.value,
        "tier": row.tier.value,
        "over": detail.ended or opened.over,
        "facts": facts(detail, scale),
        "costs": costs(detail, scale),
        "spans": [_span(span) for span in detail.spans],
        "note": f"Bytes: {scale.short}. Times as they passed {passed}.",
        "prompt": _end_of(detail.prompt_end, detail.prompt_tokens, model, PROMPT_CHARACTERS),
        "text": _end_of(detail.text_end, detail.text_tokens, model, TEXT_CHARACTERS),
        "no_text": "" if model else "n/a: this engine has no tokenizer",
    }


def facts(detail: TurnDetail, scale: Scale) -> list[tuple[str, str]]:
    row, at = detail.row, detail.at_utc
    phase = _phase(row.phase, row.tool, row.held)
    before = "before its end" if row.phase.ended else "ago"
    after = f"{detail.prompt_tokens:,} prompt + {counted(detail.text_tokens, 'token')} since"
    return [
        ("priority", row.priority.label),
        ("phase", f"{phase} at {clock(at)} UTC" if row.phase.ended else _since(phase, detail.phase_since_utc, at)),
        ("KV tier", MISSING if row.tier is Tier.NONE else _since(row.tier.value, detail.tier_since_utc, at)),
        ("tool", row.tool or "none"),
        ("context", f"{counted(row.context_tokens, 'token')}: {after}"),
        ("generated", counted(row.generated_tokens, "token")),
        ("KV here", size(scale.kv(row.kv_bytes))),
        ("host copy", size(scale.kv(row.host_bytes))),
        ("arrived", f"{clock(detail.arrived_utc)} UTC, {seconds(at - detail.arrived_utc)} {before}"),
    ]


def costs(detail: TurnDetail, scale: Scale) -> list[tuple[str, str]]:
    life = detail.at_utc - detail.arrived_utc
    again = detail.recomputed
    return [
        ("preempted", counted(detail.row.preemptions, "time") if detail.row.preemptions else "never"),
        ("swapped out", _moved(detail.swapped_out, scale)),
        ("swapped in", _moved(detail.swapped_in, scale)),
        ("recomputed", f"{counted(again.tokens, 'token')}, {seconds(again.seconds)}" if again.count else "never"),
        ("waited for a slot", _share(detail.queued_s, life)),
        ("blocked on tools", _share(detail.blocked_s, life)),
    ]


def _moved(paid: Paid, scale: Scale) -> str:
    if not paid.count:
        return "never"
    return f"{counted(paid.count, 'time')}, {size(scale.kv(paid.nbytes))}, {seconds(paid.seconds)}"


def _share(part: float, life: float) -> str:
    if part <= 0:
        return "never"
    return f"{seconds(part)}, {100 * part / life:.0f} % of its life" if life > 0 else seconds(part)


def _phase(phase: Phase, tool: str | None, held: bool) -> str:
    if phase is Phase.BLOCKED and tool:
        return f"blocked: {tool}"
    return f"{phase.value}, held" if held else phase.value


def _since(what: str, since: float, at: float) -> str:
    return f"{what}, since {clock(since)} UTC ({seconds(at - since)})"


def _span(span: Span) -> list[Any]:
    """Seconds, phase, tier, and the words of its line."""
    tier = "" if span.tier is Tier.NONE else span.tier.value
    words = [_phase(span.phase, span.tool, span.held), tier]
    return [
        round(span.seconds, 3),
        span.phase.value,
        span.tier.value,
        clock(span.start),
        seconds(span.seconds),
        " · ".join(word for word in words if word),
    ]


def _end_of(ids: Sequence[int], tokens: int, model: ServedModel | None, characters: int) -> str:
    """The last characters of a text of which `ids` are the last of `tokens` tokens; "…" before what is cut."""
    if model is None:
        return ""
    text = model.tokenizer.decode(ids, skip_special=False)
    cut = len(text) > characters or len(ids) < tokens
    # The first token may be the rest of a character.
    return "…" + text[-characters:].lstrip("\ufffd") if cut else text
