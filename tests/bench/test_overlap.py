"""The bench of copies beside steps: that its spans copy as they say and leave nothing, and its ratios and targets."""

import math

import pytest

from app.bench import overlap
from app.bench.overlap import BESIDE, EVERY, NONE, STILL, Deck, Seen
from app.bench.report import MET, MISSED, Bench
from app.bench.rig import Rig
from engine.errors import Refused
from engine.knobs import Knobs
from tests.engine.lab import fake_body


def fake_rig() -> Rig:
    return Rig(fake_body(3000, 3000), Knobs(max_running=overlap.RUNNING, long_turn_tokens=10**7))


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the fake executor can take them."""
    monkeypatch.setattr(overlap, "RUNNING", 2)
    monkeypatch.setattr(overlap, "AVERAGE_TURN_TOKENS", 40)
    monkeypatch.setattr(overlap, "LONG_TOKENS", 90)
    monkeypatch.setattr(overlap, "DEPTHS", {"quick": (2 * EVERY, 2)})


def test_each_kind_of_span_copies_as_it_says() -> None:
    rig = fake_rig()
    deck = Deck(rig, 60)
    steps = 4 * EVERY
    none, beside, still = (deck.span(kind, steps) for kind in (NONE, BESIDE, STILL))
    assert [len(one.gaps) for one in (none, beside, still)] == [steps] * 3
    assert [len(one.copies) for one in (none, beside, still)] == [0, 4, 4]
    assert still.waited_s == pytest.approx(sum(still.copies))
    assert 0 <= beside.waited_s <= sum(beside.copies)
    assert {turn.preemptions for turn in rig.core.ledger} == {0}
    deck.close()
    assert rig.leaked() == (0, 0)
    rig.close()


def test_a_ratio_is_against_the_spans_on_both_sides() -> None:
    spans = [Seen(NONE, [1.0]), Seen(BESIDE, [3.0]), Seen(NONE, [2.0]), Seen(STILL, [6.0]), Seen(NONE, [4.0])]
    assert overlap._ratios(spans, BESIDE) == [pytest.approx(2.0)]
    assert overlap._ratios(spans, STILL) == [pytest.approx(2.0)]
    assert overlap._ratios(spans, NONE) == []
    assert math.isnan(Seen(NONE).p99)


@pytest.mark.parametrize(("slower", "status"), [(1.1, MET), (1.3, MISSED)])
def test_targets_are_on_copies_beside_steps(slower: float, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Deck.span

    def span(self: Deck, kind: str, steps: int) -> Seen:
        seen = real(self, kind, steps)
        seen.gaps = [{NONE: 1.0, BESIDE: slower, STILL: 9.0}[kind]] * steps
        return seen

    monkeypatch.setattr(Deck, "span", span)
    monkeypatch.setattr(overlap, "quiet_body", lambda **asked: fake_body(3000, 3000))
    bench = Bench("overlap", "quick")
    overlap.run(bench)
    assert (bench.status, len(bench.targets)) == (status, 2)
    assert [row["copies"] for row in bench.rows] == [NONE, BESIDE, STILL] * 2
    assert bench.rows[2]["hidden_percent"] == 0.0
    assert bench.rows[0]["hidden_percent"] is None


def test_a_backend_that_waits_for_its_copies_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    body = fake_body(3000, 3000)
    monkeypatch.setattr(type(body.backend), "can_overlap", False)
    monkeypatch.setattr(overlap, "quiet_body", lambda **asked: body)
    with pytest.raises(Refused, match="stands still for its copies"):
        overlap.run(Bench("overlap", "quick"))
