"""Merging: small files of an hour become one, since an archive that runs for long writes many.

Files of one partition and one folder follow each other by offset, so the merged file is in order.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from qanat.spark.lake.commits import LakeFile, by_partition
from qanat.spark.lake.lake import Lake
from qanat.spark.lake.parquet import HELD_BYTES, SCHEMA, open_writer

MERGED_FROM = 8
"""The fewest small files that are merged."""
SMALL_BYTES = 64 * 1024 * 1024
MERGED_BYTES = 256 * 1024 * 1024


def merge_small(lake: Lake, touched: list[LakeFile]) -> None:
    """Merge small files in the folders of these files, where there are enough; each merge is a commit."""
    folders = {_folder(one.path) for one in touched}
    neighbours = [one for one in lake.contents.files.values() if _folder(one.path) in folders]
    for files in by_partition(neighbours).values():
        by_folder: dict[str, list[LakeFile]] = {}
        for one in files:
            by_folder.setdefault(_folder(one.path), []).append(one)
        for some in by_folder.values():
            for run in runs(some):
                _merge(lake, run)


def runs(files: list[LakeFile]) -> list[list[LakeFile]]:
    """Runs of neighbouring files to merge, in order: small, enough of them, not too large together."""
    found: list[list[LakeFile]] = []
    run: list[LakeFile] = []
    for one in files:
        is_fitting = one.bytes < SMALL_BYTES and sum(some.bytes for some in run) + one.bytes <= MERGED_BYTES
        # Timestamps out of order may leave overlapping files of one hour.
        follows = not run or one.first > run[-1].last
        if is_fitting and follows:
            run.append(one)
            continue
        found.append(run)
        run = [one] if one.bytes < SMALL_BYTES else []
    found.append(run)
    return [one for one in found if len(one) >= MERGED_FROM]


def _merge(lake: Lake, files: list[LakeFile]) -> None:
    first, last = files[0], files[-1]
    stem = first.path.removesuffix(".parquet").partition("-merged-")[0]
    path = f"{stem}-merged-{lake.contents.number + 1:010}.parquet"
    with lake.folder.writing(path) as sink:
        with open_writer(sink) as writer:
            for rows in _gathered(lake, files):
                writer.write_table(rows)
        size = sink.tell()
    merged = LakeFile(
        path=path,
        topic=first.topic,
        partition=first.partition,
        first=first.first,
        last=last.last,
        rows=sum(one.rows for one in files),
        bytes=size,
        earliest=min(one.earliest for one in files),
        latest=max(one.latest for one in files),
    )
    lake.commit(lake.next_commit("merge", add=[merged], remove=[one.path for one in files]))
    for one in files:
        lake.folder.delete(one.path)


def _gathered(lake: Lake, files: list[LakeFile]) -> Iterator[pa.Table]:
    """The rows of the files in tables of a good row group size."""
    held: list[pa.Table] = []
    for one in files:
        with lake.folder.opened(one.path) as source, pq.ParquetFile(source) as small:
            for group in range(small.num_row_groups):
                held.append(small.read_row_group(group).select(SCHEMA.names).cast(SCHEMA))
                if sum(some.nbytes for some in held) > HELD_BYTES:
                    yield pa.concat_tables(held)
                    held = []
    if held:
        yield pa.concat_tables(held)


def _folder(path: str) -> str:
    return path.rpartition("/")[0]
