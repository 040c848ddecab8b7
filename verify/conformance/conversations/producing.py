"""Produce and InitProducerId: appended batches and errors."""

from __future__ import annotations

import struct

from qanat.wire.compression import Codec
from qanat.wire.kafka.messages.init_producer_id import InitProducerIdRequest
from qanat.wire.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from qanat.wire.kafka.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from qanat.wire.kafka.registry import ApiKey
from verify.conformance.play import Play
from verify.conformance.script import (
    START_MS,
    batch,
    conversation,
    fetch_request,
    make_topic,
    produce_request,
    topic_id,
)

PRODUCE = ApiKey.PRODUCE


@conversation
def produce_in_every_version(play: Play) -> None:
    name = make_topic(play, partitions=2)
    identity = topic_id(play, name)
    for version in play.versions(PRODUCE):
        for acks in (1, -1):
            request = produce_request(name, batch(b"a", b"b"), acks=acks, identity=identity)
            play.exchange(PRODUCE, version, request, f"acks={acks}")
        play.exchange(PRODUCE, version, produce_request("nobody", batch(), identity=b"\x07" * 16), "unknown topic")
        play.exchange(PRODUCE, version, produce_request(name, batch(), 9, identity=identity), "unknown partition")


@conversation
def produce_with_each_acks(play: Play) -> None:
    name = make_topic(play)
    for acks in (7, -2, 2):
        play.exchange(PRODUCE, 7, produce_request(name, batch(), acks=acks), f"acks={acks}")
    play.send_expecting_no_response(PRODUCE, 7, produce_request(name, batch(), acks=0), "acks=0")
    play.exchange(PRODUCE, 7, produce_request(name, batch()), "after acks=0, on the same connection")
    play.send_expecting_no_response(PRODUCE, 7, produce_request("nobody", batch(), acks=0), "acks=0, unknown topic")
    play.exchange(ApiKey.FETCH, 11, fetch_request(name), "what is there now", on="b")


@conversation
def produce_where_fewer_replicas_exist_than_must_be_in_sync(play: Play) -> None:
    """One replica, and `min.insync.replicas` of 3: the existing replicas suffice."""
    name = make_topic(play, min_insync_replicas="3")
    for version in (7, 9):
        for acks in (0, 1, -1):
            if acks:
                play.exchange(PRODUCE, version, produce_request(name, batch(), acks=acks), f"acks={acks}")
            else:
                play.send_expecting_no_response(PRODUCE, version, produce_request(name, batch(), acks=acks), "acks=0")
    play.exchange(ApiKey.FETCH, 11, fetch_request(name), "what is there now", on="b")


@conversation
def produce_what_is_no_batch(play: Play) -> None:
    name = make_topic(play)
    good = batch(b"a", b"b", b"c")
    old = struct.pack(">qiIbbii", 0, 22, 0, 0, 0, -1, 4) + b"abcd"
    flipped = good[:-1] + bytes([good[-1] ^ 1])
    cases: dict[str, bytes | None] = {
        "null": None,
        "empty": b"",
        "two batches": good + good,
        "corrupt checksum": flipped,
        "cut off": good[:-5],
        "magic 0": old,
        "magic 3": good[:16] + b"\x03" + good[17:],
        "only a header": good[:61],
        "trailing bytes": good + b"xxx",
        "ten bytes": bytes(10),
        "wrong record count": good[:57] + struct.pack(">i", 7) + good[61:],
        "negative length": good[:8] + struct.pack(">i", -1) + good[12:],
    }
    for version in (3, 7, 9):
        for case, records in cases.items():
            play.exchange(PRODUCE, version, produce_request(name, records), case, on=f"{case} v{version}")
    play.exchange(ApiKey.FETCH, 11, fetch_request(name), "nothing is there", on="b")


