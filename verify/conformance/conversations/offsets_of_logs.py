"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords: the start and end offsets of logs."""

from __future__ import annotations

from qanat.wire.kafka.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from qanat.wire.kafka.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from qanat.wire.kafka.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from qanat.wire.kafka.registry import ApiKey
from verify.conformance.play import Play
from verify.conformance.script import START_MS, batch, conversation, fetch_request, fill, make_topic


def _asked(name: str, timestamp: int, partition: int = 0, epoch: int = -1, isolation: int = 0) -> ListOffsetsRequest:
    row = ListOffsetsPartition(partition, epoch, timestamp)
    return ListOffsetsRequest(-1, isolation, [ListOffsetsTopic(name, [row])])


@conversation
def list_offsets_in_every_version(play: Play) -> None:
    name = make_topic(play, partitions=2)
    fill(play, name, batch(b"a", b"b", b"c"), batch(b"d", start_ms=START_MS + 100))
    for version in play.versions(ApiKey.LIST_OFFSETS):
        for timestamp in (-1, -2, -3, -4, -5, -6, -9):
            play.exchange(ApiKey.LIST_OFFSETS, version, _asked(name, timestamp), f"timestamp {timestamp}")
            play.exchange(
                ApiKey.LIST_OFFSETS, version, _asked(name, timestamp, 1), f"timestamp {timestamp}, empty partition"
            )
        for delta in (-1, 0, 5, 10, 15, 20, 21, 100, 101):
            play.exchange(ApiKey.LIST_OFFSETS, version, _asked(name, START_MS + delta), f"start + {delta} ms")
        play.exchange(ApiKey.LIST_OFFSETS, version, _asked(name, START_MS, 1), "start, empty partition")
        play.exchange(ApiKey.LIST_OFFSETS, version, _asked(name, 0), "1970")


@conversation
def list_offsets_errors(play: Play) -> None:
    name = make_topic(play)
    fill(play, name, batch(b"a"))
    for version in (1, 4, 7, 9):
        play.exchange(ApiKey.LIST_OFFSETS, version, _asked("nobody", -1), "unknown topic")
        play.exchange(ApiKey.LIST_OFFSETS, version, _asked(name, -1, 4), "unknown partition")
        play.exchange(ApiKey.LIST_OFFSETS, version, _asked(name, -1, isolation=1), "committed")
        play.exchange(ApiKey.LIST_OFFSETS, version, _asked(name, START_MS, isolation=1), "committed, by time")
        play.exchange(ApiKey.LIST_OFFSETS, version, _asked("a b", -1), "a name that cannot be")
    for epoch in (0, 3):
        play.exchange(ApiKey.LIST_OFFSETS, 9, _asked(name, -1, epoch=epoch), f"leader epoch {epoch}")
        play.exchange(ApiKey.LIST_OFFSETS, 9, _asked(name, -2, epoch=epoch), f"leader epoch {epoch}, earliest")
    twice = [ListOffsetsPartition(0, -1, -1), ListOffsetsPartition(0, -1, -2)]
    request = ListOffsetsRequest(-1, 0, [ListOffsetsTopic(name, twice)])
    for version in (1, 7):
        play.exchange(ApiKey.LIST_OFFSETS, version, request, "the same partition twice")


@conversation
def offset_for_leader_epoch_in_every_version(play: Play) -> None:
    name = make_topic(play)
    fill(play, name, batch(b"a", b"b"))
    for version in play.versions(ApiKey.OFFSET_FOR_LEADER_EPOCH):
        for current, asked in ((-1, 0), (0, 0), (-1, -1), (-1, 5), (3, 0)):
            rows = [OffsetForLeaderPartition(0, current, asked)]
            request = OffsetForLeaderEpochRequest(-2, [OffsetForLeaderTopic(name, rows)])
            play.exchange(ApiKey.OFFSET_FOR_LEADER_EPOCH, version, request, f"current {current}, asked {asked}")
        for topic, number in (("nobody", 0), (name, 5)):
            rows = [OffsetForLeaderPartition(number, -1, 0)]
            request = OffsetForLeaderEpochRequest(-2, [OffsetForLeaderTopic(topic, rows)])
            play.exchange(ApiKey.OFFSET_FOR_LEADER_EPOCH, version, request, f"unknown, {number}")


@conversation
def delete_records_in_every_version(play: Play) -> None:
    name = make_topic(play)
    fill(play, name, batch(*[b"x"] * 10), batch(b"y"))
    for step, version in enumerate(play.versions(ApiKey.DELETE_RECORDS)):
        for topic, number, offset in (
            (name, 0, 2 * step + 1),
            (name, 0, 0),
            (name, 0, 99),
            (name, 0, -2),
            (name, 5, 0),
            ("nobody", 0, 0),
            ("__consumer_offsets", 0, 0),
        ):
            rows = [DeleteRecordsPartition(number, offset)]
            request = DeleteRecordsRequest([DeleteRecordsTopic(topic, rows)], 5_000)
            note = f"{topic.removeprefix(play.name)} {number} before {offset}"
            play.exchange(ApiKey.DELETE_RECORDS, version, request, note)
        play.exchange(ApiKey.FETCH, 11, fetch_request(name, 0), "the beginning is out of range")
        play.exchange(ApiKey.LIST_OFFSETS, 7, _asked(name, -2), "the beginning now")
    rows = [DeleteRecordsPartition(0, -1)]
    play.exchange(ApiKey.DELETE_RECORDS, 2, DeleteRecordsRequest([DeleteRecordsTopic(name, rows)], 5_000), "everything")
    play.exchange(ApiKey.LIST_OFFSETS, 7, _asked(name, -2), "the beginning at the end")
    compacted = make_topic(play, "compacted", cleanup_policy="compact")
    rows = [DeleteRecordsPartition(0, 0)]
    request = DeleteRecordsRequest([DeleteRecordsTopic(compacted, rows)], 5_000)
    play.exchange(ApiKey.DELETE_RECORDS, 2, request, "of a compacted topic")
