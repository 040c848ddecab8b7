"""A running archive: micro-batches become files, and commits make files part of the lake.

An archive commits after its files are durable and after it has read topics and groups. If it is killed before a commit,
the next run deletes the files; if it is killed after it, the next run starts after them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa  # type: ignore[import-untyped]

from qanat.model.ids import TopicPartition
from qanat.spark.copying.inventory import cluster_id, groups, topics
from qanat.spark.lake.commits import LakeFile, Positions, TopicState, positions_of
from qanat.spark.lake.files import Folder
from qanat.spark.lake.lake import Lake, LakeError
from qanat.spark.lake.merging import merge_small
from qanat.spark.lake.parquet import write_rows
from qanat.spark.offsets import Offsets, to_json
from qanat.spark.pipelines.bundled.archive_settings import ArchiveSettings
from qanat.spark.pipelines.bundled.micro_batches import (
    PeriodicTask,
    find_partitions,
    start_offsets,
    start_query,
    temporary_folder,
)
from qanat.spark.pipelines.pipeline import RunOptions, Stages
from qanat.spark.reads.offset_lookup import Lookups

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


TRIGGER = "1 second"
"""How often the archive checks whether there is enough for a batch."""


class Archive:
    """A lake and the cluster that is archived into it."""

    def __init__(self, lake: Lake, lookups: Lookups, wanted: ArchiveSettings) -> None:
        self.lake = lake
        self._lookups = lookups
        self._wanted = wanted
        self._turn = threading.Lock()
        """Serializes batches and state commits."""

    def take(self, frame: DataFrame) -> int:
        """Archive a micro-batch, unless it is archived already; returns the number of new records."""
        folder, positions = self.lake.folder, self.lake.contents.offsets
        rows = frame.mapInArrow(lambda batches: _written(batches, folder, positions), "file binary").collect()
        files = [msgspec.json.decode(bytes(row[0]), type=LakeFile) for row in rows]
        if not files:
            return 0
        with self._turn:
            known, stand = self._state()
            self.lake.commit(self.lake.next_commit("batch", known, stand, files))
            merge_small(self.lake, files)
        return sum(one.rows for one in files)

    def look(self) -> None:
        """Commit changes of topics and groups, if there are any."""
        with self._turn:
            known, stand = self._state()
            if known != self.lake.contents.topics or stand != self.lake.contents.groups:
                self.lake.commit(self.lake.next_commit("state", known, stand))

    def begin_at_the_end(self, chosen: list[TopicPartition]) -> None:
        """Commit the start of new partitions: otherwise the next run would skip records after a run without any."""
        new = [at for at in chosen if at not in self.lake.contents.offsets]
        if new:
            start = positions_of(self._lookups.latest(new))
            self.lake.commit(self.lake.next_commit("state", start=start))

    def _state(self) -> tuple[dict[str, TopicState], dict[str, Positions]]:
        chosen = {at.topic for at in self._lookups.partitions(self._wanted.subscription)}
        there = topics(self._lookups, {*chosen, *self.lake.contents.topics})
        self._check_ids(there)
        stand = groups(self._lookups, there, self._wanted.groups, [self._wanted.group])
        # A deleted topic keeps its last state: its records are in the lake.
        return {**self.lake.contents.topics, **there}, {name: positions_of(some) for name, some in stand.items()}

    def _check_ids(self, there: dict[str, TopicState]) -> None:
        for name, state in there.items():
            before = self.lake.contents.topics.get(name)
            if before is not None and before.id != state.id:
                raise LakeError(
                    f"topic {name} was deleted and recreated since it was last archived into {self.lake.folder}: "
                    "its records would be mixed with the old ones. Give the archive a new lake"
                )


def archive(spark: SparkSession, wanted: ArchiveSettings, run_options: RunOptions) -> Stages:
    """Archive until it is stopped or, with available_now, until everything is archived."""
    with ExitStack() as stack:
        lookups = stack.enter_context(Lookups(run_options.access))
        chosen = find_partitions(lookups, wanted.subscription, wanted.shown)
        lake = Lake.open_or_create(wanted.lake, cluster_id(lookups))
        archive = Archive(lake, lookups, wanted)
        archive.look()
        if wanted.start == "latest":
            archive.begin_at_the_end(chosen)
        lake.begin_writing()
        folder = stack.enter_context(temporary_folder(run_options.checkpoint))
        first = start_offsets(chosen, lake.contents.offsets, wanted.start)
        query = start_query(
            spark, "archive", _options(wanted, run_options, first), TRIGGER, run_options, folder, archive.take
        )
        stack.callback(query.stop)
        periodic = stack.enter_context(PeriodicTask("archive of topics and groups", wanted.state_every_s, archive.look))
        try:
            yield [query]
        finally:
            if query.exception() is None:
                query.stop()
                periodic.once()
                lake.end_writing()


def _options(wanted: ArchiveSettings, run_options: RunOptions, first: Offsets) -> dict[str, str]:
    subscription = wanted.subscription
    options = {
        **run_options.cluster,
        "startingOffsets": msgspec.json.encode(to_json(first)).decode(),
        "failOnDataLoss": str(wanted.is_loss_fatal).lower(),
        **{name: str(value) for name, value in wanted.limits.options().items()},
        "minOffsetsPerTrigger": str(wanted.enough),
        "maxTriggerDelay": f"{wanted.delay_s}s",
    }
    if wanted.group:
        options["kafka.group.id"] = wanted.group
    if subscription.pattern is not None:
        return {**options, "subscribePattern": subscription.pattern}
    return {**options, "subscribe": ",".join(subscription.names)}


def _written(
    batches: Iterable[pa.RecordBatch], folder: Folder, positions: dict[TopicPartition, int]
) -> Iterator[pa.RecordBatch]:
    """On an executor: rows into files; the rows for the driver describe the files."""
    encoded = [msgspec.json.encode(one) for one in write_rows(batches, folder, positions)]
    yield pa.RecordBatch.from_pydict({"file": pa.array(encoded, pa.binary())})
