"""Writers: batch and streaming writes as Spark calls them, `write` on executors, `commit` and `abort` on the driver.

At least once: tasks send their rows themselves. Exactly once: tasks encode and stage them, the driver names or sends
all rows of a micro-batch in one transaction that carries the batch's number; see docs/internals/exactly-once-sink.md.

Each step runs in a Python process that Spark starts for it, and imports only what it needs: importing everything took
0.2 s in each, as measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from qanat.spark.error_messages import hide_tracebacks
from qanat.spark.host_identity import host_identity
from qanat.spark.options.option_reader import OptionError
from qanat.spark.options.options import SinkOptions, sink_options
from qanat.spark.sink.outgoing_columns import Target, check_columns
from qanat.spark.worker_memory import retain_memory
from qanat.wire.compression import Codec

if TYPE_CHECKING:
    from pyarrow import RecordBatch  # type: ignore[import-untyped]

    from qanat.spark.sink.batch_sender import Sender
    from qanat.spark.sink.staging import Staged

_BATCH_ID = "streaming.sql.batchId"
_QUERY_ID = "sql.streaming.queryId"


@dataclass
class Sent(WriterCommitMessage):
    """A task's rows are in their partitions."""

    rows: int


@dataclass
class Waiting(WriterCommitMessage):
    """A task's rows are encoded and staged."""

    task: int
    query: str
    """Spark's id of the query, which its checkpoint stores: a new checkpoint is another query."""
    staged: Staged


class _Writing:
    """The common part of batch and streaming writes."""

    def __init__(self, options: SinkOptions, schema: StructType, staging: str, write_id: str | None = None) -> None:
        """`write_id` identifies a batch write; a stream's writes have the query's id and the batch's number."""
        check_columns({field.name: field.dataType.simpleString() for field in schema}, options.topic)
        self._options = options
        self._staging = staging
        self._write_id = write_id
        self._driver = host_identity()
        self._target = Target(
            options.topic, Codec[options.compression.upper()], options.batch_bytes, options.include_headers
        )

    def write_rows(self, rows: Iterator[RecordBatch]) -> WriterCommitMessage:
        from qanat.connection.pipelined_producer import ACKS_ALL
        from qanat.spark.sink.batch_sender import Sender
        from qanat.spark.sink.local_brokers import LocalBrokers
        from qanat.spark.sink.local_ingest import LocalIngestFiles
        from qanat.spark.sink.row_batches import Encoder

        retain_memory()
        with Sender(self._options.access) as sender:
            if self._options.delivery == "exactly-once":
                return sender.run(self._stage(rows, sender))
            sender.acks = self._options.acks
            if self._options.acks == ACKS_ALL:
                sender.init_idempotent()
            # Without acks, a broker cannot answer that it does not ingest a file.
            is_local = self._options.local_ingest and self._options.acks != 0
            local_brokers = LocalBrokers(sender.cluster) if is_local else None
            local_files = LocalIngestFiles(local_brokers, f"task-{uuid4().hex}")
            try:
                return Sent(sender.send_rows(rows, Encoder(self._target), local_files))
            finally:
                local_files.drop()

    async def _stage(self, rows: Iterator[RecordBatch], sender: Sender) -> Waiting:
        """Encode and stage: one run of the event loop, which pauses while the next rows are encoded."""
        from qanat.spark.sink.local_brokers import LocalBrokers
        from qanat.spark.sink.local_ingest import LocalIngestFiles
        from qanat.spark.sink.remote_ingest import RemoteIngest
        from qanat.spark.sink.row_batches import Encoder
        from qanat.spark.sink.row_staging import RowStaging
        from qanat.spark.sink.staging import StageWriter, Staging

        context = TaskContext.get()
        assert context is not None
        query = self._write_id or context.getLocalProperty(_QUERY_ID) or uuid4().hex
        folder = self._folder(int(context.getLocalProperty(_BATCH_ID) or 0))
        at_brokers = folder if self._write_id else f"{query}-{folder}"
        # The driver must be able to send files that a broker on this machine does not ingest.
        is_local = self._options.local_ingest and host_identity() == self._driver
        local_files = LocalIngestFiles(LocalBrokers(sender.cluster), at_brokers, 0) if is_local else None
        remote_ingest = RemoteIngest(sender.cluster, at_brokers) if self._options.remote_ingest else None
        encoder = Encoder(self._target)
        with StageWriter(Staging(self._staging), folder) as writer:
            staging = RowStaging(writer, local_files, remote_ingest)
            try:
                for some in rows:
                    await sender.prepare(encoder, some)
                    for batch in encoder.encode(some):
                        await staging.add(batch)
                return Waiting(context.partitionId(), query, await staging.close())
            except BaseException:
                await staging.drop()
                raise

    def finish(self, messages: list[WriterCommitMessage | None], batch_id: int) -> None:
        """Commit a micro-batch, unless tasks have sent their rows themselves."""
        if self._options.delivery != "exactly-once":
            return
        from qanat.spark.sink.exactly_once import commit_once
        from qanat.spark.sink.staging import Staging

        retain_memory()
        waiting = sorted((one for one in messages if isinstance(one, Waiting)), key=lambda one: one.task)
        staging = Staging(self._staging)
        batches = (batch for one in waiting for batch in staging.take(one.staged))
        if waiting:
            known_by = f"qanat-spark-{self._txn_name() or waiting[0].query}"
            number = batch_id if self._options.txn_version is None else self._options.txn_version
            name = self._options.transactional_id or known_by
            if not commit_once(self._options.access, name, known_by, number, batches):
                self._drop_uploads(waiting)
        staging.drop(self._folder(batch_id), [one.staged for one in waiting])

    def _drop_uploads(self, waiting: list[Waiting]) -> None:
        """Delete rows that brokers store for a transaction that will not be."""
        files = [file for one in waiting for file in one.staged.remote_files]
        if files:
            from qanat.spark.sink.batch_sender import Sender
            from qanat.spark.sink.remote_ingest import drop_files

            with Sender(self._options.access) as sender:
                sender.run(drop_files(sender.cluster, files))

    def _txn_name(self) -> str | None:
        """The name under which a batch write is known again: a writer's numbers count for each topic of its own."""
        name, topic = self._options.txn_app_id, self._options.topic
        return name if name is None or topic is None else f"{name}-{topic}"

    def forget(self, messages: list[WriterCommitMessage | None], batch_id: int) -> None:
        if self._options.delivery == "exactly-once":
            from qanat.spark.sink.staging import Staging

            waiting = [one for one in messages if isinstance(one, Waiting)]
            Staging(self._staging).drop(self._folder(batch_id), [one.staged for one in waiting])
            self._drop_uploads(waiting)

    def _folder(self, batch_id: int) -> str:
        return self._write_id or f"batch-{batch_id}"


