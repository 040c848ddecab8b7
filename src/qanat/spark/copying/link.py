"""A copy's end at the target: rows, and the map of their offsets, in one transaction.

One link of a name writes at a time: who opens it takes the transactional id over, and whoever had it is fenced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa  # type: ignore[import-untyped]

from qanat.connection.faults import RefusedError
from qanat.connection.producer import Producer
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition
from qanat.spark.copying.inventory import cluster_id, patiently, topics
from qanat.spark.copying.ledger import Copy, Ledger, Note, copy_note, map_notes, read_notes, start_note
from qanat.spark.copying.provision import provide
from qanat.spark.copying.tasks import COLUMNS, RESULT, Copied, Errand, Stretches, copy_rows, unpacked
from qanat.spark.copying.translation import Run, moved
from qanat.spark.lake.commits import TopicState
from qanat.spark.offsets import Offsets
from qanat.spark.options.options import BATCH_BYTES, Access
from qanat.spark.reads.offset_lookup import Lookups
from qanat.spark.sink.batch_sender import Sender
from qanat.spark.sink.exactly_once import TRANSACTION_TIMEOUT_MS
from qanat.spark.sink.outgoing_columns import EncodedBatch, Target
from qanat.spark.sink.row_batches import Encoder
from qanat.spark.sink.staging import Staging
from qanat.wire.compression import Codec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LEDGER_SETTINGS = {"cleanup.policy": "compact"}
_ROOM = 200
"""What a batch's header and framing may take of a topic's largest message."""


_FENCED = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED)


class TakenOverError(QanatError):
    """Another process writes under the same name."""


class Link:
    """Use it in a `with`."""

    def __init__(self, access: Access, ledger_topic: str) -> None:
        self._topic = ledger_topic
        self.lookups = Lookups(access)
        self._sender = Sender(access)
        self._producer: Producer
        self.ledger = Ledger()
        self.cluster = ""
        """The id of the target's cluster."""

    def __enter__(self) -> Link:
        try:
            self.cluster = cluster_id(self.lookups)
            provide(self.lookups, self._topic, 1, _LEDGER_SETTINGS)
            self._producer = self._sender.be_transactional(self._topic, TRANSACTION_TIMEOUT_MS)
            # Read after the id was taken over: nobody can add to it any more, and what was open has been ended.
            notes = patiently(self.lookups, lambda cluster, deadline: read_notes(cluster, self._topic, deadline))
            for note in notes:
                self.ledger.take(note)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._sender.__exit__(None)
        self.lookups.close()

    def copy_of(self, topic: str, state: TopicState) -> Copy | None:
        """What is known of a topic at the target, as it is now."""
        return self.ledger.copies.get((topic, state.id))

    def know(self, copies: Iterable[Copy], starts: Offsets | None = None) -> None:
        """Note for good that topics are copies, and where those begin that do not at the first record; before any row.

        `starts` are by the old topics' names.
        """
        every = {one.source: one for one in copies}
        notes = [copy_note(one) for one in every.values() if self.ledger.copies.get((one.topic, one.id)) != one]
        notes += [start_note(every[at.topic], at.partition, offset) for at, offset in (starts or {}).items()]
        if notes:
            self._transact(iter(()), lambda: notes)

    def copy(self, frame: DataFrame, copies: Mapping[str, Copy], staging: str, codec: str) -> int:
        """Copy rows that have the columns of a read, those of a partition in order within a task; how many were new.

        `copies` are by the old topics' names. Rows that were copied before are left out.
        """
        there = topics(self.lookups, [one.topic for one in copies.values()])
        folder = f"copy-{uuid4().hex}"
        errand = Errand(
            names={source: one.topic for source, one in copies.items()},
            counts={name: state.partitions for name, state in there.items()},
            positions=self.ledger.positions(copies.values()),
            staging=staging,
            folder=folder,
            codec=codec,
            batch_bytes=largest_batch(there.values()),
        )
        by_name = {one.topic: one for one in copies.values()}
        waiting = Staging(staging)
        try:
            rows = frame.select(*COLUMNS).mapInArrow(lambda batches: copy_rows(batches, errand), RESULT).collect()
            done = [unpacked(bytes(row[0])) for row in rows]
            return self._write(done, waiting, by_name)
        finally:
            waiting.drop(folder)

    def _write(self, done: list[Copied], waiting: Staging, copies: Mapping[str, Copy]) -> int:
        if not any(one.staged.entries for one in done):
            return 0
        told: dict[TopicPartition, list[Stretches]] = {}

        def coming() -> Iterator[EncodedBatch]:
            for one in done:
                for batch, old in zip(waiting.read(one.staged), one.old, strict=True):
                    told.setdefault(batch.at, []).append(old)
                    yield batch

        def notes() -> Iterator[Note]:
            landed = self._sender.base_offsets or {}
            for at, some in told.items():
                runs: list[Run] = []
                for old, new in zip(some, landed[at], strict=True):
                    runs += moved(old, new)
                yield from map_notes(copies[at.topic], at.partition, runs)

        self._transact(coming(), notes)
        return sum(one.staged.rows for one in done)

    def _transact(self, batches: Iterator[EncodedBatch], notes: Callable[[], Iterable[Note]]) -> None:
        sender, producer = self._sender, self._producer
        sender.base_offsets = {}
        try:
            sender.send_all(batches)
            written = list(notes())
            sender.send_all(self._noted(written))
            sender.run(producer.end(sender.cluster.deadline(), is_committed=True))
        except RefusedError as fault:
            self._abort()
            if fault.code in _FENCED:
                raise TakenOverError(
                    f"somebody else took over what is written to {self._topic}: of a mirror's name, or a replay, only "
                    "one can run at a time. Give a mirror another name, or stop the other one"
                ) from None
            raise
        except BaseException:
            self._abort()
            raise
        for note in written:
            self.ledger.take(note)

    def _abort(self) -> None:
        """What cannot be aborted now is aborted by whoever takes the id over; the first fault is the one to tell."""
        with suppress(QanatError):
            self._sender.run(self._producer.end(self._sender.cluster.deadline(), is_committed=False))

    def _noted(self, notes: list[Note]) -> Iterator[EncodedBatch]:
        encoder = Encoder(Target(self._topic, Codec.NONE, BATCH_BYTES // 2, has_headers=False), {self._topic: 1})
        rows = {"key": [key for key, _ in notes], "value": [value for _, value in notes]}
        return encoder.encode(pa.RecordBatch.from_pydict(rows))


def largest_batch(states: Iterable[TopicState]) -> int:
    """The largest batch that all of these topics take, as far as they say."""
    said = [int(one.settings["max.message.bytes"]) for one in states if "max.message.bytes" in one.settings]
    return max(1, min([BATCH_BYTES, *said]) - _ROOM)
