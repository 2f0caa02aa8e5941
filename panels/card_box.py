"""Which card and which model the paper pages are about: the box in the sidebar."""

from dataclasses import dataclass, replace

import streamlit as st

from engine.cards.edit import BY_HAND
from engine.cards.fields import checked_figure
from engine.cards.model import with_model
from engine.cards.profile import GIB, CardProfile, Preset
from engine.cards.store import DEFAULT_CARD, THIS_MACHINE, CardEntry, CardList, delete, list_cards, load_card
from engine.errors import BadField, ParkdeckError, Refused
from engine.layout import Store
from engine.words import counted
from panels import card_editor
from panels.card_state import ReadModel, choose_card, edit, keep, kept
from panels.plain import plain
from panels.units import size
from panels.whole import whole

READ = "read:"
OF_CARD = "card:"


@dataclass(frozen=True, slots=True)
class Choice:
    """`preset`: the model's shape, one of the card's or one that was read from a model's own files."""

    card: CardProfile
    preset: Preset


def render() -> Choice:
    """Draws the choice in the sidebar and returns what is in force. What is said in one part moves no other."""
    cards = list_cards()
    chosen, read, edited, broken, refused = (st.container() for _ in range(5))
    with chosen:
        entry, stored = _card(cards)
    card = kept().edits.get(entry.id, stored)
    with read:
        choice = _model(card)
    with edited:
        card_editor.render(card, stored, entry)
    if cards.problem:
        broken.markdown(f":small[:orange[{plain(cards.problem)}]]")
    with refused:
        _unreadable(cards)
    return choice


def card_label(entry: CardEntry, edit: CardProfile | None) -> str:
    """How a card stands in the list, under the name that it was edited to."""
    name = edit.name if edit else entry.name
    if entry.id == THIS_MACHINE:
        name = "This machine, measured" if name.casefold() == "this machine" else f"This machine: {name}"
    elif entry.own:
        name = f"{name} · own"
    return f"{name} · edited" if edit else name


def preset_label(preset: Preset) -> str:
    per_token = size(preset.layout.bytes_per_token(Store.FP16))
    return f"{preset.name} · {per_token.replace('.0 ', ' ')}/token"


def _card(cards: CardList) -> tuple[CardEntry, CardProfile]:
    """Draws the list of cards. One that was chosen and cannot be read any more leaves the default."""
    usable = {entry.id: entry for entry in cards.usable()}
    try:
        stored = load_card(kept().card) if kept().card in usable else load_card(DEFAULT_CARD)
    except Refused:
        stored = load_card(DEFAULT_CARD)
    if stored.id != kept().card:
        choose_card(stored.id)
    st.session_state.paper_card = stored.id
    edits = kept().edits
    st.selectbox(
        "Card",
        list(usable),
        key="paper_card",
        format_func=lambda card_id: card_label(usable[card_id], edits.get(card_id)) if card_id in usable else card_id,
        on_change=_chosen_card,
    )
    card = edits.get(stored.id, stored)
    st.caption(plain(" · ".join(filter(None, (card.memory, card.architecture, card.model)))))
    if stored.id in edits:
        with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
            st.badge("edited, not saved", icon=":material/edit:", color="green")
            st.button("Reset", key="paper_reset", type="tertiary", on_click=edit, args=(stored.id, None))
    return usable[stored.id], stored


def _model(card: CardProfile) -> Choice:
    """Draws the list of models and the field that reads another."""
    place, another = st.container(), st.container()
    with another:
        _read_another()
    now = kept()
    options = {OF_CARD + preset.name: preset for preset in card.presets}
    if now.model is not None:
        options[READ] = now.model.preset
    chosen = READ if now.on_model and now.model else OF_CARD + now.preset
    chosen = chosen if chosen in options else next(iter(options))
    st.session_state.paper_preset = chosen
    with place:
        st.selectbox(
            "Model",
            list(options),
            key="paper_preset",
            format_func=lambda key: preset_label(options[key]) if key in options else key,
            on_change=_chosen_model,
        )
        if chosen != READ or now.model is None:
            return Choice(card, options[chosen])
        return _read_model(card, now.model)


