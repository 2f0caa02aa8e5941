"""Editing a card: every figure with its unit, how it is known and where it is from; save, import, export, delete.

Nothing is applied or saved while a figure is wrong; the sentence stands below it.
"""

from typing import Literal

import streamlit as st

from engine.cards.edit import ABOUT, BY_HAND, Edited, Entry, edited, entry_of
from engine.cards.fields import FIELDS, Field
from engine.cards.profile import KNOWN, CardProfile
from engine.cards.store import CardEntry, delete, import_card, save_as
from engine.cards.write import profile_text
from engine.errors import Refused
from panels.card_state import choose_card, edit
from panels.plain import plain

GROUPS = {
    "Memory": ("usable", "weights", "runtime", "pinned_host"),
    "Load": ("slots", "mean_context", "long_context", "max_context"),
    "Speed": ("decode_base", "decode_per_turn", "decode_per_kv_byte", "prefill", "link_out", "link_back"),
}
HEADS = ("Value", "Unit", "Known", "Source")
WIDTHS = (2.3, 1.2, 1, 1.3, 4.2)
UPLOAD_MB = 1
LONGEST_NAME = 80
Wanted = Literal["use", "save"] | None
_OPEN, _DELETING, _SAID = "card_editor_open", "card_editor_deleting", "card_editor_said"


def render(card: CardProfile, stored: CardProfile, entry: CardEntry) -> None:
    """The button, and the dialog while it is open. `card`: as it is on the page; `stored`: as it is kept."""
    st.button("Edit card", key="card_editor_button", icon=":material/tune:", width="stretch", on_click=_open)
    if said := st.session_state.pop(_SAID, None):
        st.toast(plain(said), icon=":material/check:")
    if st.session_state.get(_OPEN):
        _dialog(card, stored, entry)


def _open() -> None:
    st.session_state[_OPEN] = True


def _close() -> None:
    for flag in (_OPEN, _DELETING):
        st.session_state.pop(flag, None)


@st.dialog("Edit card", width="large", on_dismiss=_close)
def _dialog(card: CardProfile, stored: CardProfile, entry: CardEntry) -> None:
    figures, files = st.tabs(["Figures", "Import, export, delete" if entry.own else "Import, export"])
    with figures:
        top = st.columns([3, 2], gap="medium", vertical_alignment="bottom")
        name = top[0].text_input("Name", card.name, key="card_edit_name", max_chars=LONGEST_NAME)
        with top[1], st.container(horizontal=True, horizontal_alignment="right"):
            wanted = _buttons()
        said = st.container()
        result = _form(card, name)
        with said:
            _act(wanted, result, stored, entry)
    with files:
        _import()
        _export(card, entry)
        if entry.own:
            _delete(entry)


def _form(card: CardProfile, name: str) -> Edited:
    """Draws every figure and says what is wrong below the one that is."""
    beside = {"name": st.container()}
    st.caption(
        f"A value that is changed while its source is left as it is becomes *assumed*, *{BY_HAND}*. "
        "GiB = 2^30 bytes, GB = 10^9 bytes."
    )
    about = {}
    for column, (field, label) in zip(st.columns(len(ABOUT), gap="small"), ABOUT.items(), strict=True):
        with column:
            about[field] = st.text_input(label, getattr(card, field), key=f"card_edit_{field}", max_chars=LONGEST_NAME)
            beside[field] = st.container()
    entries = {}
    for title, fields in GROUPS.items():
        heads = (title, *(HEADS if title == next(iter(GROUPS)) else [""] * len(HEADS)))
        for column, head in zip(st.columns(WIDTHS, gap="small"), heads, strict=True):
            column.markdown(f"**{head}**" if head == title else f":gray[{head}]" if head else "")
        for field in fields:
            with st.container(gap=None):
                entries[field] = _row(field, entry_of(getattr(card, field)))
                beside[field] = st.container()
    result = edited(card, name, entries, about)
    for field, problem in result.problems.items():
        with beside[field]:
            st.markdown(f":red[{plain(problem)}]")
    return result


