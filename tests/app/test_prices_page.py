"""The Prices page with and without an engine: fields that refuse, values that stay, rates that are taken over."""

from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from tests.browser.scenes import SCENES
from tests.panels.fake_deck import FakeDeck

CONTEXT, PINNED, LINK, PREFILL = (
    f"{label}: number" for label in ("Context of the turn", "Pinned host memory", "Bandwidth", "Prefill rate")
)


def script() -> None:
    import streamlit as st

    from app.pages import prices

    if not st.session_state.get("elsewhere"):
        prices.page(st.session_state["deck"])


def open_page(deck: FakeDeck | None = None, model: str = "swap") -> AppTest:
    tab = AppTest.from_function(script, default_timeout=60)
    tab.session_state["deck"] = deck
    tab.run()
    box = next(b for b in tab.selectbox if b.label == "Model")
    box.select_index(next(i for i, option in enumerate(box.options) if option.split(" ")[0] == model)).run()
    assert not tab.exception, tab.exception
    return tab


def field(tab: AppTest, label: str) -> Any:
    return next(n for n in tab.number_input if n.label == label)


def texts(tab: AppTest) -> str:
    return "\n".join(element.value for kind in (tab.markdown, tab.caption, tab.info) for element in kind)


def give(tab: AppTest, label: str, value: float | None) -> str:
    field(tab, label).set_value(value).run()
    assert not tab.exception, tab.exception
    return texts(tab)


@pytest.mark.parametrize("scene", [None, *SCENES])
def test_it_renders_in_every_state_of_the_engine_and_without_one(scene: str | None) -> None:
    text = texts(open_page(SCENES[scene]() if scene else None))
    assert "Prices" in text
    assert "modelled" in text
    assert "6,144 tokens holds 903 MB" in text
    assert ("No engine runs" in text) == (scene is None)


def test_the_studys_figures_are_on_it() -> None:
    text = give(open_page(), CONTEXT, 6_900)
    assert "40.6 ms, the way back alone 20.3 ms; computing it again takes 7.17 s, 177 times" in text
    assert "The card holds 55,102 tokens in 8.10 GB; the pinned host memory holds 326,530" in text


@pytest.mark.parametrize(
    ("label", "named"),
    [(CONTEXT, "Context"), (LINK, "Bandwidth"), (PREFILL, "Prefill rate"), (PINNED, "Pinned host memory")],
)
@pytest.mark.parametrize("value", [0, -5, 10**15, None])
def test_what_cannot_be_is_refused_in_the_field_and_the_last_value_stays(
    label: str, named: str, value: int | None
) -> None:
    tab = open_page()
    before = texts(tab)
    assert "The card holds" in before
    text = give(tab, label, value if value is None or label == CONTEXT else float(value))
    if (label, value) == (PINNED, 0):
        assert "No host memory is pinned" in text
        return
    assert f":red[{named} " in text
    assert "give " in text
    assert [line for line in text.splitlines() if ":red[" not in line] == before.splitlines()
    assert ":red[" not in give(tab, label, 20_000 if label == CONTEXT else 20.0)


def test_the_toggle_counts_exact_bytes() -> None:
    tab = open_page()
    assert "the study rounds 147,456 to 147,000" in texts(tab)
    give(tab, CONTEXT, 100_000)
    assert "100,000 tokens holds 14.7 GB" in texts(tab)
    tab.toggle[0].set_value(True).run()
    give(tab, CONTEXT, 1_000_000)
    assert "147,456 bytes per token at fp16, exact" in texts(tab)
    assert "The card holds 54,931 tokens" in texts(tab)


def test_q8_has_no_rounding_and_halves_the_copies() -> None:
    tab = open_page()
    precision: Any = tab.get("button_group")[0]
    precision.set_value("q8").run()
    assert "76,032 bytes per token at q8" in texts(tab)
    assert not tab.toggle


def test_values_stay_when_the_page_is_left_and_go_with_the_card() -> None:
    tab = open_page()
    give(tab, LINK, 25.0)
    tab.toggle[0].set_value(True).run()
    tab.session_state["elsewhere"] = True
    tab.run()
    tab.session_state["elsewhere"] = False
    tab.run()
    assert field(tab, LINK).value == 25.0
    assert tab.toggle[0].value
    card = next(b for b in tab.selectbox if b.label == "Card")
    card.select_index(next(i for i in range(len(card.options)) if i != card.index)).run()
    assert not tab.exception, tab.exception
    assert field(tab, LINK).value != 25.0


def test_this_machines_rates_are_shown_and_taken_over() -> None:
    tab = open_page(SCENES["running"]())
    assert "measured here: 4.10 GB/s out, 5.30 back" in texts(tab)
    next(b for b in tab.button if b.label == "Use measured link").click().run()
    assert not tab.exception, tab.exception
    assert field(tab, LINK).value == pytest.approx(4.623)
    assert "Copying it out and back takes 391 ms, the way back alone 170 ms" in texts(tab)
    next(b for b in tab.button if b.label == "Use measured rate").click().run()
    assert field(tab, PREFILL).value == 480.0


def test_without_rates_there_is_nothing_to_take() -> None:
    tab = open_page(SCENES["starting"]())
    assert "measured here: n/a" in texts(tab)
    assert not [b for b in tab.button if b.label.startswith("Use measured")]


def test_no_moves_yet_are_told() -> None:
    assert "No swap or recompute yet in this session." in texts(open_page(SCENES["empty"]()))


def test_where_the_figures_are_from_is_one_click_away() -> None:
    assert any("Where the figures are from" in box.label for box in open_page().expander)
