"""Stop strings and text deltas (case H4): no part of a stop string is ever handed out."""

from hypothesis import given
from hypothesis import strategies as st

from engine.output import TurnOutput


class Letters:
    """A decoder for which token i is the i-th piece."""

    def __init__(self, pieces: list[str]) -> None:
        self._pieces = pieces

    def feed(self, token: int) -> str:
        return self._pieces[token]

    def flush(self) -> str:
        return ""


def deltas(pieces: list[str], stop: tuple[str, ...]) -> tuple[list[str], bool]:
    output = TurnOutput(Letters(pieces), stop)
    out = []
    for i in range(len(pieces)):
        out.append(output.feed(i))
        if output.stopped:
            return out, True
    out.append(output.flush())
    return out, output.stopped


def test_a_stop_string_over_several_tokens_is_cut_with_no_part_of_it_sent() -> None:
    out, stopped = deltas(["Hel", "lo E", "N", "D more"], ("END",))
    assert stopped
    assert "".join(out) == "Hello "
    assert all("E" not in delta for delta in out)


def test_the_first_of_two_overlapping_stops_wins() -> None:
    assert "".join(deltas(["a", "b", "c", "d"], ("cd", "bc"))[0]) == "a"


def test_a_false_start_is_released_by_the_end() -> None:
    out, stopped = deltas(["x", "EN"], ("END",))
    assert not stopped
    assert "".join(out) == "xEN"


def test_without_a_decoder_there_is_no_text() -> None:
    output = TurnOutput(None, ("x",))
    assert output.feed(3) == "" == output.flush()


@given(st.lists(st.text("ab", max_size=3), max_size=12), st.lists(st.text("ab", min_size=1, max_size=4), max_size=3))
def test_joined_deltas_are_the_text_up_to_the_first_stop(pieces: list[str], stop: list[str]) -> None:
    text = "".join(pieces)
    cuts = [at for s in stop if (at := text.find(s)) >= 0]
    joined = "".join(deltas(pieces, tuple(stop))[0])
    if not cuts:
        assert joined == text
    else:
        assert text.startswith(joined)
        assert all(s not in joined for s in stop)
