"""The target of a copy: rows, and the map of their offsets, written in one transaction.

One process writes to a ledger at a time: opening it initializes the transactional id, which fences the previous writer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa  # type: ignore[import-untyped]

from qanat.connection.batch_producer import BatchProducer
from qanat.connection.faults import RefusedError
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition
from qanat.spark.copying.copy_task import COLUMNS, RESULT, Copied, CopyTask, Stretches, copy_rows, unpacked
from qanat.spark.copying.inventory import cluster_id, topics
from qanat.spark.copying.ledger import Copy, Ledger, LedgerEntry, copy_entry, map_entries, read_entries, start_entry
from qanat.spark.copying.provision import provide
from qanat.spark.copying.translation import placed
from qanat.spark.host_identity import host_identity
from qanat.spark.lake.commits import TopicState
from qanat.spark.offsets import Offsets
from qanat.spark.options.options import BATCH_BYTES, Access
from qanat.spark.reads.offset_lookup import Lookups
from qanat.spark.sink.batch_sender import Sender
from qanat.spark.sink.exactly_once import TRANSACTION_TIMEOUT_MS
from qanat.spark.sink.outgoing_columns import EncodedBatch, Target
from qanat.spark.sink.remote_ingest import drop_files
from qanat.spark.sink.row_batches import Encoder
from qanat.spark.sink.staging import Staging
from qanat.wire.compression import Codec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LEDGER_SETTINGS = {"cleanup.policy": "compact"}
_ROOM = 200
"""The part of a topic's largest message that a batch's header and framing may take."""
_FENCED = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED)


class FencedCopyError(QanatError):
    """Another process writes to the same ledger."""


class CopyTarget:
    """The target cluster with its ledger. Use it in a `with`."""

    def __init__(self, access: Access, ledger_topic: str) -> None:
        self._access = access
        self._topic = ledger_topic
        self.lookups = Lookups(access)
        self._sender = Sender(access)
        self._producer: BatchProducer
        self.ledger = Ledger()
        self.cluster = ""
        """The id of the target's cluster."""

    def __enter__(self) -> CopyTarget:
        try:
            self.cluster = cluster_id(self.lookups)
            provide(self.lookups, self._topic, 1, _LEDGER_SETTINGS)
            self._producer = self._sender.init_transactional(self._topic, TRANSACTION_TIMEOUT_MS)
            # Read after the previous writer is fenced: it cannot add to the ledger, and its transaction has ended.
            entries = self.lookups.ask(lambda cluster, deadline: read_entries(cluster, self._topic, deadline))
            for entry in entries:
                self.ledger.apply(entry)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._sender.__exit__(None)
        self.lookups.close()

    def copy_of(self, topic: str, state: TopicState) -> Copy | None:
        """The ledger's entry of an existing topic at the target."""
        return self.ledger.copies.get((topic, state.id))

    def record_copies(self, copies: Iterable[Copy], starts: Offsets | None = None) -> None:
        """Record durably that topics are copies, and the start of those that do not begin at the first record.

        Call it before the first rows. `starts` are by the old topics' names.
        """
        every = {one.source: one for one in copies}
        entries = [copy_entry(one) for one in every.values() if self.ledger.copies.get((one.topic, one.id)) != one]
        entries += [start_entry(every[at.topic], at.partition, offset) for at, offset in (starts or {}).items()]
        if entries:
            self._transact(iter(()), lambda: entries)

    def copy(self, frame: DataFrame, copies: Mapping[str, Copy], staging: str, codec: str) -> int:
        """Copy rows with the columns of a read, those of a partition in order within a task; returns how many were new.

        `copies` are by the old topics' names. Rows that were copied before are skipped.
        """
        there = topics(self.lookups, [one.topic for one in copies.values()])
        folder = f"copy-{uuid4().hex}"
        task = CopyTask(
            names={source: one.topic for source, one in copies.items()},
            counts={name: state.partitions for name, state in there.items()},
            positions=self.ledger.positions(copies.values()),
            access=self._access,
            staging=staging,
            folder=folder,
            driver=host_identity(),
            codec=codec,
            batch_bytes=largest_batch(there.values()),
        )
        by_name = {one.topic: one for one in copies.values()}
        waiting = Staging(staging)
        done: list[Copied] = []
        try:
            rows = frame.select(*COLUMNS).mapInArrow(lambda batches: copy_rows(batches, task), RESULT).collect()
            done = [unpacked(bytes(row[0])) for row in rows]
            return self._write(done, waiting, by_name)
        except BaseException:
            self._drop_uploads(done)
            raise
        finally:
            waiting.drop(folder, [one.staged for one in done])

    def _drop_uploads(self, done: list[Copied]) -> None:
        """Delete rows that brokers store for a transaction that was not."""
        files = [file for one in done for file in one.staged.remote_files]
        if files:
            self._sender.run(drop_files(self._sender.cluster, files))

    def _write(self, done: list[Copied], waiting: Staging, copies: Mapping[str, Copy]) -> int:
        count = sum(one.staged.rows for one in done)
        if not count:
            return 0
        old: dict[TopicPartition, Stretches] = {}
        for one in done:
            for at, some in one.old.items():
                old.setdefault(at, []).extend(some)

        def entries() -> Iterator[LedgerEntry]:
            for at, landed in (self._sender.landed or {}).items():
                yield from map_entries(copies[at.topic], at.partition, placed(old[at], landed))

        self._transact((batch for one in done for batch in waiting.take(one.staged)), entries)
        return count

    def _transact(self, batches: Iterator[EncodedBatch], entries: Callable[[], Iterable[LedgerEntry]]) -> None:
        sender, producer = self._sender, self._producer
        sender.landed = {}
        try:
            sender.send_all(batches)
            written = list(entries())
            sender.send_all(self._encoded_entries(written))
            sender.run(producer.end(sender.cluster.deadline(), is_committed=True))
        except RefusedError as fault:
            self._abort()
            if fault.code in _FENCED:
                raise FencedCopyError(
                    f"another process writes to {self._topic}: only one mirror of a name, or one replay of a lake, can "
                    "run at a time. Give a mirror another name, or stop the other one"
                ) from None
            raise
        except BaseException:
            self._abort()
            raise
        for entry in written:
            self.ledger.apply(entry)

    def _abort(self) -> None:
        """Abort; if it fails, the next writer of the id aborts. The first error is the one to raise."""
        with suppress(QanatError):
            self._sender.run(self._producer.end(self._sender.cluster.deadline(), is_committed=False))

    def _encoded_entries(self, entries: list[LedgerEntry]) -> Iterator[EncodedBatch]:
        encoder = Encoder(Target(self._topic, Codec.NONE, BATCH_BYTES // 2, has_headers=False), {self._topic: 1})
        rows = {"key": [key for key, _ in entries], "value": [value for _, value in entries]}
        return encoder.encode(pa.RecordBatch.from_pydict(rows))


def largest_batch(states: Iterable[TopicState]) -> int:
    """The largest batch that all of these topics accept, by their own settings."""
    said = [int(one.settings["max.message.bytes"]) for one in states if "max.message.bytes" in one.settings]
    return max(1, min([BATCH_BYTES, *said]) - _ROOM)
