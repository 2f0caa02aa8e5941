"""The Planner page: layout only. It needs no engine: `deck` None shows the plan alone."""

import streamlit as st

from engine.paper.ceiling import plan as planned
from panels import (
    card_box,
    card_sources,
    components,
    fields,
    planner_chart,
    planner_figures,
    planner_load,
    planner_measured,
    planner_reserve,
    planner_table,
    planner_words,
    pulse,
)
from panels.deck_view import DeckView
from panels.plain import plain


def page(deck: DeckView | None) -> None:
    with st.sidebar:
        st.markdown("## Parkdeck")
        choice = card_box.render()
        load = planner_load.render(choice)
    plan, theme = planned(choice.card, choice.preset.layout, load), components.theme()
    with st.container(gap="small"):
        with st.container(gap=None):
            st.markdown("## Planner &nbsp; :gray-badge[modelled]")
            st.caption(plain(planner_words.line(plan)))
        planner_figures.render(plan, theme)
        planner_chart.render(plan, theme)
        st.caption(plain(planner_words.states_text(plan)))
        table, beside = st.columns([1.3, 1], gap="small")
        with table:
            st.markdown("#### fp16 beside q8")
            planner_table.render(plan, theme)
            planner_table.download(plan)
        with beside:
            planner_measured.render(plan, deck, theme)
            planner_table.render_notes(plan, choice.preset, theme)
        st.markdown("#### Reserving the largest context against overcommitting")
        planner_reserve.render(plan, theme)
        st.caption(plain(planner_words.reserve_text(plan)))
        card_sources.render(choice.card, choice.preset)
    pulse.render(lambda: {planner_measured.KEY: pulse.Part(planner_measured.REFRESH_S)} if deck else {})
    fields.told()
