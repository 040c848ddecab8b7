"""Benchmark of the codec on the most frequent messages: the best of many short runs.

    python tools/bench_codec.py

Each line is a message, its time, and its goal.
"""

from __future__ import annotations

import timeit
from collections.abc import Callable, Iterator
from typing import Any

from qanat.wire.kafka.headers import frame_request, frame_response, read_request_header
from qanat.wire.kafka.messages import fetch, metadata, produce

TOPIC_ID = bytes(range(16))
RUNS = 1_000


def cases() -> Iterator[tuple[str, float, Callable[[], Any]]]:
    yield from produce_cases(9)
    yield from fetch_cases(17)
    yield from metadata_cases(12)


def produce_cases(version: int) -> Iterator[tuple[str, float, Callable[[], Any]]]:
    partition = produce.PartitionProduceData(3, memoryview(bytes(1 << 20)))
    request = produce.ProduceRequest(None, -1, 30_000, [produce.TopicProduceData("orders", TOPIC_ID, [partition])])
    frame = b"".join(frame_request(0, version, 7, "rdkafka", produce.write_request(request, version)))
    view = memoryview(frame)[4:]
    start = read_request_header(view).body_position
    answer = produce.PartitionProduceResponse(3, 0, 1_234, -1, 0)
    response = produce.ProduceResponse([produce.TopicProduceResponse("orders", TOPIC_ID, [answer])])
    yield "request header, read", 1.5, lambda: read_request_header(view)
    yield "produce request of 1 MB, read", 3, lambda: produce.read_request(view, version, start)
    yield "produce response, write", 2, lambda: produce.write_response(response, version)
    yield "produce response, write and frame", 3, lambda: frame_response(0, 9, 7, produce.write_response(response, 9))


def fetch_cases(version: int) -> Iterator[tuple[str, float, Callable[[], Any]]]:
    asked = [fetch.FetchPartition(number, 0, 100, partition_max_bytes=1 << 20) for number in range(10)]
    request = fetch.FetchRequest(topics=[fetch.FetchTopic("orders", TOPIC_ID, asked)])
    data = memoryview(b"".join(fetch.write_request(request, version)))
    records = memoryview(bytes(100_000))
    given = [fetch.PartitionData(number, 0, 100, 100, 0, records=records) for number in range(10)]
    response = fetch.FetchResponse(responses=[fetch.FetchableTopicResponse("orders", TOPIC_ID, given)])
    yield "fetch request of 10 partitions, read", 12, lambda: fetch.read_request(data, version)
    yield "fetch response of 10 x 100 KB, write", 20, lambda: fetch.write_response(response, version)


def metadata_cases(version: int) -> Iterator[tuple[str, float, Callable[[], Any]]]:
    partitions = [metadata.MetadataResponsePartition(0, number, 1, 5, [1, 2, 3], [1, 2, 3], []) for number in range(10)]
    topics = [metadata.MetadataResponseTopic(0, f"topic-{number}", partitions=partitions) for number in range(100)]
    brokers = [metadata.MetadataResponseBroker(number, "host", 9092) for number in range(3)]
    response = metadata.MetadataResponse(brokers=brokers, topics=topics)
    data = memoryview(b"".join(metadata.write_response(response, version)))
    yield "metadata of 1000 partitions, write", 3_000, lambda: metadata.write_response(response, version)
    yield "metadata of 1000 partitions, read", 3_000, lambda: metadata.read_response(data, version)


def main() -> None:
    for name, goal, run in cases():
        number = 100 if goal < 100 else 1
        best = min(timeit.repeat(run, number=number, repeat=RUNS if number > 1 else 100)) / number * 1e6
        print(f"{name:40} {best:9.2f} us   goal {goal:g} us{'' if best <= goal else '   MISSED'}")


if __name__ == "__main__":
    main()
