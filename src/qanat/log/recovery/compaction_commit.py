"""Compaction commit, second half: a swap file replaces the segments in its range.

The compaction that wrote the file does it, or recovery after a crash.

Rule: the segment is sealed before it gets its name. A compacted segment without
a sidecar looks like one whose end was lost.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from qanat.log.files import File, Files
from qanat.log.recovery.active_segment_recovery import recover_segment
from qanat.log.segments import file_names
from qanat.log.segments.aborted_index import AbortedTransaction
from qanat.log.segments.index_tables import GrowingTables
from qanat.log.segments.segment import Segment
from qanat.log.segments.sidecar import TableChecksums

_UNKNOWN = TableChecksums(offset_index=-1, time_index=-1, aborted_index=-1)
"""No table has these checksums: the tables are rebuilt when they are first needed."""


def finish_commit(
    files: Files,
    directory: str,
    file: File,
    interval_bytes: int,
    aborted: Sequence[AbortedTransaction] | None = None,
) -> Segment:
    """Remove the segments that `file` replaces, seal it, rename it.

    `aborted` are the transactions whose markers it may hold; unknown after a crash, when there is no
    producer state yet.
    """
    extent = file_names.range_of(file.path.rpartition("/")[2], file_names.SWAP)
    assert extent is not None, f"{file.path} is no swap file"
    base_offset, end_offset = extent
    _remove_replaced(files, directory, base_offset, end_offset)
    segment = Segment(files, directory, base_offset, file, interval_bytes)
    recover_segment(segment, torn_from=None, next_offset=end_offset, is_dense=False)
    segment.next_offset = end_offset
    _seal(segment, aborted)
    file.rename(segment.path(file_names.LOG))
    files.sync_directory(directory)
    return segment


def _remove_replaced(files: Files, directory: str, base_offset: int, end_offset: int) -> None:
    for name in files.list(directory):
        for suffix in (file_names.LOG, *file_names.COMPANION_SUFFIXES):
            offset = file_names.offset_of(name, suffix)
            if offset is not None and base_offset <= offset < end_offset:
                files.remove(f"{directory}/{name}")
    files.sync_directory(directory)


def _seal(segment: Segment, aborted: Sequence[AbortedTransaction] | None) -> None:
    assert isinstance(segment.tables, GrowingTables), "sealed once"
    markers = {header.base_offset for _, header in segment.batches() if header.is_control and header.record_count}
    segment.tables.aborted[:] = [entry for entry in aborted or () if entry.last_offset in markers]
    sidecar = segment.describe()
    if aborted is None:
        sidecar = msgspec.structs.replace(sidecar, checksums=_UNKNOWN)
    segment.write_seal(sidecar)
    segment.become_sealed(sidecar)
