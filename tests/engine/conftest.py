"""A running host over the scripted executor, for the tests that drive one from outside."""

from collections.abc import Iterator

import pytest

from engine.host import Host
from tests.engine.backends.fake_executor import FakeExecutor
from tests.engine.lab import fake_body

WAIT_S = 20.0


@pytest.fixture
def executor() -> FakeExecutor:
    return FakeExecutor()


@pytest.fixture
def host(executor: FakeExecutor) -> Iterator[Host]:
    host = Host(open_body=lambda config, report: fake_body(1024, 2048, executor))
    host.start()
    host.wait_ready(WAIT_S)
    yield host
    assert host.stop(WAIT_S)
