"""A preview in one line: what a change of knobs would do now."""

from collections.abc import Mapping, Sequence

from engine.knob_words import differing, label, unit, value_of
from engine.knobs import Knobs, figure
from engine.preview import Leaver, Preview
from engine.turn import Tier, TurnId
from engine.words import counted
from panels.units import seconds, size

NOTHING = "nothing moves now"


def sentence(preview: Preview, agents: Mapping[TurnId, str], average_tokens: int) -> str:
    """'High watermark 60 %: agent 3 and 2 more leave, 84 MiB to host, about 21 ms'."""
    return f"{change(preview.old, preview.new)}: {'; '.join(effects(preview, agents, average_tokens))}"


def effects(preview: Preview, agents: Mapping[TurnId, str], average_tokens: int) -> tuple[str, ...]:
    """What the change would do, in the order in which it matters. `agents`: turns' names; bytes and seconds are this
    machine's."""
    parts = [
        _leaving(preview, agents),
        _converting(preview),
        _one("loses its slot", "lose their slots", preview.lose_slot, agents),
        _one("fails", "fail", preview.fail, agents),
        _coming(preview, agents),
    ]
    told = [part for part in parts if part] or [NOTHING]
    if preview.new.kv_dtype is not preview.old.kv_dtype:
        told.append(f"then {counted(preview.fits(average_tokens), 'average paused turn')} fit")
    return tuple(told)


def change(old: Knobs, new: Knobs) -> str:
    """'High watermark 60 %, Slots 4'."""
    return ", ".join(valued(name, value_of(new, name)) for name in differing(old, new))


def valued(name: str, value: object) -> str:
    """'High watermark 60 %'; a precision and a policy are known by their values."""
    shown = in_unit(name, value)
    return shown if name in ("kv_dtype", "policy") else f"{label(name)} {shown}"


def in_unit(name: str, value: object) -> str:
    """The value as people read it, with its unit."""
    return f"{figure(name, value)} {unit(name)}".rstrip()


def who(turns: Sequence[TurnId], agents: Mapping[TurnId, str]) -> str:
    """'agent 3', 'agent 3 and 2 more'."""
    first = agents.get(turns[0], f"turn {turns[0]}")
    return first if len(turns) == 1 else f"{first} and {len(turns) - 1} more"


def _leaving(preview: Preview, agents: Mapping[TurnId, str]) -> str:
    """Who leaves the arena, then whose host copy goes; a switch that moves nobody says so."""
    out = [leaver for leaver in preview.leave if leaver.was is not Tier.HOST]
    lost = [leaver for leaver in preview.leave if leaver.was is Tier.HOST]
    told = []
    if out:
        told.append(f"{_one('leaves', 'leave', _turns(out), agents)}{_where(preview, out)}")
    elif preview.new.kv_dtype is not preview.old.kv_dtype:
        told.append("0 turns leave")
    if lost:
        told.append(
            f"{_one('loses its host copy', 'lose their host copies', _turns(lost), agents)}{_again(preview, lost)}"
        )
    return "; ".join(told)


def _where(preview: Preview, out: Sequence[Leaver]) -> str:
    copied = preview.copied_bytes
    text = f", {size(copied)} to host, about {seconds(preview.copied_s)}" if copied else ""
    return text + _again(preview, [leaver for leaver in out if leaver.to is Tier.DROPPED])


def _again(preview: Preview, dropped: Sequence[Leaver]) -> str:
    tokens = sum(leaver.tokens for leaver in dropped)
    if not tokens:
        return ""
    later = preview.recompute_s * tokens / preview.recompute_tokens
    return f", {counted(tokens, 'token')} to recompute later, about {seconds(later)}"


def _converting(preview: Preview) -> str:
    if not preview.converted_bytes:
        return ""
    took = "time not yet measured" if preview.convert_s is None else f"about {seconds(preview.convert_s)}"
    return f"{size(preview.converted_bytes)} converted, {took}"


def _coming(preview: Preview, agents: Mapping[TurnId, str]) -> str:
    back = [turn for turn, tier in preview.get_slot if tier is Tier.HOST]
    slots = [turn for turn, tier in preview.get_slot if tier is not Tier.HOST]
    told = []
    if back:
        copies = f", {size(preview.brought_bytes)}, about {seconds(preview.brought_s)}"
        told.append(_one("comes back from host", "come back from host", back, agents) + copies)
    if slots:
        told.append(_one("gets a slot", "get slots", slots, agents))
    return "; ".join(told)


def _one(single: str, several: str, turns: Sequence[TurnId], agents: Mapping[TurnId, str]) -> str:
    return f"{who(turns, agents)} {single if len(turns) == 1 else several}" if turns else ""


def _turns(leavers: Sequence[Leaver]) -> tuple[TurnId, ...]:
    return tuple(leaver.turn for leaver in leavers)
