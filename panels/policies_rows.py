"""The policies one below the other: what each does, what it came to in this session, and putting it in force."""

from collections.abc import Hashable, Sequence
from dataclasses import asdict

import streamlit as st

from engine.outcomes import Outcome, outcomes
from engine.policies import policies
from engine.policies.base import TierPolicy
from panels import asking, policies_asked, tab, table_csv
from panels.asking import Answer
from panels.deck_view import DeckView
from panels.plain import plain
from panels.policies_words import measured_words
from panels.pulse import drawn
from panels.units import MISSING

KEY = "policies_rows"
REFRESH_S = 2.0
SAID = "policies_applied"
WIDTHS = (2.8, 2.0, 0.7)


def shown(deck: DeckView | None) -> Hashable | None:
    """What the fragment draws from: figures of an engine that serves are others each time."""
    return None if policies_asked.serving(deck) is not None else (deck is None, _in_session(deck))


@st.fragment(key=KEY)
def render(deck: DeckView | None) -> None:
    seen = shown(deck)
    found = _in_session(deck)
    head, rows, below = st.container(), st.container(gap="xsmall"), st.container()
    with head:
        _head(deck)
    with rows:
        for policy in policies().values():
            _row(deck, policy, next((one for one in found if one.policy == policy.name), None))
    with below:
        if found and deck is not None:
            session = deck.control.snapshot.session
            table_csv.download(as_csv(found, session, _basis(deck)), f"parkdeck-policies-{session}", key="policies_csv")
    drawn(KEY, seen)


def as_csv(found: Sequence[Outcome], session: str, basis: str) -> bytes:
    """Every figure of every policy that was in force."""
    head = ("policy", *list(asdict(found[0]))[1:], "tokens_per_s")
    rows = ((*(int(v) if isinstance(v, bool) else v for v in asdict(o).values()), o.tokens_per_s) for o in found)
    return table_csv.content((("session", session), ("figures", basis)), head, rows)


def apply(deck: DeckView, name: str, author: str) -> Answer:
    """Asks the live engine for the policy."""
    answer = asking.outcome(deck.control.set_knobs({"policy": name}, author=author), f"Policy {name}")
    return _applied(name) if answer.tone == "good" else answer


def _applied(name: str) -> Answer:
    return Answer(f"{name} is in force.")


def _head(deck: DeckView | None) -> None:
    basis = _basis(deck)
    st.markdown(f"#### In this session &nbsp; :gray-badge[{basis}]" if basis else "#### All policies")
    if policies_asked.serving(deck) is None:
        st.caption("No engine runs, so none is in force and none can be applied.")
    else:
        st.caption(
            "What each policy came to while it was in force; TTFT is the foreground's. The agents' work differs from "
            "span to span: the twin alone compares like with like."
        )


def _row(deck: DeckView | None, policy: TierPolicy, outcome: Outcome | None) -> None:
    live = policies_asked.serving(deck)
    in_force = live is not None and live.knobs.policy == policy.name
    with st.container(border=True, key=f"policies_row_{policy.name}"):
        what, measured, act = st.columns(WIDTHS, gap="medium", vertical_alignment="center")
        with what, st.container(gap=None):
            badge = " &nbsp; :green-badge[in force]" if in_force else ""
            st.markdown(f"**{plain(policy.name)}**{badge}  \n{plain(policy.title)}")
            st.caption(f"When: {plain(policy.fits)}  \nSource: {plain(policy.source)}")
        with measured, st.container(gap=None):
            lines = measured_words(outcome) if live is not None or outcome is not None else (MISSING,)
            st.markdown("  \n".join(map(plain, lines)))
            _answer(policy.name, in_force)
        with act:
            st.button(
                "Apply", key=f"policies_apply_{policy.name}", width="stretch", disabled=live is None or in_force,
                help=None if in_force else f"Set {policy.name} on the live engine, at its next token boundary.",
                on_click=_press, args=(deck, policy.name),
            )  # fmt: skip


def _answer(name: str, in_force: bool) -> None:
    """What this tab's last Apply came to, at the policy that it was asked for; one that was waited for comes true."""
    asked_for, answer = st.session_state.get(SAID, ("", None))
    place = st.container()
    if asked_for == name and answer is not None:
        answer = _applied(name) if in_force else answer
        ink = {"good": "green", "bad": "red", "wait": "orange"}[answer.tone]
        place.markdown(f":{ink}[{plain(answer.text)}]")


def _press(deck: DeckView, name: str) -> None:
    st.session_state[SAID] = (name, apply(deck, name, tab.open_tab(deck)))


def _in_session(deck: DeckView | None) -> tuple[Outcome, ...]:
    if deck is None:
        return ()
    control = deck.control
    snapshot = control.snapshot
    # Events before samples: what a change cut is then in them.
    events = control.events()
    return outcomes(snapshot.knobs.policy, events, control.samples(), snapshot.at)


def _basis(deck: DeckView | None) -> str:
    """Whether the session's figures are measured or a twin's; empty without any."""
    if deck is None:
        return ""
    return "modelled" if deck.control.snapshot.twin else "measured"
