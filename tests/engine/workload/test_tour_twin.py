"""The tour on a twin behind a host, from its first step to its end: the study's figures, at whatever pace.

pytest tests/engine/workload/test_tour_twin.py
"""

import re

import pytest

from engine.host import Host
from engine.twin.live import live_config
from engine.twin_body import TwinConfig
from engine.workload.tour.state import Phase, Status
from engine.workload.tour.tour import Tour
from tests.engine.test_host import WAIT_S, until

TAB = "tab 1"


class NoSwarm:
    def stop(self, author: str) -> bool:
        return False


@pytest.mark.timeout(300)
def test_every_step_of_the_tour_is_seen_on_a_twin_and_told_in_its_time_and_bytes() -> None:
    host = Host(live_config(twin=TwinConfig(pace=50.0)))
    host.start()
    knobs = host.wait_ready(WAIT_S).knobs
    tour = Tour(host, NoSwarm())
    tour.start(TAB)
    said = []
    for step in range(6):
        tour.act(TAB)
        until(lambda step=step: tour.look(TAB).steps[step].status in (Status.SEEN, Status.UNSEEN))
        now = tour.look(TAB).steps[step]
        assert now.status is Status.SEEN, now.said
        said.append(now.said)
        tour.next(TAB)
        until(lambda step=step: tour.look(TAB).step > step or tour.look(TAB).phase is not Phase.RUNNING)
    assert re.match(r"8 of 8 slots run and hold 4\d,\d{3} tokens, [67],\d{3}\.\d MiB of the card;", said[0])
    assert "Price: 0 bytes copied, 0 tokens recomputed." in said[1]
    assert re.search(r"left: [89]\d\d\.\d MiB of the card to the host pool in \d\d(\.\d)? ms\.", said[2])
    waited = re.search(r"waited ([\d.]+) s on pytest", said[4])
    assert waited is not None
    assert float(waited[1]) >= 5.0
    times = re.search(r"so this took (\d+) times as long", said[5])
    assert times is not None
    assert 150 < int(times[1]) < 200
    until(lambda: tour.look(TAB).phase is Phase.OVER)
    assert host.snapshot.knobs == knobs
    assert host.stop(WAIT_S)