def _read_model(card: CardProfile, model: ReadModel) -> Choice:
    """The model that was read, on the card; the card's first preset where it has no room for it."""
    try:
        loaded = _with_weights(card, model)
    except BadField as refusal:
        st.markdown(f":small[:red[{plain(str(refusal))}]]")
        st.caption(f"The page shows {plain(card.presets[0].name)} instead.")
        return Choice(card, card.presets[0])
    whose = f", which are of {plain(card.model)}" if card.model else ""
    st.caption(f"Decode step and prefill rate stay the card's{whose}.")
    return Choice(loaded, model.preset)


def _with_weights(card: CardProfile, model: ReadModel) -> CardProfile:
    """The card with the model's weights: from its files, or as the user states them. Raises BadField."""
    if model.weights_bytes is not None:
        st.caption(f"With {size(model.weights_bytes)} of weights from its files.")
        return with_model(card, model.preset, model.weights_bytes)
    st.session_state.paper_weights = model.stated_gib
    st.number_input(
        "Its weights, GiB",
        key="paper_weights",
        value=None,
        step=0.1,
        format="%.10g",
        placeholder=f"the card's {card.weights.amount / GIB:.4g}",
        help="Its config does not tell them. On the device, at the quantisation that you use.",
        on_change=_stated_weights,
    )
    if model.stated_gib is None:
        st.markdown(":small[:orange[Its weights are not known: the card's are counted until you state them.]]")
        return card
    checked_figure("weights", model.stated_gib, "GiB", "assumed", BY_HAND)
    return with_model(card, model.preset, round(model.stated_gib * GIB), BY_HAND)


@whole
def _chosen_card() -> None:
    choose_card(st.session_state.paper_card)


@whole
def _stated_weights() -> None:
    now = kept()
    if now.model is not None:
        keep(replace(now, model=replace(now.model, stated_gib=st.session_state.paper_weights)))


@whole
def _chosen_model() -> None:
    chosen: str = st.session_state.paper_preset
    if chosen == READ:
        keep(replace(kept(), on_model=True))
    else:
        keep(replace(kept(), on_model=False, preset=chosen.removeprefix(OF_CARD)))


def _read_another() -> None:
    now = kept()
    st.session_state.paper_wanted = now.wanted
    st.text_input(
        "Another model",
        key="paper_wanted",
        placeholder="file, folder or Hugging Face id",
        autocomplete="off",
        help="Its shape is read from config.json or the GGUF header; no weights are loaded.",
        on_change=_wanted,
    )
    if now.wanted and not now.problem and (now.model is None or now.model.wanted != now.wanted):
        with st.spinner("Reading its shape"):
            _take(now.wanted)
    if problem := kept().problem:
        st.markdown(f":small[:red[{plain(problem)}]]")
        st.button("Read again", key="paper_read_again", type="tertiary", on_click=_read_again)


@whole
def _wanted() -> None:
    keep(replace(kept(), wanted=st.session_state.paper_wanted.strip(), problem=""))


def _read_again() -> None:
    keep(replace(kept(), problem=""))


def _take(wanted: str) -> None:
    from engine.models.layout_reader import read_layout

    try:
        paper = read_layout(wanted)
    except ParkdeckError as error:
        keep(replace(kept(), problem=str(error)))
        return
    model = ReadModel(wanted, Preset(paper.layout, "published", paper.source), paper.weights_bytes)
    keep(replace(kept(), model=model, on_model=True))


def _unreadable(cards: CardList) -> None:
    """Own cards that cannot be read, each with its reason and the way to be rid of it."""
    broken = [entry for entry in cards.cards if entry.problem]
    if not broken:
        return
    with st.expander(f"{counted(len(broken), 'card')} cannot be read", icon=":material/warning:"):
        for number, entry in enumerate(broken):
            st.caption(plain(entry.problem or ""))
            with st.popover("Delete this file", width="stretch"):
                st.markdown("It will be gone for good.")
                if st.button("Delete it", key=f"paper_broken_{number}_{entry.id}", type="primary"):
                    _delete_broken(entry.id)


def _delete_broken(card_id: str) -> None:
    try:
        delete(card_id)
    except Refused as refusal:
        st.markdown(f":red[{plain(str(refusal))}]")
        return
    st.rerun()
