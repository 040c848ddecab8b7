"""A segment's tables: growing in memory, checked on disk."""

from __future__ import annotations

import pytest
from tests.log.batches import FOLDER, NOW

from qanat.adapters.memory_files import MemoryFiles
from qanat.log.atomic_files import read_whole, write_volatile
from qanat.log.segments import file_names
from qanat.log.segments.aborted_index import AbortedTransaction, encode_aborted
from qanat.log.segments.index_tables import GrowingTables, SealedTables

ENTRY = AbortedTransaction(7, 100, 105, 106)


def grown(aborted: bool = True) -> GrowingTables:
    tables = GrowingTables(100, 50)
    for number in range(5):
        tables.enter(40 * number, 40, 100 + number, NOW + number, 100 + number)
    if aborted:
        tables.aborted.append(ENTRY)
    return tables


@pytest.fixture
def files() -> MemoryFiles:
    files = MemoryFiles()
    files.make_directory(FOLDER)
    return files


def path(suffix: str) -> str:
    return file_names.segment_file(FOLDER, 100, suffix)


def test_an_entry_is_made_when_more_than_the_interval_was_written_since_the_last() -> None:
    assert bytes(grown().offsets) == bytes.fromhex("00000002 00000050 00000004 000000a0")


def test_sealed_tables_answer_as_the_growing_ones_did(files: MemoryFiles) -> None:
    tables = grown()
    tables.write(files, FOLDER)
    sealed = SealedTables(files, FOLDER, 100, tables.checksums())
    assert [sealed.is_checked, sealed.check(), sealed.is_checked] == [False, True, True]
    assert (bytes(sealed.offsets), bytes(sealed.times)) == (bytes(tables.offsets), bytes(tables.times))
    assert sealed.aborted == [ENTRY]
    sealed.close()


def test_tables_without_entries_have_files_but_no_aborted_index(files: MemoryFiles) -> None:
    tables = GrowingTables(100, 50)
    tables.write(files, FOLDER)
    assert files.list(FOLDER) == [f"{100:020d}{suffix}" for suffix in (file_names.OFFSET_INDEX, file_names.TIME_INDEX)]
    sealed = SealedTables(files, FOLDER, 100, tables.checksums())
    assert sealed.check()
    assert (bytes(sealed.offsets), bytes(sealed.times), sealed.aborted) == (b"", b"", [])


def test_an_old_aborted_index_does_not_outlive_new_tables_without_one(files: MemoryFiles) -> None:
    grown().write(files, FOLDER)
    grown(aborted=False).write(files, FOLDER)
    assert not files.exists(path(file_names.ABORTED_INDEX))


@pytest.mark.parametrize("suffix", [file_names.OFFSET_INDEX, file_names.TIME_INDEX, file_names.ABORTED_INDEX])
def test_a_file_that_is_not_what_was_sealed_is_noticed(files: MemoryFiles, suffix: str) -> None:
    tables = grown()
    tables.write(files, FOLDER)
    whole = read_whole(files, path(suffix))
    assert whole
    for wrong in (b"", whole[:-1], whole + b"\0", whole[:-1] + b"?"):
        write_volatile(files, path(suffix), wrong)
        assert not SealedTables(files, FOLDER, 100, tables.checksums()).check()
    files.remove(path(suffix))
    assert not SealedTables(files, FOLDER, 100, tables.checksums()).check()


def test_held_tables_answer_after_their_names_are_gone(files: MemoryFiles) -> None:
    tables = grown()
    tables.write(files, FOLDER)
    sealed = SealedTables(files, FOLDER, 100, tables.checksums())
    assert sealed.check()
    for suffix in (file_names.OFFSET_INDEX, file_names.TIME_INDEX, file_names.ABORTED_INDEX):
        files.remove(path(suffix))
    assert bytes(sealed.offsets) == bytes(tables.offsets)
    assert sealed.aborted == [ENTRY]


def test_growing_tables_can_be_restored_and_grow_on_as_if_never_stopped() -> None:
    stopped, running = grown(), grown()
    stopped.enter_timestamp(NOW + 4, 104)
    running.enter_timestamp(NOW + 4, 104)
    restored = GrowingTables.restored(
        100, 50, 200, bytes(stopped.offsets), bytes(stopped.times), encode_aborted(stopped.aborted)
    )
    assert restored is not None
    assert restored.checksums() == running.checksums()
    for number in range(5, 12):
        for tables in (restored, running):
            tables.enter(40 * number, 40, 100 + number, NOW + number, 100 + number)
    assert restored.checksums() == running.checksums()


@pytest.mark.parametrize("cut", [(1, 0, 0), (0, 1, 0), (0, 0, 1)])
def test_files_that_cannot_be_tables_are_not_restored(cut: tuple[int, int, int]) -> None:
    tables = grown()
    contents = [bytes(tables.offsets), bytes(tables.times), encode_aborted(tables.aborted)]
    torn = [content[: len(content) - missing] for content, missing in zip(contents, cut, strict=True)]
    assert GrowingTables.restored(100, 50, 200, *torn) is None
