"""Checkpoints of pipelines: notes beside Spark's own files, and the offsets in those."""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from qanat.connection.committed import committed_offsets
from qanat.model.ids import TopicPartition
from qanat.spark.lake.files import Folder, FolderError
from qanat.spark.offsets import EARLIEST, Offsets, to_json
from qanat.spark.options.options import Access, Subscription
from qanat.spark.pipelines.definition import Definition, Source, located
from qanat.spark.pipelines.document import PipelineError
from qanat.spark.pipelines.runs.checkpoint_notes import CheckpointNote, misfits, note_of
from qanat.spark.pipelines.runs.narrowing import Columns
from qanat.spark.reads.offset_lookup import Lookups

_log = logging.getLogger(__name__)
_NOTES = "_qanat"
_OUT_OF_REACH = (OSError, ValueError, FolderError)
"""Arrow's errors for a file system that Spark may reach all the same."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the checkpoint of a query is."""

    query_id: str
    batch: int
    """The last micro-batch that was planned."""
    is_done: bool
    """Whether it was committed."""
    before: dict[str, dict[str, int]]
    """Where it begins, by topic and partition."""
    after: dict[str, dict[str, int]]
    """Where it ends."""

    @property
    def offsets(self) -> dict[str, dict[str, int]]:
        return self.after if self.is_done else self.before


def read_progress(folder: str, sink: str) -> Progress | None:
    """The progress of a sink's query; None where it has none."""
    files = Folder(f"{located(folder)}/{sink}")
    planned = _numbers(files, "offsets")
    if not planned:
        return None
    done = _numbers(files, "commits")
    last = planned[-1]
    before = _offsets(files, planned[-2]) if len(planned) > 1 else {}
    try:
        query_id = str(json.loads(files.read("metadata"))["id"])
    except (OSError, ValueError, KeyError):
        query_id = ""
    return Progress(query_id, last, last in done, before, _offsets(files, last))


def _numbers(files: Folder, below: str) -> list[int]:
    names = (name.rpartition("/")[2] for name in files.names(below))
    return sorted(int(name) for name in names if name.isascii() and name.isdigit())


def _offsets(files: Folder, batch: int) -> dict[str, dict[str, int]]:
    """The offsets of a micro-batch; of a topic that several sources read, the smaller ones."""
    found: dict[str, dict[str, int]] = {}
    for line in files.read(f"offsets/{batch}").decode().splitlines()[2:]:
        try:
            document = json.loads(line)
        except ValueError:
            continue  # A source that has none yet is a dash.
        for topic, offsets in document.items() if isinstance(document, dict) else ():
            if isinstance(offsets, dict):
                known = found.setdefault(topic, {})
                known |= {one: min(int(at), known.get(one, int(at))) for one, at in offsets.items()}
    return found


def read_note(folder: str, sink: str) -> CheckpointNote | None:
    """The note of a sink; None where there is none, or one of a later version."""
    try:
        return msgspec.json.decode(Folder(located(folder)).read(f"{_NOTES}/{sink}.json"), type=CheckpointNote)
    except (OSError, msgspec.MsgspecError):
        return None


def check_fit(pipeline: Definition, folder: str, sink: str, columns: Columns) -> None:
    """Note what the checkpoint of a sink belongs to; raises `PipelineError` where it belongs to another."""
    note = note_of(pipeline, sink, columns)
    try:
        before = _require_fit(pipeline, folder, sink, note)
        if note != before:
            with Folder(located(folder)).writing(f"{_NOTES}/{sink}.json") as out:
                out.write(msgspec.json.encode(note))
    except _OUT_OF_REACH as fault:
        _log.info("checkpoint %s is not compared with pipeline %s: %s", folder, pipeline.name, fault)


def refuse_misfits(pipeline: Definition, folder: str | None) -> None:
    """Raise `PipelineError` where a sink does not fit its checkpoint, as far as that is known without Spark."""
    if folder is None:
        return
    for sink in pipeline.sinks:
        with suppress(*_OUT_OF_REACH):
            _require_fit(pipeline, folder, sink, note_of(pipeline, sink))


def _require_fit(pipeline: Definition, folder: str, sink: str, note: CheckpointNote) -> CheckpointNote | None:
    """The note that is there; raises `PipelineError` where the new one does not fit it."""
    where = f"pipeline {pipeline.name}, sink {sink}"
    before, has_progress = read_note(folder, sink), read_progress(folder, sink) is not None
    if before is not None and has_progress and (found := misfits(before, note)):
        raise PipelineError(f"{where} does not fit its checkpoint {folder}: {found[0]}; {remedy(folder)}")
    if not has_progress and note.target is not None and _is_numbered(note.target):
        raise PipelineError(
            f"{where}: {note.target} was written from another checkpoint, and Spark would skip new rows as already "
            "written: write another folder, or use that checkpoint"
        )
    return before


def remedy(folder: str) -> str:
    return (
        f"nothing was changed. Undo the change, or begin a new checkpoint at the old offsets, without the old state: "
        f"--checkpoint NEW --from-checkpoint {folder}"
    )


def _is_numbered(folder: str) -> bool:
    """Whether Spark has numbered its micro-batches in a folder of Parquet."""
    return bool(Folder(folder).names("_spark_metadata"))


def old_offsets(pipeline: Definition, folder: str, sink: str, access: Access) -> dict[str, dict[str, int]] | None:
    """Where the query of a sink ended in an old checkpoint; None where it had none.

    A micro-batch that was planned and not committed counts as done where its transaction says so.
    """
    try:
        progress = read_progress(folder, sink)
    except _OUT_OF_REACH as fault:
        raise PipelineError(f"checkpoint {folder} cannot be read: {fault}") from None
    if progress is None:
        return None
    found = _finished(pipeline, sink, progress, access)
    if not found:
        raise PipelineError(
            f"checkpoint {folder} has no finished micro-batch of sink {sink}, and therefore no old offsets: leave out "
            "--from-checkpoint"
        )
    return found


def _finished(pipeline: Definition, sink: str, progress: Progress, access: Access) -> dict[str, dict[str, int]]:
    wanted = pipeline.sinks[sink]
    if progress.is_done or wanted.kind != "topic" or wanted.delivery != "exactly-once":
        return progress.offsets
    with Lookups(access) as lookups:
        group = f"qanat-spark-{progress.query_id}"
        known = lookups.run(lambda cluster, deadline: committed_offsets(cluster, group, deadline, is_stable=True))
    return progress.after if max(known.values(), default=-1) >= progress.batch else progress.before


def start_at(source: Source, offsets: dict[str, dict[str, int]], access: Access) -> str | None:
    """`startingOffsets` of a source at these offsets; None where they name none of its topics.

    Partitions that are new since begin with their first record.
    """
    wanted = Subscription(
        names=(source.topic,) if source.topic is not None else tuple(source.topics), pattern=source.pattern
    )
    with Lookups(access) as lookups:
        chosen = lookups.partitions(wanted)
    if not any(at.topic in offsets for at in chosen):
        return None
    found: Offsets = {at: _offset(offsets, at) for at in chosen}
    return json.dumps(to_json(found))


def _offset(offsets: dict[str, dict[str, int]], at: TopicPartition) -> int:
    return offsets.get(at.topic, {}).get(str(at.partition), EARLIEST)
