"""The card box and its editor, as a tab sees them."""

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from engine.cards.profile import GIB
from engine.cards.store import THIS_MACHINE, cards_dir, list_cards, load_card, save, save_as
from engine.cards.write import profile_text
from engine.errors import ModelError
from engine.geometry import KVGeometry
from engine.layout import Store, TurnLayout, uniform
from panels.card_box import Choice

CARD = load_card()


def script() -> None:
    """Two pages that share the box; the other one draws none, as the Live page."""
    import streamlit as st

    from panels import card_box, card_sources

    if st.session_state.get("page") != "live":
        with st.sidebar:
            choice = card_box.render()
        card_sources.render(choice.card, choice.preset)
        st.session_state["choice"] = choice


def open_tab() -> AppTest:
    tab = AppTest.from_function(script, default_timeout=60)
    return run(tab)


def run(tab: AppTest) -> AppTest:
    tab.run()
    assert not tab.exception, tab.exception
    return tab


def choice(tab: AppTest) -> Choice:
    assert not tab.exception, tab.exception
    found: Choice = tab.session_state["choice"]
    return found


def options(tab: AppTest, key: str) -> list[str]:
    return list(tab.selectbox(key=key).options)


def texts(tab: AppTest) -> str:
    shown = [element.value for kind in (tab.markdown, tab.caption) for element in kind]
    return "\n".join(shown).replace("\\", "")


def editor(tab: AppTest) -> AppTest:
    tab.button(key="card_editor_button").click().run()
    assert not tab.exception, tab.exception
    return tab


def typed(tab: AppTest, field: str, value: str) -> AppTest:
    tab.text_input(key=f"card_edit_{field}_value").input(value).run()
    assert not tab.exception, tab.exception
    return tab


def pressed(tab: AppTest, key: str) -> AppTest:
    tab.button(key=key).click().run()
    assert not tab.exception, tab.exception
    return tab


def test_names_models_and_their_bytes(own_config: Path) -> None:
    save_as(CARD, "Cellar box")
    save(replace(CARD, id=THIS_MACHINE, name="This machine"))
    tab = open_tab()
    assert options(tab, "paper_card")[0] == "RX 9070 XT"
    assert options(tab, "paper_card")[-2:] == ["This machine, measured", "Cellar box · own"]
    assert options(tab, "paper_preset")[0] == "ceiling · 160 KiB/token"
    assert choice(tab) == Choice(CARD, CARD.presets[0])
    tab.selectbox(key="paper_card").select("rx7900xtx").run()
    assert choice(tab).card.memory == "24 GB GDDR6"
    tab.selectbox(key="paper_preset").select("card:qwen3.5-9b").run()
    assert choice(tab).preset.layout.bytes_per_token(Store.FP16) == 32_768


def test_a_choice_survives_another_page_and_another_tab_has_its_own(own_config: Path) -> None:
    tab = open_tab()
    tab.selectbox(key="paper_card").select("rtx5090").run()
    tab.selectbox(key="paper_preset").select("card:qwen3.5-9b").run()
    pressed(typed(editor(tab), "usable", "28"), "card_editor_use")
    tab.session_state["page"] = "live"
    run(tab)
    assert len(tab.selectbox) == 0
    tab.session_state["page"] = "planner"
    run(tab)
    assert (choice(tab).card.usable.value, choice(tab).preset.name) == (28, "qwen3.5-9b")
    assert choice(open_tab()) == Choice(CARD, CARD.presets[0])


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("0", "out of range"),
        ("-1", "out of range"),
        ("1e99", "out of range"),
        ("", "is empty"),
        ("nan", "not a number"),
    ],
)
def test_a_wrong_figure_is_told_beside_it_and_nothing_is_saved(own_config: Path, value: str, words: str) -> None:
    tab = typed(editor(open_tab()), "prefill", value)
    assert words in texts(tab)
    for key in ("card_editor_use", "card_editor_save"):
        assert "Nothing was saved" in texts(pressed(tab, key))
    assert choice(tab).card == CARD
    assert not any(card.own for card in list_cards().cards)
    assert words not in texts(typed(tab, "prefill", "1000"))


