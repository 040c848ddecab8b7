"""A redrive over HTTP in a cluster of three: leaders and coordinators are other brokers than the one that is asked."""

from __future__ import annotations

from collections import Counter

from tests.app.dead_letters.letters import committed_records, origins, write_letters
from tests.app.processes import RunningBroker
from tests.servers.http.test_cluster import call, cluster, wait_for_three

__all__ = ["cluster"]


def test_each_broker_redrives_for_the_whole_cluster(cluster: list[RunningBroker]) -> None:
    wait_for_three(cluster[0])
    for name in ("orders", "orders.dead"):
        assert call(cluster[0], "POST", "/api/v1/topics", {"name": name, "partitions": 3})[0] == 201
    for number in range(3):
        write_letters(cluster[0].address, "orders.dead", origins("orders", 30, partitions=3), partition=number)
    done = []
    for broker in cluster:
        path = "/api/v1/topics/orders.dead/dead-letters/redrive"
        status, answer = call(broker, "POST", path, {"max_records": 40})
        assert status == 200, answer
        done.append((answer["redriven"], answer["is_complete"]))

    assert done == [(40, False), (40, False), (10, True)]
    found = committed_records(cluster[0].address, "orders")
    assert Counter(bytes(one.value() or b"").decode() for one in found) == Counter(
        {f"orders-{number % 3}-{number}": 3 for number in range(30)}
    )
