"""The same connection on a real Kafka, which is the judge of what we send."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.interop.conftest import kafka_jars
from tools.kafka_broker import KafkaBroker

from qanat.connection.batch_producer import produce
from qanat.connection.cluster import Cluster, parse_bootstrap
from qanat.connection.fetching import FetchLimits, fetch
from qanat.connection.offsets import list_bounds
from qanat.wire.compression import Codec
from qanat.wire.records import Record, encode_batch

pytestmark = pytest.mark.long

__all__ = ["kafka_jars"]


async def test_kafka_takes_our_records_and_gives_them_back(kafka_jars: Path, tmp_path: Path) -> None:
    broker = KafkaBroker(kafka_jars, tmp_path)
    with broker.running():
        async with Cluster(parse_bootstrap(broker.address), timeout_s=60) as cluster:
            deadline = cluster.deadline()
            for codec in Codec:
                records = [Record(number, 1000, b"k", b"v%d" % number, (("h", b"x"),)) for number in range(3)]
                await produce(cluster, "orders", {0: encode_batch(records, codec=codec)}, -1, deadline)
            view = await cluster.topic("orders", deadline)
            bounds = await list_bounds(cluster, view, deadline)
            link = await cluster.node_link(view.leaders[0], deadline)
            (fetched,) = await fetch(link, "orders", {0: 1}, FetchLimits(), deadline)
            coordinator = await cluster.coordinator_link("readers", deadline)

    assert bounds == {0: (0, 15)}
    assert [record.offset for record in fetched.records] == list(range(1, 15))
    assert fetched.records[0].headers == (("h", b"x"),)
    assert coordinator.address == broker.address