def test_an_edit_applies_at_once_is_marked_and_can_be_reset(own_config: Path) -> None:
    tab = pressed(typed(editor(open_tab()), "usable", "12"), "card_editor_use")
    assert choice(tab).card.usable.amount == 12 * GIB
    assert "edited, not saved" in texts(tab)
    assert "set by hand" in texts(tab)
    assert options(tab, "paper_card")[0] == "RX 9070 XT · edited"
    assert len(tab.text_input) == 1
    tab.selectbox(key="paper_card").select("rtx5090").run()
    assert "edited, not saved" not in texts(tab)
    tab.selectbox(key="paper_card").select("rx9070xt").run()
    assert choice(tab).card.usable.value == 12
    assert choice(pressed(tab, "paper_reset")).card == CARD
    assert "edited, not saved" not in texts(tab)


def test_an_edit_that_comes_back_to_what_is_stored_is_none(own_config: Path) -> None:
    tab = pressed(editor(open_tab()), "card_editor_use")
    assert "edited, not saved" not in texts(tab)


def test_saving_under_a_name_chooses_it_and_other_tabs_see_it(own_config: Path) -> None:
    other = open_tab()
    tab = typed(editor(open_tab()), "usable", "12")
    assert "there is a card 'RX 9070 XT' already" in texts(pressed(tab, "card_editor_save"))
    tab.text_input(key="card_edit_name").input("Cellar box").run()
    pressed(tab, "card_editor_save")
    assert choice(tab).card.id == "cellar-box"
    assert load_card("cellar-box").usable.value == 12
    assert [toast.value for toast in tab.toast] == ["Saved as Cellar box"]
    assert "edited, not saved" not in texts(tab)
    assert "Cellar box · own" in options(run(other), "paper_card")
    pressed(typed(editor(tab), "usable", "11"), "card_editor_save")
    assert load_card("cellar-box").usable.value == 11


def test_deleting_asks_first(own_config: Path) -> None:
    save_as(CARD, "Box")
    tab = open_tab()
    tab.selectbox(key="paper_card").select("box").run()
    pressed(editor(tab), "card_editor_delete")
    pressed(tab, "card_editor_delete_not")
    assert load_card("box")
    pressed(pressed(tab, "card_editor_delete"), "card_editor_delete_sure")
    assert choice(tab).card == CARD
    assert not any(card.own for card in list_cards().cards)


def test_a_shipped_card_offers_no_delete(own_config: Path) -> None:
    tab = editor(open_tab())
    assert not [button for button in tab.button if button.key == "card_editor_delete"]


def test_a_card_that_is_deleted_elsewhere_leaves_the_default(own_config: Path) -> None:
    save_as(CARD, "Box")
    tab = open_tab()
    tab.selectbox(key="paper_card").select("box").run()
    (cards_dir() / "box.toml").unlink()
    assert choice(run(tab)).card == CARD


def test_an_import_is_chosen_and_a_bad_one_is_told(own_config: Path) -> None:
    tab = editor(open_tab())
    tab.file_uploader(key="card_editor_import").upload("x.toml", b"id = 3").run()
    assert "x.toml: id is no text" in texts(tab)
    content = profile_text(replace(CARD, name="From a friend", memory="12 GB")).encode()
    tab.file_uploader(key="card_editor_import").upload("friend.toml", content).run()
    assert choice(tab).card.name == "From a friend"
    assert load_card("from-a-friend").memory == "12 GB"


def test_broken_own_files_are_told_and_can_be_deleted(own_config: Path) -> None:
    cards_dir().mkdir(parents=True)
    (cards_dir() / "bro_ken.toml").write_text("id = 3")
    tab = open_tab()
    assert "1 card cannot be read" in [expander.label for expander in tab.expander]
    assert "bro_ken.toml: id is no text" in texts(tab)
    pressed(tab, "paper_broken_0_bro_ken")
    assert not (cards_dir() / "bro_ken.toml").exists()
    assert "bro_ken" not in texts(run(tab))


