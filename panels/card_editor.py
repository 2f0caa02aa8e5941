"""Editing a card: every figure with its unit, how it is known and where it is from; save, import, export, delete.

Nothing is applied or saved while a figure is wrong; the sentence stands below it.
"""

import streamlit as st

from engine.cards.edit import BY_HAND, Edited, Entry, edited, entry_of
from engine.cards.fields import FIELDS
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
WIDTHS = (2.3, 1.2, 1, 1.3, 4.2)
UPLOAD_MB = 1
_OPEN, _DELETING, _REFUSED = "card_editor_open", "card_editor_deleting", "card_editor_refused"


def render(card: CardProfile, stored: CardProfile, entry: CardEntry) -> None:
    """The button, and the dialog while it is open. `card`: as it is on the page; `stored`: as it is kept."""
    st.button("Edit card", key="card_editor_button", icon=":material/tune:", width="stretch", on_click=_open)
    if st.session_state.get(_OPEN):
        _dialog(card, stored, entry)


def _open() -> None:
    st.session_state[_OPEN] = True


def _close() -> None:
    for flag in (_OPEN, _DELETING, _REFUSED):
        st.session_state.pop(flag, None)


@st.dialog("Edit card", width="large", on_dismiss=_close)
def _dialog(card: CardProfile, stored: CardProfile, entry: CardEntry) -> None:
    figures, files = st.tabs(["Figures", "Import, export, delete"])
    with figures:
        _actions(_form(card), stored, entry)
    with files:
        _import()
        _export(card, entry)
        if entry.own:
            _delete(entry)


def _form(card: CardProfile) -> Edited:
    """Draws every figure and says what is wrong below the one that is."""
    name = st.text_input("Name", card.name, key="card_edit_name", max_chars=200)
    beside = {"name": st.container()}
    st.caption(
        f"A value that is changed while its source is left as it is becomes *assumed*, *{BY_HAND}*. "
        "GiB = 2^30 bytes, GB = 10^9 bytes."
    )
    entries = {}
    for title, fields in GROUPS.items():
        heads = (title, "Value", "Unit", "Known", "Source")
        for column, head in zip(st.columns(WIDTHS, gap="small"), heads, strict=True):
            column.markdown(f"**{head}**" if head == title else f":gray[{head}]")
        for field in fields:
            with st.container(gap=None):
                entries[field] = _row(field, entry_of(getattr(card, field)))
                beside[field] = st.container()
    result = edited(card, name, entries)
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
        place = known.units.index(now.unit)
        measure = st.selectbox(
            f"{known.label}: unit", known.units, place, key=f"{key}_unit", label_visibility="collapsed",
            disabled=len(known.units) == 1,
        )  # fmt: skip
    with how:
        place = [str(kind) for kind in KNOWN].index(now.known)
        kind = st.selectbox(f"{known.label}: known", KNOWN, place, key=f"{key}_known", label_visibility="collapsed")
    with source:
        origin = st.text_input(f"{known.label}: source", now.source, key=f"{key}_source", label_visibility="collapsed")
    return Entry(typed, measure, kind, origin)


def _actions(result: Edited, stored: CardProfile, entry: CardEntry) -> None:
    card = result.card
    with st.container(horizontal=True, vertical_alignment="center"):
        use = st.button(
            "Use without saving", key="card_editor_use", disabled=card is None, help="For this tab, until you reset it."
        )
        keep = st.button(
            "Save", key="card_editor_save", type="primary", icon=":material/save:", disabled=card is None,
            help="Under the name above, for every tab and every later start.",
        )  # fmt: skip
        if result.problems:
            st.caption("Correct what is marked first." if len(result.problems) > 1 else "One figure is not right yet.")
    if card is None:
        return
    if use:
        edit(entry.id, None if card == stored else card)
        _done(None)
    if keep:
        try:
            saved = save_as(card, card.name, over=entry.id if entry.own else None)
        except Refused as refusal:
            st.markdown(f":red[{plain(str(refusal))}]")
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
        st.markdown(f":red[{plain(str(refusal))}]")
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
    if not st.session_state.get(_DELETING):
        if st.button(f"Delete {plain(entry.name)}", key="card_editor_delete", icon=":material/delete:"):
            st.session_state[_DELETING] = True
            st.rerun(scope="fragment")
        return
    st.markdown(f"{plain(entry.name)} will be gone for good.")
    with st.container(horizontal=True):
        sure = st.button("Delete it", key="card_editor_delete_sure", type="primary")
        if st.button("Keep it", key="card_editor_delete_not"):
            st.session_state.pop(_DELETING, None)
            st.rerun(scope="fragment")
    if sure:
        try:
            delete(entry.id)
        except Refused as refusal:
            st.markdown(f":red[{plain(str(refusal))}]")
            return
        edit(entry.id, None)
        _done(f"Deleted {entry.name}")


def _done(said: str | None) -> None:
    """Closes the dialog and draws the page anew."""
    _close()
    if said:
        st.toast(plain(said))
    st.rerun()
