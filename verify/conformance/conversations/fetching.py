"""Fetch without sessions: records, limits, errors."""

from __future__ import annotations

from qanat.wire.compression import Codec
from qanat.wire.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from qanat.wire.kafka.registry import ApiKey
from verify.conformance.play import Play
from verify.conformance.script import batch, conversation, fetch_request, fill, make_topic, topic_id

FETCH = ApiKey.FETCH


@conversation
def fetch_in_every_version(play: Play) -> None:
    name = make_topic(play)
    identity = topic_id(play, name)
    fill(play, name, batch(b"a", b"b", b"c"), batch(b"d"))
    for version in play.versions(FETCH):
        for offset in (0, 2, 3, 4):
            play.exchange(FETCH, version, fetch_request(name, offset, identity=identity), f"from {offset}")
        for offset in (5, -1, 1 << 40):
            play.exchange(
                FETCH, version, fetch_request(name, offset, identity=identity), f"from {offset}, out of range"
            )
        play.exchange(FETCH, version, fetch_request("nobody", identity=b"\x07" * 16), "unknown topic")
        play.exchange(FETCH, version, fetch_request(name, partition=3, identity=identity), "unknown partition")
        play.exchange(FETCH, version, fetch_request(name, identity=identity, isolation_level=1), "committed")


@conversation
def fetch_within_limits(play: Play) -> None:
    name = make_topic(play)
    fill(play, name, *(batch(b"x" * 500) for _ in range(4)))
    for limit in (0, 1, 600, 1200, 100_000):
        play.exchange(FETCH, 11, fetch_request(name, max_bytes=limit), f"max_bytes={limit}")
        play.exchange(FETCH, 11, fetch_request(name, partition_max_bytes=limit), f"partition_max_bytes={limit}")
    play.exchange(FETCH, 11, fetch_request(name, 1, min_bytes=1, max_wait_ms=10_000), "enough at once")
    play.exchange(FETCH, 11, fetch_request(name, 4, min_bytes=1, max_wait_ms=50), "nothing in time")
    play.exchange(FETCH, 11, fetch_request(name, min_bytes=1_000_000, max_wait_ms=50), "less than wanted in time")
    play.exchange(FETCH, 11, fetch_request(name, 9, min_bytes=1_000_000, max_wait_ms=10_000), "an error does not wait")


@conversation
def fetch_waits_for_records(play: Play) -> None:
    name = make_topic(play)
    play.send(FETCH, 11, fetch_request(name, min_bytes=1, max_wait_ms=15_000), "parked until records come")
    fill(play, name, batch(b"late"))
    play.receive()


@conversation
def fetch_from_several_partitions(play: Play) -> None:
    name = make_topic(play, partitions=3)
    other = make_topic(play, "other")
    for number in range(3):
        fill(play, name, batch(b"x" * 300), partition=number)
    for limit in (1, 500, 700, 100_000):
        rows = [FetchPartition(number, -1, 0, partition_max_bytes=10_000) for number in (0, 1, 2)]
        topics = [FetchTopic(name, partitions=rows), FetchTopic(other, partitions=[FetchPartition(0, -1, 0)])]
        request = FetchRequest(max_bytes=limit, session_epoch=-1, topics=topics)
        play.exchange(FETCH, 11, request, f"max_bytes={limit}")
    play.exchange(FETCH, 11, FetchRequest(session_epoch=-1), "of nothing")


@conversation
def fetch_with_leader_epochs(play: Play) -> None:
    name = make_topic(play)
    identity = topic_id(play, name)
    fill(play, name, batch(b"a"))
    for version in (9, 12, 13, 17):
        for current, last in ((0, -1), (5, -1), (-1, 0), (0, 0), (0, 7)):
            row = FetchPartition(0, current, 0, last, partition_max_bytes=10_000)
            request = FetchRequest(session_epoch=-1, topics=[FetchTopic(name, identity, [row])], max_bytes=10_000)
            play.exchange(FETCH, version, request, f"current {current}, last fetched {last}")


@conversation
def fetch_compressed(play: Play) -> None:
    name = make_topic(play)
    fill(play, name, batch(b"a" * 100, codec=Codec.GZIP), batch(b"b" * 100, codec=Codec.ZSTD), batch(b"c"))
    for version in (4, 9, 10, 12):
        for offset in (0, 1, 2):
            play.exchange(FETCH, version, fetch_request(name, offset), f"from {offset}; offset 1 is zstd")


@conversation
def fetch_as_a_replica(play: Play) -> None:
    name = make_topic(play)
    identity = topic_id(play, name)
    fill(play, name, batch(b"a"))
    for version in (11, 13):
        request = fetch_request(name, identity=identity, replica_id=7)
        play.exchange(FETCH, version, request, "replica 7 is none")
    state = ReplicaState(7, 1)
    play.exchange(FETCH, 15, fetch_request(name, identity=identity, replica_state=state), "replica 7 is none")
