"""What of a lake is replayed: which topics, how they are to be, and in which steps. Pure.

Rule: within a partition, steps follow each other by offset and do not overlap. How far a replay is, is one offset a
partition; a record that came before it in time and behind it in order would be lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from qanat.model.ids import TopicPartition
from qanat.spark.lake.commits import Commit, Contents, LakeFile, TopicState, by_partition
from qanat.spark.pipelines.bundled.replay import Wanted
from qanat.spark.pipelines.decoding import nearest
from qanat.spark.pipelines.document import PipelineError

HELD_BACK = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": "9223372036854775807",
    "message.timestamp.after.max.ms": "9223372036854775807",
}
"""Settings while records come back: others would drop old records, compact them, or give them the time of today."""


@dataclass(frozen=True, slots=True)
class Restored:
    """A topic as it is to be."""

    source: str
    topic: str
    partitions: int
    settings: Mapping[str, str]

    @property
    def meanwhile(self) -> dict[str, str]:
        """Its settings while records come back."""
        return {**self.settings, **HELD_BACK}

    def is_held_back(self, settings: Mapping[str, str]) -> bool:
        """Whether a topic still has what it has meanwhile."""
        return any(settings.get(key) == value != self.settings.get(key) for key, value in HELD_BACK.items())


@dataclass(frozen=True, slots=True)
class Window:
    """Offsets of one partition, from `first` on and before `end`, and the files that have some of them."""

    at: TopicPartition
    first: int
    end: int
    files: tuple[LakeFile, ...]
    rows: int


Step = tuple[Window, ...]


def selected(contents: Contents, wanted: Wanted) -> list[LakeFile]:
    """The files in which there may be something for this replay."""
    return [
        one
        for one in contents.files.values()
        if wanted.subscription.takes(one.at)
        and (wanted.until_ms is None or one.earliest <= wanted.until_ms)
        and (wanted.from_ms is None or one.latest >= wanted.from_ms)
    ]


def restored(contents: Contents, then: Commit | None, wanted: Wanted, files: Iterable[LakeFile]) -> list[Restored]:
    """Every topic that is chosen, as it was at the moment; raises `PipelineError` where there is none."""
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
        raise PipelineError(f"the lake {wanted.lake} has nothing that fits {wanted.shown}")
    found = [_restored(name, states[name], most.get(name, 0), wanted) for name in names]
    by_name: dict[str, str] = {}
    for one in found:
        if one.topic in by_name:
            raise PipelineError(f"{by_name[one.topic]} and {one.source} would both become {one.topic}: rename one")
        by_name[one.topic] = one.source
    return found


def _restored(name: str, state: TopicState, needed: int, wanted: Wanted) -> Restored:
    settings = {**state.settings, **wanted.override}
    return Restored(name, wanted.naming(name), max(state.partitions, needed, 1), settings)


def steps(files: Iterable[LakeFile], positions: Mapping[TopicPartition, int], limit: int) -> list[Step]:
    """What is left to do, in steps of about `limit` rows; partitions take turns."""
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
    """A partition's files in stretches that do not overlap, those that are too large cut into pieces."""
    found: list[Window] = []
    for some in _stretches([one for one in files if one.last >= position]):
        first, end = max(position, some[0].first), max(one.last for one in some) + 1
        # What is done already is no longer counted, so that an interrupted replay goes on in steps as large as before.
        rows = -(-sum(one.rows for one in some) * (end - first) // (end - some[0].first))
        pieces = max(1, -(-rows // limit))
        edges = [first + (end - first) * number // pieces for number in range(pieces + 1)]
        for begin, stop in pairwise(edges):
            inside = tuple(one for one in some if one.first < stop and one.last >= begin)
            if begin < stop and inside:
                found.append(Window(at, begin, stop, inside, -(-rows // pieces)))
    return found


def _stretches(files: list[LakeFile]) -> list[list[LakeFile]]:
    """Files that overlap belong together: times that jump about leave several of the same offsets."""
    found: list[list[LakeFile]] = []
    end = -1
    for one in files:
        if not found or one.first > end:
            found.append([])
        found[-1].append(one)
        end = max(end, one.last)
    return found
