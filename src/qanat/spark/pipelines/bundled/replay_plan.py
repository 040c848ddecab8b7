"""The plan of a replay: its topics, their settings, and its steps. Pure.

Rule: within a partition, steps follow each other by offset and do not overlap. The position of a replay is one offset
      per partition; a record with a smaller offset in a later step would be lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from qanat.model.ids import TopicPartition
from qanat.spark.lake.commits import Commit, Contents, LakeFile, TopicState, by_partition
from qanat.spark.pipelines.bundled.replay_settings import ReplaySettings
from qanat.spark.pipelines.document import PipelineError, nearest

RESTORE_SETTINGS = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": "9223372036854775807",
    "message.timestamp.after.max.ms": "9223372036854775807",
}
"""Settings during a restore: others would delete old records, compact them, or change their timestamps."""


@dataclass(frozen=True, slots=True)
class RestoredTopic:
    """A restored topic: its name, partitions and settings."""

    source: str
    topic: str
    partitions: int
    settings: Mapping[str, str]

    @property
    def restore_settings(self) -> dict[str, str]:
        """Its settings during the restore."""
        return {**self.settings, **RESTORE_SETTINGS}

    def has_restore_settings(self, settings: Mapping[str, str]) -> bool:
        """Whether a topic still has the settings of a restore."""
        return any(settings.get(key) == value != self.settings.get(key) for key, value in RESTORE_SETTINGS.items())


@dataclass(frozen=True, slots=True)
class Window:
    """Offsets of one partition, from `first` to before `end`, and the files that hold them."""

    at: TopicPartition
    first: int
    end: int
    files: tuple[LakeFile, ...]
    rows: int


Step = tuple[Window, ...]


def selected(contents: Contents, wanted: ReplaySettings) -> list[LakeFile]:
    """The files that may have records for this replay."""
    return [
        one
        for one in contents.files.values()
        if wanted.subscription.takes(one.at)
        and (wanted.until_ms is None or one.earliest <= wanted.until_ms)
        and (wanted.from_ms is None or one.latest >= wanted.from_ms)
    ]


def restored(
    contents: Contents, then: Commit | None, wanted: ReplaySettings, files: Iterable[LakeFile]
) -> list[RestoredTopic]:
    """Every chosen topic in its state at the time; raises `PipelineError` where there is none."""
    most: dict[str, int] = {}
    for file in files:
        most[file.topic] = max(most.get(file.topic, 0), file.partition + 1)
    states = {**contents.topics, **(then.topics if then is not None else {})}
    there = {*(then.topics if then is not None else ()), *most}
    names = sorted(name for name in there if wanted.subscription.takes(TopicPartition(name, 0)))
    for name in wanted.subscription.names:
        if name not in contents.topics:
            raise PipelineError(f"the lake {wanted.lake} has no topic {name}{nearest(name, contents.topics)}")
    if not names:
        raise PipelineError(f"the lake {wanted.lake} has no topic that matches {wanted.shown}")
    found = [_restored(name, states[name], most.get(name, 0), wanted) for name in names]
    by_name: dict[str, str] = {}
    for one in found:
        if one.topic in by_name:
            raise PipelineError(f"{by_name[one.topic]} and {one.source} would both become {one.topic}: rename one")
        by_name[one.topic] = one.source
    return found


def _restored(name: str, state: TopicState, needed: int, wanted: ReplaySettings) -> RestoredTopic:
    settings = {**state.settings, **wanted.override}
    return RestoredTopic(name, wanted.naming(name), max(state.partitions, needed, 1), settings)


def steps(files: Iterable[LakeFile], positions: Mapping[TopicPartition, int], limit: int) -> list[Step]:
    """The remaining steps of about `limit` rows; partitions alternate."""
    queues = {at: _windows(at, some, positions.get(at, 0), limit) for at, some in by_partition(files).items()}
    found: list[Step] = []
    step: list[Window] = []
    while any(queues.values()):
        for queue in queues.values():
            if not queue:
                continue
            if step and sum(one.rows for one in step) + queue[0].rows > limit:
                found.append(tuple(step))
                step = []
            step.append(queue.pop(0))
    if step:
        found.append(tuple(step))
    return found


def _windows(at: TopicPartition, files: list[LakeFile], position: int, limit: int) -> list[Window]:
    """A partition's files as windows that do not overlap; windows that are too large are split."""
    found: list[Window] = []
    for some in _stretches([one for one in files if one.last >= position]):
        first, end = max(position, some[0].first), max(one.last for one in some) + 1
        # Rows that are done do not count, so that an interrupted replay continues in steps of the same size.
        rows = -(-sum(one.rows for one in some) * (end - first) // (end - some[0].first))
        pieces = max(1, -(-rows // limit))
        edges = [first + (end - first) * number // pieces for number in range(pieces + 1)]
        for begin, stop in pairwise(edges):
            inside = tuple(one for one in some if one.first < stop and one.last >= begin)
            if begin < stop and inside:
                found.append(Window(at, begin, stop, inside, -(-rows // pieces)))
    return found


def _stretches(files: list[LakeFile]) -> list[list[LakeFile]]:
    """Files grouped by overlap: timestamps out of order leave several files of the same offsets."""
    found: list[list[LakeFile]] = []
    end = -1
    for one in files:
        if not found or one.first > end:
            found.append([])
        found[-1].append(one)
        end = max(end, one.last)
    return found