@hide_tracebacks
class BatchWriter(_Writing, DataSourceArrowWriter):
    def write(self, iterator: Iterator[RecordBatch]) -> WriterCommitMessage:
        return self.write_rows(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self.finish(messages, 0)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self.forget(messages, 0)


@hide_tracebacks
class StreamWriter(_Writing, DataSourceStreamArrowWriter):
    def write(self, iterator: Iterator[RecordBatch]) -> WriterCommitMessage:
        return self.write_rows(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self.finish(messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self.forget(messages, batchId)


def batch_writer(raw_options: Mapping[str, str], schema: StructType, overwrite: bool) -> BatchWriter:
    """A writer for `df.write`; with delivery=exactly-once its rows become visible together."""
    if overwrite:
        raise OptionError('a topic cannot be overwritten, only appended to: use mode("append")')
    options = sink_options(raw_options)
    if options.delivery == "exactly-once" and options.staging is None:
        raise OptionError(
            "delivery=exactly-once needs option stagingLocation: a folder that the driver and all executors reach"
        )
    return BatchWriter(options, schema, options.staging or "", f"write-{uuid4().hex}")


def stream_writer(raw_options: Mapping[str, str], schema: StructType) -> StreamWriter:
    """A writer for `df.writeStream`."""
    options = sink_options(raw_options)
    if options.txn_app_id is not None:
        raise OptionError(
            "txnAppId is for batch writes, such as those in foreachBatch: a stream numbers its own batches"
        )
    checkpoint = next((value for key, value in raw_options.items() if key.lower() == "checkpointlocation"), None)
    if options.delivery == "exactly-once" and checkpoint is None and options.staging is None:
        raise OptionError(
            "delivery=exactly-once needs option checkpointLocation or stagingLocation: rows are staged there"
        )
    return StreamWriter(options, schema, options.staging or f"{checkpoint}/qanat-staging")
