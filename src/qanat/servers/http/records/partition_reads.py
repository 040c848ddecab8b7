"""Reads of partitions, wherever their leaders are: one answer, or one after the other for streams.

A position in a topic is a cursor: the topic's id and an offset for every partition. Any node can continue from it;
nothing is kept between two requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from qanat.broker.runtime.detached_work import abandon
from qanat.cluster import values
from qanat.connection.deadline import Deadline
from qanat.connection.faults import RETRIABLE, OutOfTimeError, UnreachableError, error_code
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.servers.http.problems import Problem, problem_of
from qanat.servers.http.records.record_json import Encoding, Message, OpenedBatches, to_message
from qanat.wire.kafka.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from qanat.wire.kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from qanat.wire.kafka.registry import ApiKey

if TYPE_CHECKING:
    from qanat.servers.http.caller import HttpCaller
    from qanat.servers.http.kafka_gateway import KafkaGateway
    from qanat.wire.record_reader import RawRecord

EARLIEST, LATEST = -2, -1
_NO_SESSION_EPOCH = -1
_NO_LEADER = ErrorCode.LEADER_NOT_AVAILABLE
_PAUSE_S = 0.05
_LACKING_S = 2.0
"""How long a leader may take where its answer is optional."""
_OTHERS_WAIT_S = 5.0
"""How long partitions without news wait for one without a leader."""


class Cursor:
    """A position in a topic: `<topic id>~<offset>.<offset>...`, an offset for each partition."""

    __slots__ = ("offsets", "topic_id")

    def __init__(self, topic_id: str, offsets: list[int]) -> None:
        self.topic_id = topic_id
        self.offsets = offsets

    def __str__(self) -> str:
        return f"{self.topic_id}~{'.'.join(map(str, self.offsets))}"

    @staticmethod
    def parse(text: str, topic: values.Topic) -> Cursor:
        """Raises a problem where the text is no cursor, or one of another topic."""
        topic_id, separator, rest = text.partition("~")
        places = rest.split(".") if rest else []
        if not separator or not all(place.isascii() and place.isdigit() and len(place) < 20 for place in places):
            raise Problem(400, f"{text[:100]!r} is no cursor: use next_cursor of an answer, or leave it out")
        if topic_id != topic.topic_id:
            raise Problem(
                409, f"the cursor belongs to another or an earlier topic than {topic.name}: leave it out to begin anew"
            )
        if len(places) > len(topic.partitions):
            raise Problem(400, f"the cursor has {len(places)} partitions, topic {topic.name} {len(topic.partitions)}")
        # Partitions that were added since start at 0.
        offsets = [int(place) for place in places] + [0] * (len(topic.partitions) - len(places))
        return Cursor(topic_id, offsets)


class PartitionReads:
    """Reads for callers."""

    def __init__(self, gateway: KafkaGateway) -> None:
        self._gateway = gateway

    # Offsets

    def leader(self, topic: str, partition: int) -> int:
        return self._gateway.leader(topic, partition)

    async def offsets_at(
        self,
        caller: HttpCaller,
        topic: str,
        partitions: Sequence[int],
        timestamp: int,
        *,
        is_committed: bool = False,
        may_lack: bool = False,
    ) -> dict[int, int]:
        """The offset of each partition at a timestamp, `EARLIEST` or `LATEST`; the end where no record is so late.

        A partition without a leader is retried; with `may_lack` it is left out instead.
        """
        found: dict[int, int] = {}
        left, deadline = list(partitions), Deadline.after(self._gateway.timeout_s)
        while left:
            by_leader: dict[int, list[int]] = {}
            for partition in left:
                by_leader.setdefault(self._gateway.leader(topic, partition), []).append(partition)
            left = []
            timeout_s = _LACKING_S if may_lack else deadline.left_seconds
            answers = [
                self._list_offsets(caller, topic, numbers, timestamp, leader, is_committed, timeout_s)
                for leader, numbers in by_leader.items()
            ]
            for rows in await asyncio.gather(*answers):
                for row in rows:
                    code = error_code(row.error_code)
                    if code is ErrorCode.NONE:
                        found[row.partition_index] = row.offset
                    elif code in RETRIABLE and may_lack:
                        continue
                    elif code in RETRIABLE and deadline.left_seconds > _PAUSE_S:
                        left.append(row.partition_index)
                    else:
                        raise problem_of(code, f"topic {topic} partition {row.partition_index}")
            if left:
                await deadline.pause(_PAUSE_S)
        missing = [partition for partition, offset in found.items() if offset < 0]
        if missing:
            found |= await self.offsets_at(caller, topic, missing, LATEST, is_committed=is_committed, may_lack=may_lack)
        return found

    async def offset_ranges(
        self, caller: HttpCaller, topic: str, partitions: Sequence[int], *, may_lack: bool = False
    ) -> tuple[dict[int, int], dict[int, int]]:
        """The earliest offsets of partitions, and the next to be written."""
        earliest = await self.offsets_at(caller, topic, partitions, EARLIEST, may_lack=may_lack)
        return earliest, await self.offsets_at(caller, topic, partitions, LATEST, may_lack=may_lack)

    async def offset_range(self, caller: HttpCaller, topic: str, number: int) -> tuple[int, int]:
        """The same for one partition."""
        earliest, latest = await self.offset_ranges(caller, topic, [number])
        return earliest[number], latest[number]

    async def _list_offsets(
        self,
        caller: HttpCaller,
        topic: str,
        numbers: Sequence[int],
        timestamp: int,
        leader: int,
        is_committed: bool,
        timeout_s: float,
    ) -> list[ListOffsetsPartitionResponse]:
        wanted = [ListOffsetsPartition(number, timestamp=timestamp) for number in numbers]
        request = ListOffsetsRequest(-1, int(is_committed), [ListOffsetsTopic(topic, wanted)])
        try:
            async with asyncio.timeout(timeout_s):
                response: ListOffsetsResponse = await self._gateway.call_leader(
                    caller, ApiKey.LIST_OFFSETS, request, leader, topic, numbers
                )
        except (UnreachableError, OutOfTimeError, TimeoutError):
            return [ListOffsetsPartitionResponse(number, _NO_LEADER) for number in numbers]
        rows = response.topics[0].partitions
        for row in rows:
            row.error_code = self._known(topic, row.partition_index, row.error_code)
        return rows

    def _known(self, topic: str, partition: int, code: int) -> int:
        """An error as callers should treat it: a topic that its leader does not know yet has just been created."""
        if code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or not self._gateway.is_known(topic, partition):
            return code
        return _NO_LEADER

    async def cursor(self, caller: HttpCaller, topic: values.Topic, timestamp: int) -> Cursor:
        found = await self.offsets_at(caller, topic.name, range(len(topic.partitions)), timestamp)
        return Cursor(topic.topic_id, [found[number] for number in range(len(topic.partitions))])

    # Records

    async def fetch(
        self,
        caller: HttpCaller,
        topic: str,
        positions: Mapping[int, int],
        *,
        max_bytes: int,
        wait_ms: int,
        is_committed: bool,
    ) -> list[PartitionData]:
        """One fetch from each leader: the records that exist, or those that come first."""
        by_leader: dict[int, dict[int, int]] = {}
        for partition, offset in positions.items():
            by_leader.setdefault(self._gateway.leader(topic, partition), {})[partition] = offset
        if len(by_leader) == 1:
            ((leader, wanted),) = by_leader.items()
            return await self.fetch_one(caller, topic, wanted, leader, max_bytes, wait_ms, is_committed)
        tasks = [
            self.fetch_one(caller, topic, wanted, leader, max_bytes, 0, is_committed)
            for leader, wanted in by_leader.items()
        ]
        rows = [row for part in await asyncio.gather(*tasks) for row in part]
        if wait_ms and not any(row.records or row.error_code for row in rows):
            return await self._first(caller, topic, by_leader, max_bytes, wait_ms, is_committed)
        return rows

    async def _first(
        self,
        caller: HttpCaller,
        topic: str,
        by_leader: Mapping[int, Mapping[int, int]],
        max_bytes: int,
        wait_ms: int,
        is_committed: bool,
    ) -> list[PartitionData]:
        """Wait at every leader; the first records end the wait."""
        tasks = [
            asyncio.create_task(self.fetch_one(caller, topic, wanted, leader, max_bytes, wait_ms, is_committed))
            for leader, wanted in by_leader.items()
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            return [row for task in done for row in task.result()]
        finally:
            abandon(*tasks, expected=(Problem, QanatError))

    async def fetch_one(
        self,
        caller: HttpCaller,
        topic: str,
        positions: Mapping[int, int],
        leader: int,
        max_bytes: int,
        wait_ms: int,
        is_committed: bool,
    ) -> list[PartitionData]:
        wanted = [
            FetchPartition(partition, fetch_offset=offset, partition_max_bytes=max_bytes)
            for partition, offset in positions.items()
        ]
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=max_bytes,
            isolation_level=int(is_committed),
            session_epoch=_NO_SESSION_EPOCH,
            topics=[FetchTopic(topic, partitions=wanted)],
        )
        try:
            response: FetchResponse = await self._gateway.call_leader(
                caller, ApiKey.FETCH, request, leader, topic, positions
            )
        except (UnreachableError, OutOfTimeError):
            # It is being replaced: reading may be repeated as often as one likes.
            return [PartitionData(partition, error_code=_NO_LEADER) for partition in positions]
        rows = [row for one in response.responses for row in one.partitions]
        for row in rows:
            row.error_code = self._known(topic, row.partition_index, row.error_code)
        return rows

    async def check(self, caller: HttpCaller, topic: str, row: PartitionData, position: int) -> None:
        """Raise the problem of a partition's answer; for an offset out of range, with the range."""
        code = error_code(row.error_code)
        if code is ErrorCode.NONE or code in RETRIABLE:
            return
        what = f"topic {topic} partition {row.partition_index}"
        if code is not ErrorCode.OFFSET_OUT_OF_RANGE:
            raise problem_of(code, what)
        earliest, latest = await self.offset_range(caller, topic, row.partition_index)
        raise Problem(
            416,
            f"{what} has offsets {earliest} to {latest} (the next to be written), not {position}; "
            f"read from {earliest} or later",
            error=code,
            earliest_offset=earliest,
            latest_offset=latest,
        )

    async def read(
        self,
        caller: HttpCaller,
        topic: str,
        positions: dict[int, int],
        *,
        count: int,
        max_bytes: int,
        wait_ms: int,
        is_committed: bool,
        encoding: Encoding,
    ) -> list[Message]:
        """Up to `count` records; advances `positions`."""
        messages: list[Message] = []
        loop = asyncio.get_running_loop()
        began = loop.time()
        deadline = began + wait_ms / 1000
        while True:
            left_ms = 0 if messages else max(0, round((deadline - loop.time()) * 1000))
            rows = await self.fetch(
                caller, topic, positions, max_bytes=max_bytes, wait_ms=left_ms, is_committed=is_committed
            )
            moving = [row for row in rows if row.error_code]
            size = 0
            for row in rows:
                position = positions[row.partition_index]
                await self.check(caller, topic, row, position)
                if not row.error_code and len(messages) < count and size < max_bytes:
                    size += await self._take(row, positions, messages, count, max_bytes - size, encoding)
            max_bytes -= size
            if moving and not messages:
                self._require_progress(topic, positions, moving, loop.time() - began)
                if len(moving) == len(positions) or loop.time() < max(deadline, began + _OTHERS_WAIT_S):
                    await asyncio.sleep(_PAUSE_S)
                    continue
            if len(messages) >= count or max_bytes <= 0 or (not size and (messages or loop.time() >= deadline)):
                return messages

    def _require_progress(
        self, topic: str, positions: Mapping[int, int], moving: Sequence[PartitionData], waited_s: float
    ) -> None:
        """Raise where no partition could be read for too long."""
        if len(moving) == len(positions) and waited_s >= self._gateway.timeout_s:
            row = moving[0]
            raise problem_of(row.error_code, f"topic {topic} partition {row.partition_index}")

    def opened(self, data: PartitionData, position: int) -> OpenedBatches:
        """The records of an answer, within the broker's limit of inflated batches."""
        limit = self._gateway.broker.runtime.directory.settings.log_decompressed_bytes_max
        return OpenedBatches(data, position, limit)

    async def _take(
        self,
        row: PartitionData,
        positions: dict[int, int],
        messages: list[Message],
        count: int,
        max_bytes: int,
        encoding: Encoding,
    ) -> int:
        """Take records of one partition, up to `count` in all and about `max_bytes` when inflated; returns the bytes
        that were taken, or that they were read from where that is more."""
        number, taken = row.partition_index, 0
        batches = self.opened(row, positions[number])
        while (records := await batches.next()) is not None:
            for offset, timestamp, raw in records:
                if len(messages) >= count or taken >= max_bytes:
                    return taken
                messages.append(to_message(number, offset, timestamp, raw, encoding))
                positions[number] = offset + 1
                taken += _size_of(raw)
        positions[number] = batches.next_offset
        return max(taken, 0 if row.records is None else len(row.records))


def _size_of(raw: RawRecord) -> int:
    _, _, _, key, value, headers = raw
    size = len(key or b"") + len(value or b"")
    return size + sum([len(name) + len(text or b"") for name, text in headers]) if headers else size
