"""Members of share groups in few words: sessions on raw connections."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tests.servers.kafka.admin_requests import SET, change, look
from tests.servers.kafka.raw import RawClient

from qanat.wire.batch_header import split_batches
from qanat.wire.kafka.messages import share_acknowledge as acknowledging
from qanat.wire.kafka.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from qanat.wire.kafka.messages.share_fetch import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ShareFetchRequest,
    ShareFetchResponse,
)
from qanat.wire.kafka.registry import ApiKey
from qanat.wire.records import Record, decode_records, encode_batch

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
GROUP = 32
NOW_MS = 1_750_000_000_000

Said = tuple[int, int, list[int]]


def produce(client: RawClient, topic: str, *values: bytes, partition: int = 0, headers: Any = (), **fields: Any) -> int:
    """One batch of records k0, k1, …; returns the first offset."""
    records = [Record(n, NOW_MS + n, b"k%d" % n, value, headers) for n, value in enumerate(values)]
    return send(client, topic, bytes(encode_batch(records, **fields)), partition)


def send(client: RawClient, topic: str, batch: bytes, partition: int = 0, transactional_id: str | None = None) -> int:
    data = [TopicProduceData(topic, bytes(16), [PartitionProduceData(partition, memoryview(batch))])]
    answer = client.ask(ApiKey.PRODUCE, 9, ProduceRequest(transactional_id, -1, 10_000, data))
    row = answer.responses[0].partition_responses[0]
    assert not row.error_code, row
    return int(row.base_offset)


def configure(client: RawClient, group: str, **settings: object) -> None:
    """Settings of one group."""
    acts = [(name.replace("_", "."), SET, str(value)) for name, value in settings.items()]
    answer = change(client, group, *acts, kind=GROUP)
    assert not answer.error_code, answer


class Member:
    """A member of a share group that works on some partitions of one topic."""

    def __init__(
        self, client: RawClient, group: str, name: str, topic: str, partitions: Iterable[int] = (0,), version: int = 2
    ) -> None:
        self._client, self._version = client, version
        self.group, self.name = group, name
        self.topic_id = bytes(look(client, topic)[topic].topic_id)
        self._partitions = list(partitions)
        self._epoch = 0

    def fetch(
        self, said: dict[int, Sequence[Said]] | None = None, *, wait_ms: int = 0, most: int = 500, **fields: Any
    ) -> ShareFetchResponse:
        self.begin_fetch(said, wait_ms=wait_ms, most=most, **fields)
        return self.end_fetch()

    def begin_fetch(
        self, said: dict[int, Sequence[Said]] | None = None, *, wait_ms: int = 0, most: int = 500, **fields: Any
    ) -> None:
        said = said or {}
        named = self._partitions if self._epoch == 0 else list(said)
        rows = [FetchPartition(n, [AcknowledgementBatch(*one) for one in said.get(n, ())]) for n in named]
        request = ShareFetchRequest(
            self.group,
            self.name,
            self._epoch,
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_records=most,
            batch_size=500,
            topics=[FetchTopic(self.topic_id, rows)] if rows else [],
            **fields,
        )
        self._client.send(ApiKey.SHARE_FETCH, self._version, request)

    def end_fetch(self) -> ShareFetchResponse:
        answer: ShareFetchResponse = self._client.receive(ApiKey.SHARE_FETCH, self._version)
        if not answer.error_code:
            self._epoch += 1
        return answer

    def take(self, *, wait_ms: int = 10_000, **fields: Any) -> list[tuple[int, int, int]]:
        """What is given out of the only partition: first and last offset, and how often it was delivered."""
        return given(self.fetch(wait_ms=wait_ms, **fields))

    def acknowledge(self, *said: Said, partition: int = 0, **fields: Any) -> int:
        """The error for a partition, or for the request."""
        batches = [acknowledging.AcknowledgementBatch(*one) for one in said]
        topics = [
            acknowledging.AcknowledgeTopic(
                self.topic_id, [acknowledging.AcknowledgePartition(partition, batches)] if batches else []
            )
        ]
        request = acknowledging.ShareAcknowledgeRequest(self.group, self.name, self._epoch, topics=topics, **fields)
        answer = self._client.ask(ApiKey.SHARE_ACKNOWLEDGE, self._version, request)
        if answer.error_code:
            return int(answer.error_code)
        self._epoch += 1
        return int(answer.responses[0].partitions[0].error_code) if answer.responses else 0

    def leave(self) -> int:
        self._epoch = -1
        return self.acknowledge()


def given(answer: ShareFetchResponse) -> list[tuple[int, int, int]]:
    assert not answer.error_code, answer
    return [
        (one.first_offset, one.last_offset, one.delivery_count)
        for topic in answer.responses
        for row in topic.partitions
        for one in row.acquired_records
    ]


def held(answer: ShareFetchResponse) -> list[Record]:
    """The records that the answer gives to the member."""
    found = []
    for topic in answer.responses:
        for row in topic.partitions:
            ranges = [(one.first_offset, one.last_offset) for one in row.acquired_records]
            data = row.records
            assert data is None or isinstance(data, bytes | memoryview)
            for batch in split_batches(data or b""):
                found += [
                    record
                    for record in decode_records(batch, 1 << 26)
                    if any(first <= record.offset <= last for first, last in ranges)
                ]
    return found
