"""A consumer application at work: the store on its thread, the REST server, and what the broker pushes.

Rule: the REST server answers from the start, with what is stored, whether or not there is a broker.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from qanat.adapters.os_files import OsFiles
from qanat.app.edge.consuming.counters import Counters, Observed, PartitionStatus, exposition
from qanat.app.edge.consuming.cursors import cursor_of, key_in, listing_of_keys, listing_of_records, place_in
from qanat.app.edge.consuming.database_copy import begin_transfer, copy_database
from qanat.app.edge.consuming.health import Condition, Status
from qanat.app.edge.consuming.operations import (
    KeyQuery,
    LatestQuery,
    RecordsAnswer,
    RecordsQuery,
    latest_key_of,
    number_in_path,
    query_of,
    stored_record,
    topic_of,
)
from qanat.app.edge.consuming.partition_copy import copy_settings
from qanat.app.edge.consuming.reading import Found, latest, latest_of, one_record, select
from qanat.app.edge.consuming.receiving import Receiver
from qanat.app.edge.consuming.record_index import DamagedIndexError, RecordIndex
from qanat.app.edge.consuming.record_store import RecordStore
from qanat.app.edge.consuming.rest_server import Asked, RestServer, operation
from qanat.app.edge.consuming.store_thread import StoreThread
from qanat.model.errors import StorageError
from qanat.model.ids import TopicPartition
from qanat.servers.http.operations import SENT, Operation
from qanat.servers.http.problems import Problem
from qanat.servers.http.reply import Reply
from qanat.telemetry.events import log_event
from qanat.telemetry.exposition import CONTENT_TYPE

if TYPE_CHECKING:
    from qanat.app.edge.consuming.record_store import Key
    from qanat.app.edge.consuming.settings import ConsumerSettings

Result = TypeVar("Result")

_CHORES_S = 1.0
_RETENTION_S = 60.0
_PIECE_BYTES = 256 * 1024
SQLITE_TYPE = b"application/vnd.sqlite3"


class ConsumerApplication:
    """One application. `async with`."""

    def __init__(self, settings: ConsumerSettings, protection: Mapping[str, str]) -> None:
        """`protection` are TLS and SASL settings, in the names of Kafka's clients."""
        self.settings = settings
        self.counters = Counters()
        self.condition = Condition()
        self._thread = StoreThread()
        self._receiver = Receiver(settings, protection, self._thread, self.condition, self.counters)
        address = settings.consumer_host, settings.consumer_port
        self._server = RestServer(self._operations(), address, settings.allowed_hosts, self.counters.answered)
        self._tasks: list[asyncio.Task[None]] = []
        self._transfer = asyncio.Lock()
        self._retained_s = 0.0

    @property
    def address(self) -> str:
        return self._server.address

    @property
    def _path(self) -> str:
        return self.settings.storage_data_dir

    async def __aenter__(self) -> ConsumerApplication:
        await self._thread.open(self._opened)
        try:
            await self._server.start()
        except BaseException:
            await self._thread.close()
            raise
        self._tasks = [asyncio.create_task(self._chores()), asyncio.create_task(self._receiver.run())]
        return self

    def _opened(self) -> RecordStore:
        settings = self.settings
        log_settings = copy_settings(
            settings.storage_segment_bytes, settings.storage_retention_bytes, settings.storage_retention_ms
        )
        store = RecordStore(
            OsFiles(),
            self._path,
            settings.topics,
            settings.consumer_group,
            log_settings,
            RecordIndex,
            remove_index=remove_database,
        )
        begin_transfer(self._path)
        if store.index_rebuilds:
            log_event("index damaged: it is made again", level="warning", reason=f"{self._path}/index.db is no index")
        return store

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.close()
        await self._thread.close()

    # Chores

    async def _chores(self) -> None:
        """Index what is missing, forget what is gone, delete what is too old, and look at the connection."""
        while True:
            is_done = True
            try:
                is_done, damage = await self._thread.call(self._chore)
                self._note_damage(damage)
            except DamagedIndexError as fault:
                await self._rebuild(fault)
                is_done = False
            except StorageError as fault:
                if not self.condition.storage:
                    log_event("chores failed", level="warning", reason=str(fault))
            self._receiver.observe()
            await asyncio.sleep(_CHORES_S if is_done else 0)

    def _note_damage(self, damage: str) -> None:
        if damage and damage != self.condition.damage:
            log_event("records damaged", level="error", reason=damage)
        self.condition.damage = damage

    def _chore(self, store: RecordStore) -> tuple[bool, str]:
        is_done = store.catch_up()
        if is_done and time.monotonic() - self._retained_s >= _RETENTION_S:
            self._retained_s = time.monotonic()
            store.retain(time.time_ns() // 1_000_000)
        return is_done, store.damage

    async def _rebuild(self, fault: DamagedIndexError) -> None:
        log_event("index damaged: it is made again", level="warning", reason=str(fault))
        await self._thread.call(RecordStore.rebuild_index)

    # Answers

    def _operations(self) -> tuple[Operation, ...]:
        return (
            operation("/health", self._health, "Whether the application receives, stores and serves."),
            operation("/metrics", self._metrics, "The metrics, for Prometheus."),
            operation("/docs", self._docs, "The operations."),
            operation("/api/v1/status", self._status, "What is held, by partition."),
            operation("/api/v1/records", self._records, "Records by key, time or offset.", RecordsQuery),
            operation("/api/v1/records/{topic}/{partition}/{offset}", self._record, "One record."),
            operation("/api/v1/latest", self._latest, "The latest record of each key.", LatestQuery),
            operation("/api/v1/latest/{key}", self._latest_of_key, "The latest record of a key.", KeyQuery),
            operation("/api/v1/database", self._database, "All records as an SQLite database.", waits=True),
        )

    async def _docs(self, _: Asked) -> dict[str, Any]:
        return {
            "operations": [
                {
                    "method": one.method,
                    "path": one.path,
                    "summary": one.summary,
                    "query": [] if one.query is None else list(one.query.__struct_encode_fields__),
                }
                for one in self._operations()
            ]
        }

    async def _health(self, _: Asked) -> Reply | dict[str, Any]:
        refresh = (await self._observed())[2]
        status, reasons = self.condition.report()
        answer = {
            "status": status.value,
            "reasons": reasons,
            "type": self.settings.type,
            "topics": self.settings.topics,
            "group": self.settings.consumer_group,
            "is_connected": self.condition.is_connected,
            "refresh": refresh,
        }
        return Reply(503 if status is Status.UNHEALTHY else 200, msgspec.json.encode(answer))

    async def _metrics(self, _: Asked) -> Reply:
        partitions, unindexed, refresh = await self._observed()
        is_connected = self.condition.is_connected
        observed = Observed(self.counters, partitions, is_connected, refresh is not None, unindexed)
        return Reply(200, exposition(observed).encode(), CONTENT_TYPE.encode())

    async def _status(self, _: Asked) -> dict[str, Any]:
        partitions, unindexed, refresh = await self._observed()
        settings = self.settings
        return {
            "type": settings.type,
            "topics": settings.topics,
            "group": settings.consumer_group,
            "mode": "log" if settings.consumer_group else "all",
            "is_connected": self.condition.is_connected,
            "records": sum(one.records for one in partitions),
            "unindexed_offsets": unindexed,
            "refresh": refresh,
            "partitions": [one._asdict() for one in partitions],
        }

    async def _observed(self) -> tuple[list[PartitionStatus], int, dict[str, Any] | None]:
        self._receiver.observe()
        partitions, unindexed, refresh, store_counts = await self._thread.call(_observed)
        self.condition.unindexed = unindexed
        self.counters.stored, self.counters.duplicates, self.counters.index_rebuilds = store_counts
        return partitions, unindexed, refresh

    async def _asked(self, act: Callable[[RecordStore], Result]) -> Result:
        """Ask the store; where its index is not complete, that is said instead of an answer with gaps."""

        def answered(store: RecordStore) -> Result:
            if not store.is_indexed:
                left = store.unindexed
                done = f"built: {left} offsets are left" if left else "compared with the records"
                raise StorageError(f"the index is being {done}; ask again soon")
            return act(store)

        try:
            return await self._thread.call(answered)
        except DamagedIndexError as fault:
            await self._rebuild(fault)
            raise StorageError("the index was damaged and is being built; ask again soon") from None

    async def _records(self, asked: Asked) -> RecordsAnswer:
        given: RecordsQuery = asked.query
        topic = topic_of(given.topic, self.settings.topics)

        def answered(store: RecordStore) -> RecordsAnswer:
            held = [at.partition for at in store.served if at.topic == topic]
            query = query_of(given, self.settings.topics, held)
            listing = listing_of_records(query, store.generations)
            after = place_in(given.cursor, listing, is_by_time=query.is_by_time)
            page = select(store, query, given.limit, after)
            return RecordsAnswer([stored_record(one) for one in page.records], cursor_of(listing, page.after))

        return await self._asked(answered)

    async def _record(self, asked: Asked) -> Any:
        topic = topic_of(asked.path["topic"], self.settings.topics)
        partition = number_in_path("partition", asked.path["partition"])
        offset = number_in_path("offset", asked.path["offset"])
        at = TopicPartition(topic, partition)
        found = await self._thread.call(one_record, at, offset)
        if found is None:
            raise Problem(404, f"there is no record at offset {offset} of {at}")
        return stored_record(found)

    async def _latest(self, asked: Asked) -> RecordsAnswer:
        given: LatestQuery = asked.query
        topic = topic_of(given.topic, self.settings.topics)
        key = latest_key_of(given)
        prefix = given.prefix.encode()

        def answered(store: RecordStore) -> RecordsAnswer:
            if key is None:
                listing = listing_of_keys(topic, prefix, store.generations)
                page = latest(store, topic, prefix, given.limit, key_in(given.cursor, listing))
                return RecordsAnswer([stored_record(one) for one in page.records], cursor_of(listing, page.after))
            one = latest_of(store, topic, key)
            found: list[Found] = [] if one is None or one.record.value is None else [one]
            return RecordsAnswer([stored_record(one) for one in found], None)

        return await self._asked(answered)

    async def _latest_of_key(self, asked: Asked) -> Any:
        topic = topic_of(asked.query.topic, self.settings.topics)
        key = asked.path["key"]
        found = await self._asked(lambda store: latest_of(store, topic, key.encode()))
        if found is None:
            raise Problem(404, f"there is no record of the key {key!r} in {topic}")
        if found.record.value is None:
            raise Problem(404, f"the key {key!r} was deleted, at offset {found.record.offset} of {found.at}")
        return stored_record(found)

    async def _database(self, asked: Asked) -> Any:
        """Send a copy of the database; one is made at a time."""
        about = self.settings.type, self.settings.consumer_group, time.time_ns() // 1_000_000
        async with self._transfer:
            descriptor = await copy_database(self._thread, self._path, about)
        try:
            headers = [
                (b"content-type", SQLITE_TYPE),
                (b"content-length", str(os.fstat(descriptor).st_size).encode()),
                (b"content-disposition", b'attachment; filename="records.db"'),
            ]
            await asked.send({"type": "http.response.start", "status": 200, "headers": headers})
            while piece := await asyncio.to_thread(os.read, descriptor, _PIECE_BYTES):
                await asked.send({"type": "http.response.body", "body": piece, "more_body": True})
            await asked.send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            os.close(descriptor)
        self.counters.transfers += 1
        return SENT


def _observed(store: RecordStore) -> tuple[list[PartitionStatus], int, dict[str, Any] | None, tuple[int, int, int]]:
    """What is served, offsets without an index, the refresh under way, and counts."""
    counts = store.index.partitions()
    partitions = []
    for at, copy in store.served.items():
        held, number = copy.extent, store.generations.held(at).served
        epoch = held.epoch_at(held.end - 1) if held.end > held.start else -1
        records = counts.get(store.indexed_name((number, at)), 0)
        partitions.append(PartitionStatus(*at, held.start, held.end, epoch, number, records))
    unindexed = 0 if store.is_indexed else store.unindexed
    totals = store.stored, store.duplicates, store.index_rebuilds
    return partitions, unindexed, _refresh(store, counts), totals


def _refresh(store: RecordStore, counts: Mapping[Any, int]) -> dict[str, Any] | None:
    """The refresh that is filling a generation."""
    for refresh, number in store.generations.under_way.items():
        filled: list[Key] = [key for key in store.copies if key[0] == number]
        records = sum(counts.get(store.indexed_name(key), 0) for key in filled)
        return {"id": refresh, "generation": number, "records": records}
    return None


def remove_database(path: str) -> None:
    """Remove a database of SQLite with the files beside it."""
    for suffix in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            os.unlink(path + suffix)
