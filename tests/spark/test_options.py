"""Options: the connector's names work, and an error suggests the right name."""

from __future__ import annotations

import pytest

from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition
from qanat.spark.options.options import sink_options, source_options
from qanat.spark.sink.outgoing_columns import RowsError, check_columns

SERVER = {"kafka.bootstrap.servers": "127.0.0.1:9092"}
READ = {**SERVER, "subscribe": "orders"}


def test_names_are_not_case_sensitive_and_defaults_are_the_connectors() -> None:
    batch = source_options({"KAFKA.bootstrap.Servers": "h:1", "SubScribe": "a, b,a"}, is_stream=False)
    stream = source_options(READ, is_stream=True)

    assert batch.subscription.names == ("a", "b")
    assert (batch.start.kind, batch.end.kind, batch.fail_on_data_loss) == ("earliest", "latest", True)
    assert stream.start.kind == "latest"


def test_one_timestamp_goes_before_many_and_these_before_offsets() -> None:
    every = {
        "startingTimestamp": "5",
        "startingOffsetsByTimestamp": '{"orders": {"0": 7}}',
        "startingOffsets": '{"orders": {"0": 9}}',
    }
    kinds = []
    for name in list(every):
        kinds.append(source_options({**READ, **every}, is_stream=True).start.kind)
        del every[name]

    assert kinds == ["timestamp", "timestamps", "offsets"]


def test_an_assignment_takes_some_partitions() -> None:
    chosen = source_options({**SERVER, "assign": '{"a": [0, 2]}'}, is_stream=True).subscription

    assert chosen.takes(TopicPartition("a", 2))
    assert not chosen.takes(TopicPartition("a", 1))