def _row(field: str, now: Entry) -> Entry:
    known, key = FIELDS[field], f"card_edit_{field}"
    label, value, unit, how, source = st.columns(WIDTHS, gap="small", vertical_alignment="center")
    label.markdown(known.label, help=known.hint)
    with value:
        typed = st.text_input(f"{known.label}: value", now.value, key=f"{key}_value", label_visibility="collapsed")
    with unit:
        measure = _unit(known, now.unit, key)
    with how:
        place = [str(kind) for kind in KNOWN].index(now.known)
        kind = st.selectbox(f"{known.label}: known", KNOWN, place, key=f"{key}_known", label_visibility="collapsed")
    with source:
        origin = st.text_input(f"{known.label}: source", now.source, key=f"{key}_source", label_visibility="collapsed")
    return Entry(typed, measure, kind, origin)


def _unit(field: Field, now: str, key: str) -> str:
    if len(field.units) == 1:
        st.markdown(f":gray[{now}]")
        return now
    place = field.units.index(now)
    return st.selectbox(f"{field.label}: unit", field.units, place, key=f"{key}_unit", label_visibility="collapsed")


def _buttons() -> Wanted:
    use = st.button("Use without saving", key="card_editor_use", help="In this tab, until you reset it.")
    save = st.button(
        "Save", key="card_editor_save", type="primary", icon=":material/save:",
        help="Under this name, for every tab and every later start.",
    )  # fmt: skip
    return "use" if use else "save" if save else None


def _act(wanted: Wanted, result: Edited, stored: CardProfile, entry: CardEntry) -> None:
    """Carries out the button that was pressed, or says why not."""
    card = result.card
    if wanted is None:
        return
    if card is None:
        st.markdown(":red[Nothing was saved: correct what is marked first.]")
    elif wanted == "use":
        edit(entry.id, None if card == stored else card)
        _done(None)
    else:
        _save(card, entry)


def _save(card: CardProfile, entry: CardEntry) -> None:
    try:
        saved = save_as(card, card.name, over=entry.id if entry.own else None)
    except Refused as refusal:
        _refused(refusal)
        return
    edit(entry.id, None)
    edit(saved.id, None)
    choose_card(saved.id)
    _done(f"Saved as {saved.name}")


def _import() -> None:
    st.markdown("**Import**")
    file = st.file_uploader("A card profile, .toml", type="toml", key="card_editor_import", max_upload_size=UPLOAD_MB)
    if file is None:
        return
    try:
        imported = import_card(file.getvalue(), file.name)
    except Refused as refusal:
        _refused(refusal)
        return
    choose_card(imported.id)
    _done(f"Imported {imported.name}")


def _export(card: CardProfile, entry: CardEntry) -> None:
    st.markdown("**Export**")
    st.caption(f"{plain(card.name)} as the page has it now, as a file that others can import or edit by hand.")
    st.download_button(
        "Export card", profile_text(card), f"{entry.id}.toml", "application/toml", key="card_editor_export",
        icon=":material/download:", on_click="ignore",
    )  # fmt: skip


def _delete(entry: CardEntry) -> None:
    st.markdown("**Delete**")
    asked, sure_of_it = st.container(), st.container(horizontal=True)
    if not st.session_state.get(_DELETING):
        asked.button(
            f"Delete {plain(entry.name)}", key="card_editor_delete", icon=":material/delete:",
            on_click=_ask_to_delete, args=(True,),
        )  # fmt: skip
        return
    asked.markdown(f"The file of {plain(entry.name)} will be gone for good.")
    with sure_of_it:
        sure = st.button("Delete it", key="card_editor_delete_sure", type="primary")
        st.button("Keep it", key="card_editor_delete_not", on_click=_ask_to_delete, args=(False,))
    if sure:
        try:
            delete(entry.id)
        except Refused as refusal:
            _refused(refusal)
            return
        edit(entry.id, None)
        _done(f"Deleted {entry.name}")


def _ask_to_delete(ask: bool) -> None:
    st.session_state[_DELETING] = ask


def _refused(refusal: Refused) -> None:
    st.markdown(f":red[{plain(str(refusal))}]")


def _done(said: str | None) -> None:
    """Closes the dialog and draws the page anew, which then says what was done."""
    _close()
    st.session_state[_SAID] = said
    st.rerun()
