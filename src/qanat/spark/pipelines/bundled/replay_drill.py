"""The restore drill: a lake compared with topics, record by record in their order, and nothing written.

Records of a partition are numbered in order on both sides. A checksum goes over number, key, value, headers and
timestamp; only where it differs are the two sides laid beside each other, to find the first place.
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
from qanat.spark.pipelines.batch_job import Steps, Work
from qanat.spark.pipelines.bundled.catalogue import How, Stages
from qanat.spark.pipelines.bundled.replay import Wanted
from qanat.spark.pipelines.bundled.replay_plan import HELD_BACK, Restored, restored, selected
from qanat.spark.pipelines.document import PipelineError
from qanat.spark.pipelines.lake_frames import rows
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
    """What is compared of a partition."""

    records: int = 0
    checksum: int = 0

    def __str__(self) -> str:
        return f"{self.checksum & (2**64 - 1):016x}"


def drill(spark: SparkSession, wanted: Wanted, how: How) -> Stages:
    """Runs until everything is compared; raises `PipelineError` if something differs."""
    lake = Lake.opened(wanted.lake)
    files = selected(lake.contents, wanted)
    plan = restored(lake.contents, lake.state_at(wanted.until_ms), wanted, files)
    with Lookups(how.access) as lookups:
        run = Drill(spark, lake, lookups, wanted, how.options)
        try:
            yield [Work("verify", lambda told: run.do(plan, files, told))]
        finally:
            for line in run.lines:
                how.tell(line)
        if run.differences:
            raise PipelineError(
                f"the topics differ from the lake in {run.differences} "
                f"{'place' if run.differences == 1 else 'places'}; see above"
            )


class Drill:
    """One comparison, topic by topic."""

    def __init__(
        self, spark: SparkSession, lake: Lake, lookups: Lookups, wanted: Wanted, cluster: Mapping[str, str]
    ) -> None:
        self._spark = spark
        self._lake = lake
        self._lookups = lookups
        self._wanted = wanted
        self._cluster = cluster
        self.lines: list[str] = []
        self.differences = 0

    def do(self, plan: list[Restored], files: list[LakeFile], told: Steps) -> None:
        there = topics(self._lookups, [one.topic for one in plan])
        is_home = cluster_id(self._lookups) == self._lake.head.cluster
        left = sum(one.rows for one in files)
        for one in plan:
            if told.must_end:
                self.lines.append("verify: interrupted; nothing is said of the rest")
                return
            own = [file for file in files if file.topic == one.source]
            left -= sum(file.rows for file in own)
            state = there.get(one.topic)
            if state is None:
                self._differ(f"{one.topic} is not there; the lake has {sum(file.rows for file in own):,} records of it")
                told.done(0, left)
                continue
            origin = self._lake.contents.topics.get(one.source)
            is_origin = is_home and origin is not None and origin.id == state.id
            compared = self._compare(one, own, state, is_origin=is_origin)
            if not is_origin:
                self._compare_settings(one, state)
            told.done(compared, left)

    def _compare(self, one: Restored, files: list[LakeFile], state: TopicState, *, is_origin: bool) -> int:
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

    def _current(self, one: Restored, state: TopicState, files: list[LakeFile], *, is_origin: bool) -> DataFrame:
        reader = self._spark.read.format("qanat").options(**self._cluster)
        reader = reader.option("subscribe", one.topic).option("includeHeaders", "true")
        if is_origin:
            # What came after the archive is not its business.
            places = [TopicPartition(one.topic, number) for number in range(state.partitions)]
            known, first = self._lake.contents.offsets, self._lookups.earliest(places)
            end = {at: max(first[at], known.get(at, 0)) for at in places}
            reader = reader.option("endingOffsets", json.dumps(to_json(end)))
        return reader.load()

    def _in_common(
        self, archived: DataFrame, current: DataFrame, one: Restored, state: TopicState
    ) -> tuple[DataFrame, DataFrame]:
        """The topic that was archived, in its own place: what retention has taken since is no difference."""
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
        for moment, is_kept in ((self._wanted.from_ms, True), (self._wanted.until_ms, False)):
            if moment is not None:
                edge = functions.timestamp_millis(lit(moment))
                current = current.where(col("timestamp") >= edge if is_kept else col("timestamp") <= edge)
        return archived.where(reduce(lambda left, right: left | right, kept, nothing)), current

    def _compare_settings(self, one: Restored, state: TopicState) -> None:
        if state.partitions < one.partitions:
            self._differ(f"{one.topic} has {state.partitions} partitions, in the lake it has {one.partitions}")
        for name in sorted({*one.settings, *state.settings}):
            should, found = one.settings.get(name), state.settings.get(name)
            if should != found:
                why = "; the replay has not ended" if found is not None and HELD_BACK.get(name) == found else ""
                self._differ(
                    f"{one.topic}: {name} is {found or 'not set'}, in the lake it is {should or 'not set'}{why}"
                )

    def _differ(self, line: str) -> None:
        self.differences += 1
        self.lines.append(f"DIFFERENT {line}")


def _numbered(frame: DataFrame) -> DataFrame:
    """Each record with its number in its partition and a sum over all that it is.

    The hash passes over nulls, so what is null is said besides.
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
    """What compaction leaves for certain: the last record of each key, unless it says that the key is gone."""
    ranked = frame.where(f"partition = {partition}").selectExpr(
        "*", "row_number() over (partition by key order by offset desc) as behind"
    )
    return ranked.where("behind = 1 and value is not null").drop("behind")


def _sums(frame: DataFrame) -> dict[int, Sum]:
    found = frame.groupBy("partition").agg({"*": "count", "sum": "bit_xor"}).collect()
    return {row["partition"]: Sum(row["count(1)"], row["bit_xor(sum)"]) for row in found}


def _first_difference(lake_rows: DataFrame, topic_rows: DataFrame, partition: int) -> str:
    """Where two sides of a partition part, in words."""
    names = ("offset", "timestamp", "key", "value", "headers", "sum")
    left = lake_rows.where(f"partition = {partition}").drop("partition")
    right = topic_rows.where(f"partition = {partition}").drop("partition")
    for name in names:
        right = right.withColumnRenamed(name, f"other_{name}")
    both = left.join(right, "number", "full_outer").where("not (sum <=> other_sum)").orderBy("number").limit(1)
    same = [f"{test} as same_{name}" for name, test in FIELDS.items()]
    (row,) = both.selectExpr("number", "offset", "other_offset", *same).collect()
    if row["offset"] is None:
        return f"the topic goes on behind the lake's last record, at offset {row['other_offset']}"
    if row["other_offset"] is None:
        return f"the topic ends before record {row['number']}, which has offset {row['offset']} in the lake"
    fields = ", ".join(name for name in FIELDS if not row[f"same_{name}"])
    return (
        f"the first difference is record {row['number']} (offset {row['offset']} in the lake, "
        f"{row['other_offset']} in the topic): {fields}"
    )
