"""A batch is refused while others of its producer are in flight: librdkafka must not believe in a gap.

Told of a gap, it raises its producer epoch and sends batches of unknown fate again.
"""

from __future__ import annotations

import logging
import time

import pytest
from confluent_kafka import Producer

from qanat.broker.replicas.partition import Partition
from qanat.broker.replicas.partition_lookup import PartitionLookup
from qanat.log.runtime.log_runtime import LogRuntime
from qanat.model.error_codes import ErrorCode
from qanat.testing import EmbeddedBroker

IN_FLIGHT_S = 0.5
"""How long the refused batch is held, so that the client sends the next ones meanwhile."""
RECORDS = 5


class KeptMessages(logging.Handler):
    """Keeps every line that librdkafka logs."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())

    def of(self, words: str) -> list[str]:
        return [line for line in self.lines if words in line]


@pytest.mark.parametrize("is_known", [True, False], ids=["a known producer", "a new producer"])
def test_batches_behind_a_refused_one_are_refused_alike(
    qanat_broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch, is_known: bool
) -> None:
    qanat_broker.create_topic("t")
    refusals = [False, True] if is_known else [True]

    find_writable = PartitionLookup.writable

    def writable(lookup: PartitionLookup, topic: str, number: int) -> Partition | ErrorCode:
        if refusals and refusals.pop(0):
            time.sleep(IN_FLIGHT_S)
            return ErrorCode.NOT_ENOUGH_REPLICAS
        return find_writable(lookup, topic, number)

    monkeypatch.setattr(PartitionLookup, "writable", writable)
    monkeypatch.setattr(LogRuntime, "append_fast", lambda *_: None)  # It would append before anybody is asked.
    kept, logger = KeptMessages(), logging.Logger("librdkafka")
    logger.addHandler(kept)
    producer = Producer(
        {
            "bootstrap.servers": qanat_broker.bootstrap_servers,
            "enable.idempotence": True,
            "linger.ms": 0,
            "batch.num.messages": 1,
            "debug": "eos,msg",
        },
        logger=logger,
    )
    failed: list[object] = []
    for number in range(RECORDS):
        producer.produce("t", str(number), on_delivery=lambda error, _: failed.append(error) if error else None)
        if number == 0 and is_known:
            assert producer.flush(20) == 0
    assert producer.flush(20) == 0
    producer.poll(0.1)

    assert len(kept.of("encountered error")) > 1, "no batch was in flight behind the refused one"
    assert kept.of("skipped sequence numbers") == []
    assert failed == []
    stored = qanat_broker.records("t")
    assert [record.value for record in stored] == [str(number).encode() for number in range(RECORDS)]
