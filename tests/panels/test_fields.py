"""Figures to play with, whatever of a page has reached the browser."""

from typing import Any

from streamlit.testing.v1 import AppTest


def script() -> None:
    import streamlit as st

    from engine.errors import BadField
    from panels import fields

    def check(value: object) -> float:
        if not isinstance(value, float):
            raise BadField("speed", "Speed is empty")
        return value

    st.write(fields.figure("speed", "Speed", 40.0, (1.0, 40.0, 80.0), check, step=1.0))
    if not st.session_state.get("cut short"):
        fields.told()


def opened(**state: Any) -> AppTest:
    at = AppTest.from_function(script, default_timeout=60)
    for name, value in state.items():
        at.session_state[name.replace("_", " ")] = value
    return at.run()


def test_a_slider_says_its_value_in_every_run() -> None:
    """The run that made it may never have reached the browser, which begins with the default."""
    at = opened()
    for _ in range(2):
        slider = at.select_slider[0].proto
        assert (list(slider.default), list(slider.options)) == ([1], ["1", "40", "80"])
        at.run()


def test_a_field_is_told_its_value_until_a_run_has_come_to_its_end() -> None:
    at = opened(cut_short=True)
    for _ in range(2):
        assert (at.number_input[0].proto.set_value, at.number_input[0].proto.value) == (True, 40)
        at.run()
    at.session_state["cut short"] = False
    assert at.run().number_input[0].proto.set_value
    assert not at.run().number_input[0].proto.set_value, "what is being typed would be lost"


def test_a_field_that_was_never_told_its_value_is_not_emptied_by_its_user() -> None:
    at = opened(cut_short=True)
    at.number_input[0].set_value(None).run()
    assert at.number_input[0].value == 40
    assert not at.markdown[1:-1]
    at.session_state["cut short"] = False
    at.run().number_input[0].set_value(None).run()
    assert ":small[:red[Speed is empty]]" in [said.value for said in at.markdown]
    assert at.markdown[-1].value == "`40.0`"


def test_what_is_typed_counts_and_the_slider_follows() -> None:
    at = opened(cut_short=True)
    at.number_input[0].set_value(55.0).run()
    assert at.markdown[-1].value == "`55.0`"
    assert at.select_slider[0].value == 55.0
    at.select_slider[0].set_value(80.0).run()
    assert (at.number_input[0].value, at.markdown[-1].value) == (80.0, "`80.0`")