def test_sizes_and_durations_have_units() -> None:
    given = {**READ, "maxBytesPerTrigger": "64k", "maxTriggerDelay": "15m"}
    options = source_options(given, is_stream=True)

    assert (options.max_bytes_per_trigger, options.max_trigger_delay_s) == (65_536, 900.0)
    assert source_options({**READ, "maxBytesPerTrigger": "1 GiB"}, is_stream=True).max_bytes_per_trigger == 1 << 30


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "kafka.bootstrap.servers is missing"),
        (SERVER, "exactly one of subscribe, subscribePattern and assign"),
        ({**READ, "assign": '{"a": [0]}'}, "there are several"),
        ({"kafka.bootstrap.server": "h:1"}, "did you mean kafka.bootstrap.servers"),
        ({"bootstrap.servers": "h:1"}, "there is no option bootstrap.servers, did you mean kafka.bootstrap.servers"),
        ({**SERVER, "subscrib": "a"}, "did you mean subscribe"),
        ({**SERVER, "topic": "a"}, "did you mean subscribe"),
        ({**SERVER, "subscribe.pattern": "a.*"}, "did you mean subscribePattern"),
        ({**READ, "startingOffsetsByTimestamp": '{"orders": {"0": -1}}'}, "needs milliseconds since 1970, not -1"),
        ({**SERVER, "subscribe": " , "}, "names no topic"),
        ({**SERVER, "subscribePattern": "("}, "is not a regular expression"),
        ({**READ, "startingOffset": "earliest"}, "did you mean startingOffsets"),
        ({**READ, "maxOffsetPerTrigger": "3"}, "did you mean maxOffsetsPerTrigger"),
        ({**READ, "maxOffsetsPerTrigger": "0"}, "must be a whole number above 0"),
        ({**READ, "minPartitions": "many"}, "option minPartitions is 'many'"),
        ({**READ, "failOnDataLoss": "maybe"}, "must be true or false"),
        ({**READ, "startingOffsets": "beginning"}, "earliest, latest, group or JSON"),
        ({**READ, "startingOffsets": '{"orders": {"0": -3}}'}, "-3 is not an offset of orders-0"),
        ({**READ, "startingOffsets": "group"}, "set kafka.group.id"),
        ({**READ, "startingTimestamp": "yesterday"}, "must be milliseconds since 1970"),
        ({**READ, "kafka.isolation.level": "dirty"}, "must be one of read_committed, read_uncommitted"),
        ({**READ, "minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "3"}, "is above maxOffsetsPerTrigger"),
        ({**READ, "maxBytesPerTrigger": "-1"}, "a number of bytes"),
        ({**READ, "maxTriggerDelay": "soon"}, "a duration"),
        ({**READ, "endingOffsets": "latest"}, "is for batch reads"),
        ({**READ, "kafka.auto.offset.reset": "latest"}, "cannot be set: startingOffsets says where"),
        ({**READ, "kafka.enable.auto.commit": "true"}, "with kafka.group.id a group shows it"),
        ({**READ, "kafka.value.deserializer": "x"}, "use valueFormat"),
    ],
)
def test_a_wrong_option_of_a_stream_is_named(options: dict[str, str], reason: str) -> None:
    with pytest.raises(QanatError, match=reason):
        source_options(options, is_stream=True)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"startingOffsets": "latest"}, "cannot start at latest"),
        ({"startingOffsets": '{"orders": {"0": -1}}'}, "cannot start at latest"),
        ({"endingOffsets": "earliest"}, "cannot end at earliest"),
        ({"endingOffsets": "group", "kafka.group.id": "g"}, "cannot end at group"),
        ({"endingOffsets": '{"orders": {"0": -2}}'}, "cannot end at earliest"),
    ],
)
def test_a_batch_read_has_two_ends(options: dict[str, str], reason: str) -> None:
    with pytest.raises(QanatError, match=reason):
        source_options({**READ, **options}, is_stream=False)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"delivery": "at-most-once"}, "must be one of at-least-once, exactly-once"),
        ({"delivery": "exactly-once", "kafka.acks": "1"}, "needs kafka.acks=all"),
        ({"delivery": "exactly-once", "txnAppId": "a"}, "txnAppId and txnVersion go together"),
        ({"txnAppId": "a", "txnVersion": "1"}, "txnAppId needs delivery=exactly-once"),
        ({"txnAppId": "a", "txnVersion": "-1"}, "option txnVersion is '-1', but must be a whole number, 0 or above"),
        ({"kafka.compression.type": "rar"}, "must be one of none, gzip"),
        ({"topics": "a"}, "did you mean topic"),
        ({"kafka.value.serializer": "x"}, "written as bytes"),
        ({"kafka.partitioner.class": "x"}, "the column partition says where"),
    ],
)
def test_a_wrong_option_of_a_write_is_named(options: dict[str, str], reason: str) -> None:
    with pytest.raises(QanatError, match=reason):
        sink_options({**SERVER, **options})


def test_tuning_of_the_other_client_is_no_mistake() -> None:
    tuning = {
        "kafkaConsumer.pollTimeoutMs": "512",
        "fetchOffset.numRetries": "3",
        "fetchOffset.retryIntervalMs": "10",
        "groupIdPrefix": "mine",
        "kafka.max.partition.fetch.bytes": "1048576",
        "kafka.max.poll.records": "500",
        "kafka.linger.ms": "5",
        "kafka.retries": "3",
    }

    assert source_options({**READ, **tuning}, is_stream=True) == source_options(READ, is_stream=True)
    assert sink_options({**SERVER, **tuning}) == sink_options(SERVER)


def test_columns_that_mean_nothing_are_left_out_but_a_misspelt_one_is_missed() -> None:
    check_columns({"value": "string", "id": "bigint", "offset": "bigint", "timestampType": "int"}, "orders")
    for name, meant in {"keys": "key", "Headers": "headers", "topics": "topic", "partitions": "partition"}.items():
        with pytest.raises(RowsError, match=f"column {name} cannot be written; did you mean {meant}"):
            check_columns({"value": "string", name: "string"}, "orders")
