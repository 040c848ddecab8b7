"""A copier from one topic to another, with its offsets, in transactions: `python -m verify.exactly_once.copier …`

It assigns its partitions and joins no group: its transactional id alone fences its predecessor, as with one task of a
stream processor. It prints its progress after each committed transaction. It exits with 0 when everything is copied,
and with 3 where its transaction cannot continue: then the conductor starts another one.
"""

from __future__ import annotations

import sys

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

GROUP = TRANSACTIONAL_ID = "copier"
TIMEOUT_S = 20.0
UNABLE = 3


def copy(address: str, source: str, sink: str, partitions: int, total: int, batch: int) -> int:
    """Copy until `total` records of the source are copied."""
    # librdkafka 2.16 waits for ever for a coordinator that it knew before it bootstrapped anew, hence "none".
    options = {"bootstrap.servers": address, "log_level": 0, "metadata.recovery.strategy": "none"}
    producer = Producer(
        {**options, "transactional.id": TRANSACTIONAL_ID, "transaction.timeout.ms": 60_000, "linger.ms": 1}
    )
    producer.init_transactions(TIMEOUT_S)
    consumer = Consumer(
        {**options, "group.id": GROUP, "enable.auto.commit": False, "isolation.level": "read_committed"}
    )
    asked = [TopicPartition(source, number) for number in range(partitions)]
    positions = {one.partition: max(one.offset, 0) for one in consumer.committed(asked, TIMEOUT_S)}
    consumer.assign([TopicPartition(source, number, offset) for number, offset in positions.items()])
    while sum(positions.values()) < total:
        messages = [one for one in consumer.consume(batch, 1.0) if one.error() is None]
        if messages:
            _copy_batch(producer, consumer, messages, source, sink, positions)
            print(sum(positions.values()), flush=True)
    return 0


def _copy_batch(
    producer: Producer,
    consumer: Consumer,
    messages: list[Message],
    source: str,
    sink: str,
    positions: dict[int, int],
) -> None:
    producer.begin_transaction()
    for message in messages:
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        producer.produce(sink, message.value(), partition=partition)
        positions[partition] = offset + 1
    offsets = [TopicPartition(source, number, offset) for number, offset in positions.items()]
    producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), TIMEOUT_S)
    producer.commit_transaction(TIMEOUT_S)


def main(arguments: list[str]) -> int:
    address, source, sink, *numbers = arguments
    partitions, total, batch = map(int, numbers)
    try:
        return copy(address, source, sink, partitions, total, batch)
    except KafkaException as fault:
        print(fault, file=sys.stderr)
        return UNABLE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