@conversation
def produce_compressed(play: Play) -> None:
    name = make_topic(play)
    for version in (3, 6, 7, 9):
        for codec in (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
            request = produce_request(name, batch(b"a" * 100, b"b" * 100, codec=codec))
            play.exchange(PRODUCE, version, request, codec.name.lower(), on=f"{codec.name} v{version}")


@conversation
def produce_too_much(play: Play) -> None:
    name = make_topic(play, max_message_bytes="1000")
    for version in (3, 8, 9):
        play.exchange(PRODUCE, version, produce_request(name, batch(b"a" * 900)), "small enough")
        play.exchange(PRODUCE, version, produce_request(name, batch(b"a" * 2000)), "too large")
        play.exchange(
            PRODUCE, version, produce_request(name, batch(b"a" * 2000, codec=Codec.GZIP)), "too large, packed"
        )


@conversation
def produce_to_a_compacted_topic(play: Play) -> None:
    name = make_topic(play, cleanup_policy="compact")
    records = batch(b"a", b"b")
    without_key = batch_without_keys()
    for version in (7, 8, 9):
        play.exchange(PRODUCE, version, produce_request(name, records), "with keys")
        play.exchange(PRODUCE, version, produce_request(name, without_key), "without keys")


def batch_without_keys() -> bytes:
    from qanat.wire.records import Record, encode_batch

    return bytes(encode_batch([Record(number, START_MS, None, b"v") for number in range(2)]))


@conversation
def produce_with_log_append_time(play: Play) -> None:
    name = make_topic(play, message_timestamp_type="LogAppendTime")
    for version in (3, 9):
        play.exchange(PRODUCE, version, produce_request(name, batch(b"a", b"b")))
    play.exchange(ApiKey.FETCH, 11, fetch_request(name), "what is there now")


@conversation
def produce_odd_times(play: Play) -> None:
    name = make_topic(play)
    future = 4_102_444_800_000
    for version in (7, 9):
        play.exchange(PRODUCE, version, produce_request(name, batch(b"a", start_ms=future)), "from the year 2100")
        play.exchange(PRODUCE, version, produce_request(name, batch(b"a", start_ms=-1)), "without a time")
        play.exchange(PRODUCE, version, produce_request(name, batch(b"a", start_ms=0)), "from 1970")


@conversation
def produce_to_several_partitions(play: Play) -> None:
    name = make_topic(play, partitions=3)
    other = make_topic(play, "other")
    for version in (7, 9):
        rows = [PartitionProduceData(number, memoryview(batch(b"x"))) for number in (2, 0, 5)]
        topics = [
            TopicProduceData(name, partition_data=rows),
            TopicProduceData(other, partition_data=[PartitionProduceData(0, memoryview(batch()))]),
        ]
        play.exchange(PRODUCE, version, ProduceRequest(None, -1, 5_000, topics))
        play.exchange(PRODUCE, version, ProduceRequest(None, -1, 5_000, []), "no topics")


@conversation
def produce_to_a_topic_of_the_broker(play: Play) -> None:
    for name in ("__consumer_offsets", "__cluster_metadata", "a b", "", "."):
        play.exchange(PRODUCE, 9, produce_request(name, batch()), repr(name), on=repr(name))


@conversation
def produce_creates_nothing(play: Play) -> None:
    name = f"{play.name}-absent"
    play.exchange(PRODUCE, 9, produce_request(name, batch()))
    play.exchange(ApiKey.METADATA, 9, MetadataRequest([MetadataRequestTopic(name=name)], False), "still absent")


@conversation
def produce_in_sequence(play: Play) -> None:
    name = make_topic(play)
    identity = play.exchange(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(None, 60_000)).producer_id

    def send(case: str, sequence: int, epoch: int = 0, producer_id: int = identity) -> None:
        records = batch(b"a", b"b", producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
        play.exchange(PRODUCE, 9, produce_request(name, records), case)

    send("first", 0)
    send("second", 2)
    send("second again", 2)
    send("first again", 0)
    send("a gap", 9)
    send("third", 4)
    send("a new epoch that begins in the middle", 5, epoch=1)
    send("a new epoch", 0, epoch=1)
    send("an old epoch", 6, epoch=0)
    send("an unknown producer that begins in the middle", 7, producer_id=identity + 1000)
    play.exchange(ApiKey.FETCH, 11, fetch_request(name), "what is there now")


@conversation
def init_producer_id_in_every_version(play: Play) -> None:
    for version in play.versions(ApiKey.INIT_PRODUCER_ID):
        play.exchange(ApiKey.INIT_PRODUCER_ID, version, InitProducerIdRequest(None, 60_000))
        play.exchange(ApiKey.INIT_PRODUCER_ID, version, InitProducerIdRequest("", 60_000), "empty transactional id")
    for version in play.versions(ApiKey.INIT_PRODUCER_ID, 3):
        play.exchange(
            ApiKey.INIT_PRODUCER_ID, version, InitProducerIdRequest(None, 60_000, 5, 3), "with an id of its own"
        )
        play.exchange(ApiKey.INIT_PRODUCER_ID, version, InitProducerIdRequest(None, 60_000, 5, -1), "id without epoch")
