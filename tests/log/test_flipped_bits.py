"""Every bit of a small data directory flipped, after a clean stop and after a kill: nothing wrong is ever read.

Each file of a directory with a plain log, or with a compacted one, has one bit changed while no process runs. Then the
directory is opened and read as from a disk whose pages are not in memory. `make test` takes a sample of the bits;
`QANAT_ALL_BITS=1`, or `-m long`, takes them all.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass

import pytest
from tests.log.batches import NOW, Writer, append, batch, batches_in, compact, end_transaction, flush, log_settings
from tests.log.directories import AT, PATH, TOPIC_ID, opened

from qanat.adapters.memory_catalogue import MemoryCatalogue
from qanat.adapters.memory_files import MemoryFiles
from qanat.log.atomic_files import read_whole, write_volatile
from qanat.log.background_jobs import run_now
from qanat.log.directories.directory import LogDirectory
from qanat.log.page_warmup import PageWarmupJob
from qanat.log.partition_log import PartitionLog
from qanat.log.segments import file_names
from qanat.log.settings import LogSettings
from qanat.model.errors import CorruptLogError, StorageError
from qanat.wire.batch_header import HEADER_SIZE, BatchHeader

PLAIN = log_settings(segment_bytes=420)
COMPACTED = log_settings(segment_bytes=420, cleanup_policy="compact")
SAMPLE = 500
"""Bits for each case where not all are tried."""
FOLDER = f"{PATH}/{AT}"


@dataclass(frozen=True)
class Image:
    """What a process left behind, and what it had written."""

    files: dict[str, bytes]
    catalogue: MemoryCatalogue
    settings: LogSettings
    batches: dict[int, bytes]
    """By base offset."""
    end_offset: int


def content_of(files: MemoryFiles) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for name in files.list(PATH):
        path = f"{PATH}/{name}"
        if name == str(AT):
            found |= {f"{path}/{inner}": read_whole(files, f"{path}/{inner}") or b"" for inner in files.list(path)}
        else:
            found[path] = read_whole(files, path) or b""
    return found


def write_plain(log: PartitionLog) -> None:
    sequence = 0
    for epoch, sizes in ((1, (1, 2, 1)), (4, (3, 1, 1)), (6, (2, 1))):
        for size in sizes:
            append(log, batch(size, writer=Writer(7, sequence=sequence)), epoch)
            sequence += size
        if epoch == 1:
            append(log, batch(2, writer=Writer(8), is_transactional=True), epoch)
            end_transaction(log, 8, is_commit=False)


def write_compacted(log: PartitionLog) -> None:
    for epoch in (1, 2):
        for number in range(6):
            key = b"key-%d" % (number % 4)
            append(log, batch([(key, b"first"), (b"other-%d" % number, b"x")]), epoch)
    compact(log, NOW + 1)
    for _ in range(2):
        append(log, batch([(b"key-9", b"last")]), 3)


def image_of(settings: LogSettings, *, is_clean: bool) -> Image:
    files, catalogue = MemoryFiles(), MemoryCatalogue()
    directory = opened(files, catalogue, topic_settings=settings)
    log = directory.create(AT, TOPIC_ID, settings)
    (write_compacted if settings.is_compacted else write_plain)(log)
    flush(log)
    log.advance_high_watermark(log.end_offset)
    run_now(directory.begin_checkpoint())
    batches = {header.base_offset: content for header, content in read_all(log)[0]}
    end_offset = log.end_offset
    assert len(log.segments) >= 3
    assert log.active.size, "the last segment has records as well"
    if is_clean:
        directory.close()
    return Image(content_of(files), catalogue, settings, batches, end_offset)


def read_all(log: PartitionLog) -> tuple[list[tuple[BatchHeader, bytes]], list[tuple[int, int]]]:
    """Batches read step by step, each range checked first as a cold read does it; and what was refused."""
    found: list[tuple[BatchHeader, bytes]] = []
    refused: list[tuple[int, int]] = []
    offset = log.log_start_offset
    while offset < log.end_offset:
        for segment in log.segments[log.segment_index(offset) :]:
            job = PageWarmupJob(segment, max(offset, segment.base_offset), 300, log.epochs.entries)
            run_now(job)
            if job.is_lost:
                run_now(log.begin_rebuild(segment))
                run_now(PageWarmupJob(segment, max(offset, segment.base_offset), 300, log.epochs.entries))
        try:
            read = log.read(offset, 300)
        except CorruptLogError:
            # Where compaction has emptied a segment, the read has gone on to the next one.
            damage = next((one for one in log.damage if offset < one.next_offset), None)
            assert damage is not None, f"refused at {offset}, but the damage is {log.damage}"
            refused.append((damage.first_offset, damage.next_offset))
            offset = damage.next_offset
            continue
        assert read.next_offset > offset, f"reading stands still at {offset}"
        for view in read.views():
            found += batches_in(view)
        offset = read.next_offset
    return found, refused


def bits_of(image: Image, name: str) -> Iterator[tuple[str, int]]:
    every = [(path, bit) for path in sorted(image.files) for bit in range(8 * len(image.files[path]))]
    if os.environ.get("QANAT_ALL_BITS"):
        yield from every
        return
    headers = [
        (path, bit) for path, bit in every if path.endswith(file_names.LOG) and is_unchecked(image.files[path], bit)
    ]
    yield from random.Random(name).sample(headers, SAMPLE // 2)
    yield from random.Random(name).sample(every, SAMPLE // 2)


def is_unchecked(content: bytes, bit: int) -> bool:
    """Whether a bit of a segment belongs to a base offset or a leader epoch."""
    position, byte = 0, bit // 8
    while position + HEADER_SIZE <= byte:
        size = 12 + int.from_bytes(content[position + 8 : position + 12])
        if byte < position + size:
            break
        position += size
    return byte - position in (*range(8), *range(12, 16))


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def reopened(image: Image, path: str, content: bytes) -> LogDirectory | None:
    """The directory with another content of one file; None where that is refused as a whole."""
    files = MemoryFiles()
    files.make_directory(FOLDER)
    for name, data in (image.files | {path: content}).items():
        write_volatile(files, name, data)
    try:
        return opened(files, deepcopy(image.catalogue), topic_settings=image.settings)
    except StorageError:
        assert path.endswith("meta.properties"), f"{path}: the whole directory is refused"
        return None


def check(image: Image, path: str, content: bytes) -> PartitionLog | None:
    """Whatever is read is what was written, whatever is not is reported; None where the log could not be opened."""
    directory = reopened(image, path, content)
    if directory is None:
        return None
    if AT in directory.offline:
        assert str(directory.offline[AT])
        return None
    log = directory.logs[AT]
    found, _ = read_all(log)
    assert len({header.base_offset for header, _ in found}) == len(found), "an offset is there twice"
    read = {header.base_offset: content for header, content in found}
    for base_offset, one in read.items():
        assert image.batches.get(base_offset) == one, f"offset {base_offset} is not what it was"
    for base_offset in image.batches.keys() - read.keys():
        is_reported = any(one.first_offset <= base_offset < one.next_offset for one in log.damage)
        assert is_reported, f"offset {base_offset} is gone, damage is {log.damage}"
    if not path.endswith(file_names.LOG):
        assert not log.damage, "a file that can be made again is no loss"
    assert log.end_offset == image.end_offset
    goes_on(log, image)
    return log


def check_flip(image: Image, path: str, bit: int) -> None:
    try:
        log = check(image, path, flipped(image.files[path], bit))
        if log is not None and path.endswith(file_names.LOG) and not image.settings.is_compacted:
            hit = [base for base in image.batches if any(d.first_offset <= base < d.next_offset for d in log.damage)]
            assert len(hit) == len(log.damage) == 1, f"{log.damage} for one batch"
    except AssertionError as fault:
        raise AssertionError(f"{path} bit {bit}: {fault}") from fault


def goes_on(log: PartitionLog, image: Image) -> None:
    """The log takes records, and never gives an offset out again."""
    appended = append(log, batch(1), leader_epoch=9, now_ms=NOW + 2)
    assert appended.base_offset == image.end_offset
    flush(log)


CASES = [
    pytest.param(settings, is_clean, id=f"{kind}-{'clean' if is_clean else 'killed'}")
    for kind, settings in (("plain", PLAIN), ("compacted", COMPACTED))
    for is_clean in (False, True)
]
QUICK_CASES = [
    CASES[0],
    *(pytest.param(*case.values, id=case.id, marks=[pytest.mark.long, pytest.mark.data]) for case in CASES[1:]),
]
"""One is part of `make test`, the others of `make test-data`."""


@pytest.mark.parametrize(("settings", "is_clean"), QUICK_CASES)
def test_no_flipped_bit_is_read_as_something_else(
    settings: LogSettings, is_clean: bool, request: pytest.FixtureRequest
) -> None:
    image = image_of(settings, is_clean=is_clean)
    for path, bit in bits_of(image, request.node.name):
        check_flip(image, path, bit)


@pytest.mark.parametrize(("settings", "is_clean"), QUICK_CASES)
def test_no_file_of_any_length_is_read_as_something_else(settings: LogSettings, is_clean: bool) -> None:
    image = image_of(settings, is_clean=is_clean)
    every = [(path, length) for path in sorted(image.files) for length in range(len(image.files[path]))]
    for path, length in random.Random(is_clean).sample(every, SAMPLE // 2):
        try:
            check(image, path, image.files[path][:length])
        except AssertionError as fault:
            raise AssertionError(f"{path} cut to {length} bytes: {fault}") from fault


@pytest.mark.long
@pytest.mark.parametrize(("settings", "is_clean"), CASES)
def test_no_bit_at_all_is_read_as_something_else(
    settings: LogSettings, is_clean: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QANAT_ALL_BITS", "1")
    image = image_of(settings, is_clean=is_clean)
    for path, bit in bits_of(image, ""):
        check_flip(image, path, bit)
