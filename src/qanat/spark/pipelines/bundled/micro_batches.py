"""Micro-batches of a streaming read, passed to a function: the base of archives and mirrors.

Archives and mirrors store their position at their target. Spark's own checkpoint of a run is therefore temporary: the
next run begins at the target's position, however the last one ended.
"""

from __future__ import annotations

import json
import logging
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition
from qanat.spark.offsets import Offsets
from qanat.spark.options.options import Subscription
from qanat.spark.pipelines.batch_job import BatchJob, Report
from qanat.spark.pipelines.bundled.client_batches import client_query, is_connect
from qanat.spark.pipelines.document import PipelineError
from qanat.spark.pipelines.durations import seconds_of
from qanat.spark.pipelines.pipeline import RunOptions
from qanat.spark.pipelines.query import Query
from qanat.spark.reads.offset_lookup import Lookups

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_log = logging.getLogger(__name__)

_WORDS = {"latest": -1, "earliest": -2}


def start_offsets(chosen: list[TopicPartition], known: Offsets, otherwise: str) -> Offsets:
    """The start of each partition: the target's position, or `earliest` or `latest`."""
    return {at: known.get(at, _WORDS[otherwise]) for at in chosen}


def find_partitions(lookups: Lookups, subscription: Subscription, what: str) -> list[TopicPartition]:
    """The partitions of a subscription; raises if there is none."""
    chosen = lookups.partitions(subscription)
    if not chosen:
        raise PipelineError(f"no topic matches {what}: `qanat topic list` shows the existing ones")
    return chosen


def start_query(
    spark: SparkSession,
    name: str,
    options: Mapping[str, str],
    every: str,
    run_options: RunOptions,
    folder: str,
    take: Callable[[DataFrame], int],
) -> MicroBatchQuery | BatchJob:
    """A running query that passes its micro-batches to `take`, one after the other."""
    if is_connect(spark):
        is_available_now = run_options.is_available_now
        return client_query(spark, name, options, seconds_of(every), take, is_available_now=is_available_now)

    def begin(written: dict[int, int | None]) -> StreamingQuery:
        reader = spark.readStream.format("qanat").option("includeHeaders", "true")
        for key, value in options.items():
            reader = reader.option(key, value)
        # The watermark shows the newest timestamp done; nothing here waits for it.
        frame = reader.load().withWatermark("timestamp", "0 seconds")
        writer = frame.writeStream.queryName(name).option("checkpointLocation", folder)
        writer = (
            writer.trigger(availableNow=True) if run_options.is_available_now else writer.trigger(processingTime=every)
        )

        def hand(batch: DataFrame, number: int) -> None:
            written[number] = None
            written[number] = take(batch)

        return writer.foreachBatch(hand).start()

    return MicroBatchQuery(name, begin)


class MicroBatchQuery(Query):
    """A query that passes its micro-batches to a function; its reports have the rows written and the newest time."""

    def __init__(self, name: str, begin: Callable[[dict[int, int | None]], StreamingQuery]) -> None:
        self._written: dict[int, int | None] = {}
        """Rows written, by the number of the micro-batch; None while it runs."""
        super().__init__(name, lambda: begin(self._written))

    @property
    def lastProgress(self) -> Report | None:  # noqa: N802
        last = super().lastProgress
        return None if last is None else self._with_output_rows(last)

    @property
    def recentProgress(self) -> list[Report]:  # noqa: N802
        return [self._with_output_rows(one) for one in super().recentProgress]

    def resumes_after(self, fault: Exception) -> bool:
        """Not after the first micro-batch: only another launch reads the position from the target."""
        return not self._written and super().resumes_after(fault)

    @property
    def continues_by_launch(self) -> bool:
        return bool(self._written)

    def _with_output_rows(self, progress: Any) -> Report:
        document = json.loads(progress.json)
        document["sink"] = {**document.get("sink", {}), "numOutputRows": self._written.get(document["batchId"]) or 0}
        times = document.get("eventTime") or {}
        if "max" in times:
            # Spark's own watermark is a batch behind.
            document["eventTime"] = {**times, "watermark": times["max"]}
        return Report(progress.timestamp, json.dumps(document))


@contextmanager
def temporary_folder(parent: str | None) -> Iterator[str]:
    """A temporary folder for a run."""
    if parent is not None and ("://" in parent or parent.startswith("file:")):
        # An address: its owner cleans up; a unique name separates runs.
        from uuid import uuid4

        yield f"{parent.rstrip('/')}/{uuid4().hex}"
        return
    if parent is not None:
        from pathlib import Path

        Path(parent).mkdir(parents=True, exist_ok=True)
    folder = tempfile.mkdtemp(prefix="qanat-", dir=parent)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class PeriodicTask:
    """A task that runs every few seconds in a thread. Use it in a `with`.

    It logs errors and tries again the next time.
    """

    def __init__(self, what: str, seconds: float, act: Callable[[], object]) -> None:
        self._what = what
        self._seconds = seconds
        self._act = act
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=what, daemon=True)

    def __enter__(self) -> PeriodicTask:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(self._seconds):
            self.once()

    def once(self) -> None:
        try:
            self._act()
        except QanatError as fault:
            _log.warning("%s: %s", self._what, fault)
