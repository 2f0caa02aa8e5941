"""A callback that a newer request does not cut short."""

import pytest
from streamlit.runtime.scriptrunner import RerunData, RerunException

from panels.whole import whole


def test_a_callback_is_done_before_the_request_that_came_meanwhile() -> None:
    newer = iter([RerunException(RerunData(query_string="first")), RerunException(RerunData(query_string="second"))])
    done: list[str] = []

    @whole
    def callback(value: str) -> None:
        for request in newer:
            raise request
        done.append(value)

    with pytest.raises(RerunException) as raised:
        callback("typed")
    assert done == ["typed"]
    assert raised.value.rerun_data.query_string == "second"


def test_undisturbed_it_is_called_once() -> None:
    done: list[int] = []
    whole(done.append)(1)
    assert done == [1]
