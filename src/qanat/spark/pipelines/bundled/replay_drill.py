"""The restore drill: compares a lake with topics, record by record in order, and writes nothing.

It numbers the records of a partition in order on both sides and computes a checksum of number, key, value, headers and
timestamp. Only where the checksums differ does it join the two sides, to find the first difference.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qanat.model.ids import TopicPartition
from qanat.spark.copying.inventory import cluster_id, topics
from qanat.spark.lake.commits import LakeFile, TopicState, by_partition
from qanat.spark.lake.lake import Lake
from qanat.spark.offsets import to_json
from qanat.spark.pipelines.batch_job import BatchJob, JobProgress
from qanat.spark.pipelines.bundled.replay_plan import RESTORE_SETTINGS, RestoredTopic, restored, selected
from qanat.spark.pipelines.bundled.replay_settings import ReplaySettings
from qanat.spark.pipelines.document import PipelineError
from qanat.spark.pipelines.lake_frames import rows
from qanat.spark.pipelines.pipeline import RunOptions, Stages
from qanat.spark.reads.offset_lookup import Lookups

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FIELDS = {
    "key": "key <=> other_key",
    "value": "value <=> other_value",
    "headers": "headers <=> other_headers",
    "timestamp": "timestamp <=> other_timestamp",
}


@dataclass(frozen=True, slots=True)
class Sum:
    """The count and checksum of a partition."""

    records: int = 0
    checksum: int = 0

    def __str__(self) -> str:
        return f"{self.checksum & (2**64 - 1):016x}"


def drill(spark: SparkSession, wanted: ReplaySettings, run_options: RunOptions) -> Stages:
    """Compare everything; raises `PipelineError` if something differs."""
    lake = Lake.open_existing(wanted.lake)
    files = selected(lake.contents, wanted)
    plan = restored(lake.contents, lake.state_at(wanted.until_ms), wanted, files)
    with Lookups(run_options.access) as lookups:
        run = Drill(spark, lake, lookups, wanted, run_options.cluster)
        try:
            yield [BatchJob("verify", lambda progress: run.do(plan, files, progress))]
        finally:
            for line in run.lines:
                run_options.print_line(line)
        if run.differences:
            raise PipelineError(
                f"the topics differ from the lake in {run.differences} "
                f"{'place' if run.differences == 1 else 'places'}; see above"
            )


class Drill:
    """One comparison, topic by topic."""

    def __init__(
        self, spark: SparkSession, lake: Lake, lookups: Lookups, wanted: ReplaySettings, cluster: Mapping[str, str]
    ) -> None:
        self._spark = spark
        self._lake = lake
        self._lookups = lookups
        self._wanted = wanted
        self._cluster = cluster
        self.lines: list[str] = []
        self.differences = 0

    def do(self, plan: list[RestoredTopic], files: list[LakeFile], progress: JobProgress) -> None:
        there = topics(self._lookups, [one.topic for one in plan])
        is_home = cluster_id(self._lookups) == self._lake.head.cluster
        left = sum(one.rows for one in files)
        for one in plan:
            if progress.must_end:
                self.lines.append("verify: interrupted; the rest was not compared")
                return
            own = [file for file in files if file.topic == one.source]
            left -= sum(file.rows for file in own)
            state = there.get(one.topic)
            if state is None:
                count = sum(file.rows for file in own)
                self._differ(f"{one.topic} does not exist; the lake has {count:,} records of it")
                progress.done(0, left)
                continue
            origin = self._lake.contents.topics.get(one.source)
            is_origin = is_home and origin is not None and origin.id == state.id
            compared = self._compare(one, own, state, is_origin=is_origin)
            if not is_origin:
                self._compare_settings(one, state)
            progress.done(compared, left)

    def _compare(self, one: RestoredTopic, files: list[LakeFile], state: TopicState, *, is_origin: bool) -> int:
        archived = rows(self._spark, self._lake, files, self._wanted.from_ms, self._wanted.until_ms)
        current = self._current(one, state, files, is_origin=is_origin)
        if is_origin:
            archived, current = self._in_common(archived, current, one, state)
        is_compacted = "compact" in state.settings.get("cleanup.policy", "")
        lake_rows, topic_rows = _numbered(archived), _numbered(current)
        in_lake, in_topic = _sums(lake_rows), _sums(topic_rows)
        for number in range(max(one.partitions, state.partitions)):
            left, right = in_lake.get(number, Sum()), in_topic.get(number, Sum())
            place = f"{one.topic}-{number}"
            if left == right:
                self.lines.append(f"{place}: {left.records:,} records, the same, checksum {left}")
                continue
            if is_compacted and _sums(_numbered(_last_of_key(archived, number))) == _sums(
                _numbered(_last_of_key(current, number))
            ):
                self.lines.append(
                    f"{place}: {left.records:,} records in the lake, {right.records:,} in the topic, which is "
                    "compacted: the last of each key are the same"
                )
                continue
            first = _first_difference(lake_rows, topic_rows, number)
            self._differ(f"{place}: {left.records:,} records in the lake, {right.records:,} in the topic; {first}")
        return sum(some.records for some in in_lake.values())

    def _current(self, one: RestoredTopic, state: TopicState, files: list[LakeFile], *, is_origin: bool) -> DataFrame:
        reader = self._spark.read.format("qanat").options(**self._cluster)
        reader = reader.option("subscribe", one.topic).option("includeHeaders", "true")
        if is_origin:
            # Without records that were written after the archive.
            places = [TopicPartition(one.topic, number) for number in range(state.partitions)]
            known, first = self._lake.contents.offsets, self._lookups.earliest(places)
            end = {at: max(first[at], known.get(at, 0)) for at in places}
            reader = reader.option("endingOffsets", json.dumps(to_json(end)))
        return reader.load()

    def _in_common(
        self, archived: DataFrame, current: DataFrame, one: RestoredTopic, state: TopicState
    ) -> tuple[DataFrame, DataFrame]:
        """The common part of an archive and its own source: records removed by retention since are no difference."""
        from functools import reduce

        from pyspark.sql import functions

        col, lit = functions.col, functions.lit
        first = self._lookups.earliest(TopicPartition(one.topic, number) for number in range(state.partitions))
        began = {at: some[0].first for at, some in by_partition(self._lake.contents.files.values()).items()}
        for at, offset in first.items():
            if offset > began.get(at, offset):
                self.lines.append(f"{at}: offsets {began[at]} to {offset - 1} are only in the lake now")
        kept = [
            (col("partition") == lit(at.partition)) & (col("offset") >= lit(offset)) for at, offset in first.items()
        ]
        since = [
            (col("partition") == lit(at.partition)) & (col("offset") >= lit(began[at])) for at in first if at in began
        ]
        nothing = lit(False)
        current = current.where(reduce(lambda left, right: left | right, since, nothing))
        for bound_ms, is_kept in ((self._wanted.from_ms, True), (self._wanted.until_ms, False)):
            if bound_ms is not None:
                edge = functions.timestamp_millis(lit(bound_ms))
                current = current.where(col("timestamp") >= edge if is_kept else col("timestamp") <= edge)
        return archived.where(reduce(lambda left, right: left | right, kept, nothing)), current

    def _compare_settings(self, one: RestoredTopic, state: TopicState) -> None:
        if state.partitions < one.partitions:
            self._differ(f"{one.topic} has {state.partitions} partitions, in the lake it has {one.partitions}")
        for name in sorted({*one.settings, *state.settings}):
            should, found = one.settings.get(name), state.settings.get(name)
            if should != found:
                why = "; the replay has not ended" if found is not None and RESTORE_SETTINGS.get(name) == found else ""
                self._differ(
                    f"{one.topic}: {name} is {found or 'not set'}, in the lake it is {should or 'not set'}{why}"
                )

    def _differ(self, line: str) -> None:
        self.differences += 1
        self.lines.append(f"DIFFERENT {line}")


def _numbered(frame: DataFrame) -> DataFrame:
    """Each record with its number in its partition and a hash of its content.

    The hash ignores nulls, so it covers which fields are null as well.
    """
    return frame.selectExpr(
        "partition",
        "offset",
        "timestamp",
        "key",
        "value",
        "headers",
        "row_number() over (partition by partition order by offset) as number",
    ).selectExpr(
        "*",
        "xxhash64(number, timestamp, key is null, key, value is null, value, coalesce(size(headers), -1), "
        "transform(headers, one -> struct(one.key, one.value is null as is_null, one.value))) as sum",
    )


def _last_of_key(frame: DataFrame, partition: int) -> DataFrame:
    """The records that compaction certainly leaves: the last of each key, unless it is a tombstone."""
    ranked = frame.where(f"partition = {partition}").selectExpr(
        "*", "row_number() over (partition by key order by offset desc) as behind"
    )
    return ranked.where("behind = 1 and value is not null").drop("behind")


def _sums(frame: DataFrame) -> dict[int, Sum]:
    found = frame.groupBy("partition").agg({"*": "count", "sum": "bit_xor"}).collect()
    return {row["partition"]: Sum(row["count(1)"], row["bit_xor(sum)"]) for row in found}


def _first_difference(lake_rows: DataFrame, topic_rows: DataFrame, partition: int) -> str:
    """The first difference of two sides of a partition, as text."""
    names = ("offset", "timestamp", "key", "value", "headers", "sum")
    left = lake_rows.where(f"partition = {partition}").drop("partition")
    right = topic_rows.where(f"partition = {partition}").drop("partition")
    for name in names:
        right = right.withColumnRenamed(name, f"other_{name}")
    both = left.join(right, "number", "full_outer").where("not (sum <=> other_sum)").orderBy("number").limit(1)
    same = [f"{test} as same_{name}" for name, test in FIELDS.items()]
    (row,) = both.selectExpr("number", "offset", "other_offset", *same).collect()
    if row["offset"] is None:
        return f"the topic has records after the lake's last one, from offset {row['other_offset']} on"
    if row["other_offset"] is None:
        return f"the topic ends before record {row['number']}, which has offset {row['offset']} in the lake"
    fields = ", ".join(name for name in FIELDS if not row[f"same_{name}"])
    return (
        f"the first difference is record {row['number']} (offset {row['offset']} in the lake, "
        f"{row['other_offset']} in the topic): {fields}"
    )