def test_a_directory_that_cannot_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PARKDECK_CONFIG_DIR", str(tmp_path / "file"))
    tab = open_tab()
    assert "your cards cannot be read" in texts(tab)
    tab = editor(tab)
    tab.text_input(key="card_edit_name").input("Box").run()
    assert "cards cannot be kept here" in texts(pressed(tab, "card_editor_save"))


def test_a_name_from_outside_is_not_markup(own_config: Path) -> None:
    save(replace(CARD, id="odd", name="<b>x</b> [a](http://b) $y$", memory=":red[16]"))
    tab = open_tab()
    tab.selectbox(key="paper_card").select("odd").run()
    assert any("\\:red\\[16\\]" in caption.value for caption in tab.caption)
    assert "\\<b\\>" in "".join(button.label for button in editor(tab).button)


@dataclass(frozen=True)
class Paper:
    layout: TurnLayout
    weights_bytes: int | None
    source: str


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A reader of layouts that knows two models; the list is of what it was asked for."""
    asked: list[str] = []

    def read_layout(choice: str) -> Paper:
        asked.append(choice)
        if choice not in ("org/small", "org/large", "org/bare"):
            raise ModelError(f"{choice}: no such file, and not on Hugging Face")
        layout = uniform(choice, KVGeometry(layers=10, kv_heads=2, head_dim=64))
        weights = {"org/small": 3 * GIB, "org/large": 300 * GIB}.get(choice)
        return Paper(layout, weights, "config.json of it")

    module: Any = ModuleType("engine.models.layout_reader")
    module.read_layout = read_layout
    monkeypatch.setitem(sys.modules, "engine.models.layout_reader", module)
    return asked


def test_another_model_is_read_once_and_brings_its_weights(own_config: Path, reader: list[str]) -> None:
    tab = open_tab()
    tab.text_input(key="paper_wanted").input(" org/small ").run()
    assert choice(tab).preset.name == "org/small"
    weights = choice(tab).card.weights
    assert (weights.amount, weights.known, weights.source) == (3 * GIB, "measured", "config.json of it")
    assert "Decode step and prefill rate stay the card's" in texts(tab)
    tab.selectbox(key="paper_card").select("rtx5090").run()
    assert choice(tab).card.weights.amount == 3 * GIB
    tab.selectbox(key="paper_preset").select("card:ceiling").run()
    assert choice(tab) == Choice(load_card("rtx5090"), load_card("rtx5090").presets[0])
    assert reader == ["org/small"]


def test_weights_that_no_file_tells_are_asked_for(own_config: Path, reader: list[str]) -> None:
    tab = open_tab()
    tab.text_input(key="paper_wanted").input("org/bare").run()
    assert choice(tab).card.weights == load_card().weights
    assert "Its weights are not known" in texts(tab)
    tab.number_input(key="paper_weights").set_value(4.5).run()
    weights = choice(tab).card.weights
    assert (weights.amount, weights.known) == (4.5 * GIB, "assumed")
    tab.number_input(key="paper_weights").set_value(-1.0).run()
    assert "Weights -1 GiB is out of range" in texts(tab)
    assert choice(tab).preset.name == "ceiling"
    tab.number_input(key="paper_weights").set_value(None).run()
    assert choice(tab).card.weights == load_card().weights


def test_a_model_that_cannot_be_read_is_told_and_asked_for_once(own_config: Path, reader: list[str]) -> None:
    tab = open_tab()
    tab.text_input(key="paper_wanted").input("nowhere").run()
    run(tab)
    assert "nowhere: no such file" in texts(tab)
    assert choice(tab).preset.name == "ceiling"
    assert reader == ["nowhere"]
    pressed(tab, "paper_read_again")
    assert reader == ["nowhere", "nowhere"]


def test_a_model_that_does_not_fit_the_card_is_told(own_config: Path, reader: list[str]) -> None:
    tab = open_tab()
    tab.text_input(key="paper_wanted").input("org/large").run()
    assert "300.00 GiB of weights, which leave no bytes for KV under 15.50 GiB" in texts(tab)
    assert choice(tab) == Choice(CARD, CARD.presets[0])
