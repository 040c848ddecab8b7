"""A streaming read whose micro-batches are handed to a function: what archives and mirrors are made of.

They know themselves how far they are, at the place that they write to. Spark's own notes of a run are therefore thrown
away with it: the next run begins where the place says, whatever became of the last one.
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
from qanat.spark.pipelines.batch_job import Report
from qanat.spark.pipelines.bundled.catalogue import How
from qanat.spark.pipelines.document import PipelineError
from qanat.spark.pipelines.query import Query
from qanat.spark.reads.offset_lookup import Lookups

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_log = logging.getLogger(__name__)

_WORDS = {"latest": -1, "earliest": -2}


def starting(chosen: list[TopicPartition], known: Offsets, otherwise: str) -> Offsets:
    """Where each partition is begun: where the place stands, or at `earliest` or `latest`."""
    return {at: known.get(at, _WORDS[otherwise]) for at in chosen}


def found(lookups: Lookups, subscription: Subscription, what: str) -> list[TopicPartition]:
    """The partitions that are read; that there is none is an error."""
    chosen = lookups.partitions(subscription)
    if not chosen:
        raise PipelineError(f"no topic fits {what}: `qanat topic list` shows those that there are")
    return chosen


def start(
    spark: SparkSession,
    name: str,
    options: Mapping[str, str],
    every: str,
    how: How,
    notes: str,
    take: Callable[[DataFrame], int],
) -> Handing:
    """A running query that hands its micro-batches over, one after the other."""

    def begin(written: dict[int, int | None]) -> StreamingQuery:
        reader = spark.readStream.format("qanat").option("includeHeaders", "true")
        for key, value in options.items():
            reader = reader.option(key, value)
        # The watermark is the newest timestamp that is through; nothing here waits for it.
        frame = reader.load().withWatermark("timestamp", "0 seconds")
        writer = frame.writeStream.queryName(name).option("checkpointLocation", notes)
        writer = writer.trigger(availableNow=True) if how.is_available_now else writer.trigger(processingTime=every)

        def hand(batch: DataFrame, number: int) -> None:
            written[number] = None
            written[number] = take(batch)

        return writer.foreachBatch(hand).start()

    return Handing(name, begin)


class Handing(Query):
    """A query that hands its micro-batches over; its reports say what was written, and up to which time."""

    def __init__(self, name: str, begin: Callable[[dict[int, int | None]], StreamingQuery]) -> None:
        self._written: dict[int, int | None] = {}
        """By number of the micro-batch; none as long as it is at hand."""
        super().__init__(name, lambda: begin(self._written))

    @property
    def lastProgress(self) -> Report | None:  # noqa: N802
        last = super().lastProgress
        return None if last is None else self._told(last)

    @property
    def recentProgress(self) -> list[Report]:  # noqa: N802
        return [self._told(one) for one in super().recentProgress]

    def goes_on_after(self, fault: Exception) -> bool:
        """Not once a micro-batch was handed over: how far it came is for the next run to find out, at the place."""
        return not self._written and super().goes_on_after(fault)

    def _told(self, progress: Any) -> Report:
        document = json.loads(progress.json)
        document["sink"] = {**document.get("sink", {}), "numOutputRows": self._written.get(document["batchId"]) or 0}
        times = document.get("eventTime") or {}
        if "max" in times:
            # Nothing waits for Spark's watermark, which is a batch behind.
            document["eventTime"] = {**times, "watermark": times["max"]}
        return Report(progress.timestamp, json.dumps(document))


@contextmanager
def throwaway(parent: str | None) -> Iterator[str]:
    """A folder for as long as a run lasts."""
    if parent is not None and ("://" in parent or parent.startswith("file:")):
        # An address: its owner cleans up; a name of its own keeps runs apart.
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


class Regularly:
    """Something done every few seconds in a thread of its own, as long as this is open. Use it in a `with`.

    What goes wrong is told in the log and tried again at the next turn.
    """

    def __init__(self, what: str, seconds: float, act: Callable[[], object]) -> None:
        self._what = what
        self._seconds = seconds
        self._act = act
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=what, daemon=True)

    def __enter__(self) -> Regularly:
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
