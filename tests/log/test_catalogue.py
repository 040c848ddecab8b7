"""A log is closed into a row and opened from it as it was; a row that the files contradict is not believed."""

from __future__ import annotations

import msgspec
import pytest
from tests.log.batches import (
    FOLDER,
    NOW,
    Writer,
    append,
    batch,
    contents,
    end_transaction,
    fill,
    new_log,
    replicate,
)
from tests.log.directories import WatchedFiles

from qanat.adapters.memory_catalogue import MemoryCatalogue
from qanat.adapters.memory_files import MemoryFiles
from qanat.log.atomic_files import read_whole, write_volatile
from qanat.log.directories.catalogue import PartitionRow, close_log, reopen_log
from qanat.log.files import Files
from qanat.log.partition_log import PartitionLog
from qanat.log.segments import file_names


def lived(files: Files) -> PartitionLog:
    """A log with producers, an aborted transaction, two epochs and several segments."""
    log = new_log(files, segment_bytes=700)
    fill(log, 10, 2)
    append(log, batch(2, writer=Writer(1), is_transactional=True), 1)
    end_transaction(log, 1, is_commit=False)
    append(log, batch(2, writer=Writer(2), is_transactional=True), 2)
    while not log.active.tables.offsets:
        fill(log, 1)
    replicate(log)
    log.advance_log_start(3)
    log.cleaned_offset = 2
    return log


def test_a_log_is_opened_as_it_was_closed() -> None:
    files = MemoryFiles()
    log = lived(files)
    state = (contents(log), log.epochs, log.producers.states, log.log_start_offset, log.high_watermark)
    aborted = log.aborted_transactions(0, log.end_offset)
    stable = log.last_stable_offset
    row = close_log(log, "id")

    found = reopen_log(files, FOLDER, row, log.settings)

    assert found is not None
    again = (contents(found), found.epochs, found.producers.states, found.log_start_offset, found.high_watermark)
    assert again == state
    assert found.aborted_transactions(0, found.end_offset) == aborted
    assert (found.last_stable_offset, found.cleaned_offset, found.end_offset) == (stable, 2, log.end_offset)
    assert found.flushed_offset == found.end_offset
    assert found.active.first_append_ms == NOW
    append(found, batch(2, writer=Writer(2, sequence=2), is_transactional=True), 2)
    assert found.end_offset == log.end_offset + 2


def test_an_empty_log_is_opened_as_it_was_closed() -> None:
    files = MemoryFiles()
    log = new_log(files)
    found = reopen_log(files, FOLDER, close_log(log, "id"), log.settings)

    assert found is not None
    assert found.end_offset == 0
    append(found, batch(1))


@pytest.mark.parametrize(
    "suffix", [file_names.LOG, file_names.OFFSET_INDEX, file_names.TIME_INDEX, file_names.SNAPSHOT]
)
@pytest.mark.parametrize("change", ["gone", "shorter", "longer", "zeros"])
def test_a_row_is_not_believed_over_the_files_of_the_open_segment(suffix: str, change: str) -> None:
    files = MemoryFiles()
    log = lived(files)
    row = close_log(log, "id")
    offset = log.end_offset if suffix == file_names.SNAPSHOT else log.active.base_offset
    path = file_names.segment_file(FOLDER, offset, suffix)
    content = read_whole(files, path) or b""
    files.remove(path)
    assert content
    changed = {"gone": None, "shorter": content[:-1], "longer": content + b"\0", "zeros": bytes(len(content) - 1)}[
        change
    ]
    if changed is not None:
        write_volatile(files, path, changed)

    assert reopen_log(files, FOLDER, row, log.settings) is None


@pytest.mark.parametrize("field", ["leader_epochs", "producer_count"])
def test_a_row_that_contradicts_itself_is_not_believed(field: str) -> None:
    files = MemoryFiles()
    log = lived(files)
    row = close_log(log, "id")
    wrong = {"leader_epochs": "0\n5\n", "producer_count": 7}[field]

    assert reopen_log(files, FOLDER, msgspec.structs.replace(row, **{field: wrong}), log.settings) is None


def test_a_row_is_refused_without_leaving_files_open() -> None:
    files = WatchedFiles(MemoryFiles())
    log = lived(files)
    row = close_log(log, "id")
    files.files.remove(log.segments[0].path(file_names.LOG))
    files.acts.clear()

    assert reopen_log(files, FOLDER, row, log.settings) is None
    assert files.count("open") == files.count("close") > 0


def test_the_catalogue_in_memory_knows_one_generation() -> None:
    files, catalogue = MemoryFiles(), MemoryCatalogue()
    row: PartitionRow = close_log(lived(files), "id")
    catalogue.save("one", [row])

    assert list(catalogue.load("one")) == [row]
    assert list(catalogue.load("two")) == []
    catalogue.save("two", [])
    assert list(catalogue.load("one")) == []
