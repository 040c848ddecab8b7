"""CPU time of one small request inside the broker, without a socket: the interpreter's share.

    python -m bench.request                     a produce request, at the best of some rounds and in the middle
    python -m bench.request --kind idempotent   another kind: see `KINDS`
    python -m bench.request --together 1        one request in each read, as of a client that waits for each answer
    python -m bench.request --authorized        behind an authorizer that allows everything
    python -m bench.request --rules 10000       behind the built-in authorizer with so many rules
    python -m bench.request --profile           where it goes, by function
    python -m bench.request --reads 500         no time: so many reads, for a program that counts instructions

A busy machine disturbs this less than anything with a client; compare two trees by turns (`bench.request_pairs`).
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import pstats
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Any, cast

from bench.workloads import UNFLUSHED
from bench.workloads.settings import FLUSHED
from qanat.api.interceptor import authorize
from qanat.broker.replicas.partition import Partition
from qanat.broker.security.acl_authorizer import AclAuthorizer
from qanat.cluster.values import AclEntry
from qanat.security.authentication import ANONYMOUS, Principal
from qanat.security.authorization import Authorizer, Operation, Resource, ResourceKind
from qanat.servers.kafka.connection import KafkaConnection
from qanat.servers.kafka.connection_limits import ConnectionLimits
from qanat.servers.kafka.dispatch import Dispatcher
from qanat.servers.listener_security import ListenerSecurity
from qanat.testing import BrokerHere
from qanat.wire.compression import Codec
from qanat.wire.kafka.headers import frame_request
from qanat.wire.kafka.layouts import ZERO_UUID
from qanat.wire.kafka.messages import fetch
from qanat.wire.kafka.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData, write_request
from qanat.wire.records import Record, encode_batch

TOPIC = "single"
VERSION = 7
"""The version that librdkafka sends."""
FETCH_VERSION = 11
ID_VERSION, ID_FETCH_VERSION = 13, 16
"""Versions that name the topic by id: librdkafka fetches so."""
PARTITIONS = 2
TOGETHER = 8
"""Requests that arrive in one read, if nothing else is asked for."""
ROUNDS, READS = 15, 400
PRODUCER_ID = 7
TRANSACTIONAL_ID = "transactional"
_USERS = 100
"""Other users who have rules."""

KINDS = {
    "plain": "produce, one record, no producer id",
    "durable": "the same, answered once it is on disk",
    "compressed": "the same, compressed",
    "idempotent": "the same, of an idempotent producer",
    "transactional": "the same, in an open transaction",
    "by-id": "produce, one record, the topic by id",
    "fetch": "fetch, one record",
    "fetch-by-id": "the same, the topic by id",
    "partitions": "produce, one record for each of two partitions: the ordinary path",
    "fetch-partitions": "fetch, one record from each of two partitions: the ordinary path",
}


class Nowhere:
    """A transport that discards every response, except for its size."""

    def __init__(self) -> None:
        self.size_bytes = 0
        self._awaited_bytes = 0
        self._written: asyncio.Future[None] | None = None

    def get_extra_info(self, name: str) -> tuple[str, int]:
        return "127.0.0.1", 1

    def is_closing(self) -> bool:
        return False

    def set_write_buffer_limits(self, high: int) -> None:
        pass

    def writelines(self, chunks: list[bytes]) -> None:
        size = sum(map(len, chunks))
        self.size_bytes += size
        if self._written is not None:
            self._awaited_bytes -= size
            if self._awaited_bytes <= 0:
                self._written.set_result(None)
                self._written = None

    async def answered(self, size: int) -> None:
        """Return once so many more bytes are written."""
        self._awaited_bytes = size
        self._written = asyncio.get_running_loop().create_future()
        await self._written


def request(kind: str = "plain", sequence: int = 0, topic_id: bytes = ZERO_UUID) -> bytes:
    """One framed request; `sequence` counts the records of a producer."""
    if kind.startswith("fetch"):
        version = ID_FETCH_VERSION if kind == "fetch-by-id" else FETCH_VERSION
        return _fetch_request(PARTITIONS if kind == "fetch-partitions" else 1, version, topic_id)
    is_known = kind in ("idempotent", "transactional")
    batch = encode_batch(
        [Record(offset=0, timestamp=int(time.time() * 1000), key=None, value=bytes(100))],
        codec=Codec.LZ4 if kind == "compressed" else Codec.NONE,
        producer_id=PRODUCER_ID if is_known else -1,
        producer_epoch=0 if is_known else -1,
        base_sequence=sequence if is_known else -1,
        is_transactional=kind == "transactional",
    )
    numbers = range(PARTITIONS if kind == "partitions" else 1)
    data = [PartitionProduceData(number, memoryview(batch)) for number in numbers]
    transactional_id = TRANSACTIONAL_ID if kind == "transactional" else None
    message = ProduceRequest(transactional_id, -1, 30_000, [TopicProduceData(TOPIC, topic_id, data)])
    version = ID_VERSION if kind == "by-id" else VERSION
    return b"".join(frame_request(0, version, 1, "bench", write_request(message, version)))


def _fetch_request(partitions: int, version: int, topic_id: bytes) -> bytes:
    rows = [fetch.FetchPartition(number, fetch_offset=0, partition_max_bytes=1) for number in range(partitions)]
    message = fetch.FetchRequest(
        max_wait_ms=0, min_bytes=1, session_epoch=-1, topics=[fetch.FetchTopic(TOPIC, topic_id, rows)]
    )
    return b"".join(frame_request(1, version, 1, "bench", fetch.write_request(message, version)))


class AskedAlways:
    """An authorizer that allows everything and has no revision, so it is asked about every request."""

    def allows(self, principal: Principal, host: str, operation: Operation, resource: Resource) -> bool:
        return True


class AllowAll(AskedAlways):
    """An authorizer that allows everything; its answers are kept."""

    revision = 0

    def allows_any(self, principal: Principal, host: str, operation: Operation, kind: ResourceKind) -> bool:
        return True


class Rules:
    """The rules of other users, and last those of the connection; in the place of a metadata image."""

    acls_version = 1
    unreadable: Mapping[str, str] = {}

    def __init__(self, count: int) -> None:
        others = [(f"User:user-{at % _USERS}", "WRITE", f"topic-{at}") for at in range(count - 2)]
        own = [(str(ANONYMOUS), operation, TOPIC) for operation in ("WRITE", "READ")]
        self.acls = {f"{at}": _allowing(*one) for at, one in enumerate([*others, *own])}


def _allowing(principal: str, operation: str, topic: str) -> AclEntry:
    return AclEntry(
        resource_type="TOPIC",
        name=topic,
        pattern_type="LITERAL",
        principal=principal,
        host="*",
        operation=operation,
        permission="ALLOW",
    )


class OneConnection:
    """A connection of a real broker, without a socket."""

    def __init__(
        self, broker: BrokerHere, arriving: bytes | None = None, *, authorizer: Authorizer | None = None
    ) -> None:
        """`arriving` are the bytes of one read; by default small produce requests."""
        limits = ConnectionLimits(max_request_bytes=10**8, max_unanswered=1000, max_inflight_bytes=10**9)
        dispatcher = Dispatcher(broker.node.broker)
        self._connection = KafkaConnection(dispatcher.handle, limits, lambda _: None, _refuse)
        if authorizer is not None:
            dispatcher.interceptor = authorize
            self._connection.security = ListenerSecurity(authorizer=authorizer)
        self.nowhere = Nowhere()
        self._connection.connection_made(cast(Any, self.nowhere))
        self._arriving = request() * TOGETHER if arriving is None else arriving

    def read(self, times: int) -> None:
        """Receive the bytes of one read, so many times."""
        for _ in range(times):
            self.receive(self._arriving)

    def receive(self, arriving: bytes) -> None:
        """Receive the bytes of one read."""
        connection, size = self._connection, len(arriving)
        connection.get_buffer(-1)[:size] = arriving
        connection.buffer_updated(size)


class OneKind:
    """One kind of request and its connection."""

    def __init__(self, kind: str, broker: BrokerHere, authorizer: Authorizer | None, together: int = TOGETHER) -> None:
        """`together` requests arrive in one read."""
        self._kind = kind
        self._together = together
        self._topic_id = ZERO_UUID
        self._connection = OneConnection(broker, authorizer=authorizer)
        self._sequence = 0
        self._answer_bytes = 0
        """Size of the answers to one read."""

    def make(self, reads: int) -> list[bytes]:
        """The bytes of so many reads."""
        if self._kind in ("idempotent", "transactional"):
            return [b"".join(self._next() for _ in range(self._together)) for _ in range(reads)]
        return [request(self._kind, topic_id=self._topic_id) * self._together] * reads

    def _next(self) -> bytes:
        self._sequence += 1
        return request(self._kind, self._sequence - 1)

    async def begin(self, broker: BrokerHere) -> None:
        """Write what the first request needs to find, and learn the size of answers."""
        is_open = self._kind == "transactional"
        first = encode_batch(
            [Record(0, int(time.time() * 1000), None, bytes(100))],
            producer_id=PRODUCER_ID if is_open else -1,
            producer_epoch=0 if is_open else -1,
            base_sequence=0 if is_open else -1,
            is_transactional=is_open,
        )
        for number in range(PARTITIONS):
            partition = broker.node.broker.lookup.led(TOPIC, number)
            assert isinstance(partition, Partition)
            partition.log.producers.requires_verification = False
            self._topic_id = partition.topic_id
            written = partition.append_now(first)
            assert written is not None
            if written.durable is not None:
                await written.durable
        self._sequence = 1 if is_open else 0
        for arriving in self.make(1):
            self._connection.receive(arriving)
        if not self._connection.nowhere.size_bytes:
            await self._connection.nowhere.answered(1)  # They are on disk together, and answered in one turn.
        self._answer_bytes = self._connection.nowhere.size_bytes

    async def run(self, reads: list[bytes]) -> None:
        """Receive all, and wait for the answers."""
        receive, nowhere = self._connection.receive, self._connection.nowhere
        expected = nowhere.size_bytes + self._answer_bytes * len(reads)
        for arriving in reads:
            receive(arriving)
            if self._kind == "durable":
                await nowhere.answered(self._answer_bytes)
        assert nowhere.size_bytes == expected, "every request was answered as the first"


def _refuse(_: KafkaConnection, fault: BaseException) -> None:
    raise fault


async def run(
    kind: str, authorizer: Authorizer | None, *, together: int, is_profiled: bool, reads_only: int | None
) -> None:
    reads_of_round = READS * TOGETHER // together
    with tempfile.TemporaryDirectory() as folder:
        async with BrokerHere(data_dir=folder) as broker:
            await broker.create_topic(TOPIC, PARTITIONS, configs=FLUSHED if kind == "durable" else UNFLUSHED)
            one = OneKind(kind, broker, authorizer, together)
            await one.begin(broker)
            if reads_only is not None:
                await one.run(one.make(reads_only))
                return
            await one.run(one.make(reads_of_round))
            if is_profiled:
                reads = one.make(reads_of_round * ROUNDS)
                with cProfile.Profile() as profile:
                    await one.run(reads)
                pstats.Stats(profile).sort_stats("tottime").print_stats(40)
                return
            found: list[float] = []
            for _ in range(ROUNDS):
                reads = one.make(reads_of_round)
                began = time.process_time_ns()
                await one.run(reads)
                found.append((time.process_time_ns() - began) / (reads_of_round * together * 1000))
            print(f"{min(found):.2f} us of CPU time per request at best, {statistics.median(found):.2f} in the middle")


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser("python -m bench.request", description="CPU time of one small request.")
    kinds = "; ".join(f"{name}: {meaning}" for name, meaning in KINDS.items())
    parser.add_argument("--kind", choices=KINDS, default="plain", help=kinds)
    behind = parser.add_mutually_exclusive_group()
    behind.add_argument("--authorized", action="store_true", help="behind an authorizer that allows everything")
    behind.add_argument("--rules", type=int, metavar="N", help="behind the built-in authorizer with so many rules")
    parser.add_argument("--profile", action="store_true", help="where it goes, by function; everything takes longer")
    parser.add_argument("--together", type=int, default=TOGETHER, metavar="N", help="requests in one read")
    parser.add_argument("--reads", type=int, metavar="N", help="make N reads, measure nothing")
    given = parser.parse_args(arguments)
    authorizer = (
        AclAuthorizer(Rules(given.rules)) if given.rules is not None else AllowAll() if given.authorized else None
    )
    asyncio.run(run(given.kind, authorizer, together=given.together, is_profiled=given.profile, reads_only=given.reads))


if __name__ == "__main__":
    main(sys.argv[1:])
