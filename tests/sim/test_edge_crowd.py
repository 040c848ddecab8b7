"""Ten thousand nodes come back to one broker at once, in virtual time: all are up within a minute, by less than a core.

All at once takes 7 s, and 55 s after an outage, in which pauses have grown to that.
"""

from __future__ import annotations

import pytest
from verify.edge.crowd import Crowd, Outage

EDGES = 10_000
ALL_UP_S, CORES = 60.0, 1.0


@pytest.mark.parametrize(
    "outage",
    [
        Outage(0, is_silent=False),
        pytest.param(Outage(150, is_silent=False), marks=pytest.mark.long),
        pytest.param(Outage(150, is_silent=True), marks=pytest.mark.long),
    ],
    ids=["at once", "refused before", "silent before"],
)
def test_ten_thousand_nodes_are_up_within_a_minute(outage: Outage) -> None:
    crowd = Crowd(1, EDGES, outage)

    assert crowd.run() <= ALL_UP_S
    assert sum(edge.gave_up for edge in crowd.edges) == 0  # Nobody's answer came too late, and was made in vain.
    assert crowd.idle_share() <= CORES
    assert len(crowd.broker.nodes) == EDGES + 1
