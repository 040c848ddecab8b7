"""A running replay: topics are created, rows restored step by step, groups moved to their positions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING

from qanat.model.ids import TopicPartition
from qanat.spark.copying.copy_target import CopyTarget
from qanat.spark.copying.group_positions import put
from qanat.spark.copying.inventory import topics
from qanat.spark.copying.ledger import Copy
from qanat.spark.copying.provision import provide
from qanat.spark.lake.commits import Commit, LakeFile, TopicState
from qanat.spark.lake.lake import Lake
from qanat.spark.offsets import from_json
from qanat.spark.pipelines.batch_job import BatchJob, JobProgress
from qanat.spark.pipelines.bundled.micro_batches import temporary_folder
from qanat.spark.pipelines.bundled.replay_plan import RestoredTopic, Step, restored, selected, steps
from qanat.spark.pipelines.bundled.replay_settings import ReplaySettings
from qanat.spark.pipelines.document import PipelineError
from qanat.spark.pipelines.lake_frames import rows
from qanat.spark.pipelines.pipeline import RunOptions, Stages
from qanat.spark.reads.offset_lookup import Lookups
from qanat.spark.session import task_slots

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def replay(spark: SparkSession, wanted: ReplaySettings, run_options: RunOptions) -> Stages:
    """Restore everything, or as much as is done when it is stopped."""
    lake = Lake.open_existing(wanted.lake)
    access = run_options.access
    then = lake.state_at(wanted.until_ms)
    files = selected(lake.contents, wanted)
    plan = restored(lake.contents, then, wanted, files)
    ledger_topic = wanted.ledger_topic(lake.head.id)
    with Lookups(access) as lookups:
        if ledger_topic not in topics(lookups, [ledger_topic]):
            # Checked before anything is created.
            _check_empty(lookups, topics(lookups, [one.topic for one in plan]))
    with CopyTarget(access, ledger_topic) as copy_target, temporary_folder(run_options.checkpoint) as folder:
        run = Replay(spark, lake, copy_target, wanted, folder)
        job = BatchJob("replay", lambda progress: run.do(plan, files, then, progress))
        try:
            yield [job]
        finally:
            for line in run.result:
                run_options.print_line(line)
        if run.refused:
            raise PipelineError(f"{', '.join(run.refused)} could not be moved to their positions; see above")


class Replay:
    """One replay."""

    def __init__(
        self, spark: SparkSession, lake: Lake, copy_target: CopyTarget, wanted: ReplaySettings, folder: str
    ) -> None:
        self._spark = spark
        self._lake = lake
        self._copy_target = copy_target
        self._wanted = wanted
        self._folder = folder
        self.result: list[str] = []
        self.refused: list[str] = []
        """Groups that could not be moved."""

    def do(self, plan: list[RestoredTopic], files: list[LakeFile], then: Commit | None, progress: JobProgress) -> None:
        copies = self._prepare(plan)
        left = steps(files, self._copy_target.ledger.positions(copies.values()), self._wanted.limit)
        if left:
            for one in plan:
                provide(self._copy_target.lookups, one.topic, one.partitions, one.restore_settings)
        written = self._bring_back(left, copies, progress)
        if progress.must_end:
            self.result.append("replay: interrupted; the next run continues here")
            return
        self._finish(plan)
        self.result.append(
            f"replay: {counted(written, 'record')} written to {counted(len(plan), 'topic')}, "
            f"{self._known(copies) - written:,} there already"
        )
        self._put_groups(copies, then)

    def _prepare(self, plan: list[RestoredTopic]) -> dict[str, Copy]:
        """Create the topics; returns them by their names in the lake. Each is empty or written by this replay."""
        lookups = self._copy_target.lookups
        there = topics(lookups, [one.topic for one in plan])
        _check_empty(
            lookups, {name: one for name, one in there.items() if self._copy_target.copy_of(name, one) is None}
        )
        copies: dict[str, Copy] = {}
        for one in plan:
            state = there.get(one.topic)
            if state is None or state.partitions < one.partitions:
                state = provide(lookups, one.topic, one.partitions, one.restore_settings)
            copies[one.source] = Copy(one.topic, state.id, one.source, (self._lake.head.cluster,))
        self._copy_target.record_copies(copies.values())
        return copies

    def _bring_back(self, left: list[Step], copies: Mapping[str, Copy], progress: JobProgress) -> int:
        to_do = sum(window.rows for step in left for window in step)
        written = 0
        for step in left:
            if progress.must_end:
                break
            new = self._copy_target.copy(self._frame(step), copies, f"{self._folder}/staging", self._wanted.compression)
            written += new
            planned = sum(window.rows for window in step)
            to_do -= planned
            newest = max(one.latest for window in step for one in window.files)
            progress.done(planned, to_do, min(newest, self._wanted.until_ms or newest), new)
        return written

    def _frame(self, step: Step) -> DataFrame:
        """The rows of a step, those of a partition in one task and in order."""
        from pyspark.sql import functions

        col, lit = functions.col, functions.lit
        files = {one.path: one for window in step for one in window.files}
        frame = rows(self._spark, self._lake, files.values(), self._wanted.from_ms, self._wanted.until_ms)
        inside = [
            (col("topic") == lit(window.at.topic))
            & (col("partition") == lit(window.at.partition))
            & (col("offset") >= lit(window.first))
            & (col("offset") < lit(window.end))
            for window in step
        ]
        tasks = min(len(step), task_slots(self._spark))
        ordered = frame.where(reduce(lambda one, other: one | other, inside)).repartition(tasks, "topic", "partition")
        return ordered.sortWithinPartitions("topic", "partition", "offset")

    def _finish(self, plan: list[RestoredTopic]) -> None:
        """Set the topics' own settings, unless they have them or an operator has changed them."""
        there = topics(self._copy_target.lookups, [one.topic for one in plan])
        for one in plan:
            if one.has_restore_settings(there[one.topic].settings):
                provide(self._copy_target.lookups, one.topic, one.partitions, one.settings)

    def _known(self, copies: Mapping[str, Copy]) -> int:
        ledger = self._copy_target.ledger
        ids = {one.id for one in copies.values()}
        return sum(known.rows for (found, _), known in ledger.maps.items() if found in ids)

    def _put_groups(self, copies: Mapping[str, Copy], then: Commit | None) -> None:
        if self._wanted.groups is None:
            return
        stood = {
            name: from_json(positions, "the lake")
            for name, positions in (then.groups if then is not None else {}).items()
            if re.fullmatch(self._wanted.groups, name)
        }
        if not stood:
            self.result.append(f"replay: the lake has no group that matches {self._wanted.groups}")
        for name, positions in stood.items():
            known: dict[TopicPartition, int] = {at: offset for at, offset in positions.items() if at.topic in copies}
            outcome = put(self._copy_target, name, known, copies, is_forward_only=False)
            self.result.append(f"replay: {outcome.text}")
            if outcome.is_refused:
                self.refused.append(name)


def counted(count: int, what: str) -> str:
    """
    >>> counted(1, "topic"), counted(1200, "record")
    ('1 topic', '1,200 records')
    """
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def _check_empty(lookups: Lookups, there: Mapping[str, TopicState]) -> None:
    """Refuse topics that have records of other writers."""
    full: list[str] = []
    for name, state in there.items():
        places = [TopicPartition(name, number) for number in range(state.partitions)]
        first, end = lookups.earliest(places), lookups.latest(places)
        count = sum(end[at] - first[at] for at in places)
        if count:
            full.append(f"{name} ({counted(count, 'record')})")
    if full:
        raise PipelineError(
            f"not empty, and not written by this replay: {', '.join(full)}. Restore under other names "
            "(prefix, rename), or delete the topics first"
        )
