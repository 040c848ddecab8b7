"""Folders that go: deleted for good at every moment, and missed when they were removed from outside."""

from __future__ import annotations

import pytest
from tests.log.batches import fill, log_settings, pairs_of, replicate
from tests.log.directories import PATH, opened

from qanat.adapters.memory_catalogue import MemoryCatalogue
from qanat.adapters.memory_files import MemoryFiles
from qanat.log.background_jobs import run_now
from qanat.log.directories.directory import CLEAN_SHUTDOWN, LogDirectory
from qanat.log.directories.partition_folders import empty_folder
from qanat.log.files import Files
from qanat.model.errors import StorageError
from qanat.model.ids import TopicPartition
from qanat.testing.simulation.disk import SimDisk
from qanat.testing.simulation.disk_faults import DiskFaults, PowerLoss

AT, OTHER = TopicPartition("a", 0), TopicPartition("b", 0)


def filled(files: Files, catalogue: MemoryCatalogue) -> LogDirectory:
    directory = opened(files, catalogue)
    for at in (AT, OTHER):
        log = directory.create(at, "id-1", log_settings())
        fill(log, 6, 2)
        replicate(log)
    run_now(directory.begin_checkpoint())
    return directory


def remove_by_hand(files: Files, at: TopicPartition) -> None:
    empty_folder(files, f"{PATH}/{at}")
    files.remove_directory(f"{PATH}/{at}")


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_log_whose_folder_is_gone_is_offline_and_stays_so(is_clean: bool) -> None:
    files, catalogue = MemoryFiles(), MemoryCatalogue()
    filled(files, catalogue).close()
    remove_by_hand(files, AT)
    for _ in range(3):
        if not is_clean:
            files.remove(f"{PATH}/{CLEAN_SHUTDOWN}")
        directory = opened(files, catalogue)
        with pytest.raises(
            StorageError, match=r"/data/a-0 is gone.*records of a-0 up to offset 12.*put the folder back"
        ):
            directory.create(AT, "id-1", log_settings())
        assert list(directory.offline) == [AT]
        assert list(directory.logs) == [OTHER]
        assert not files.exists(f"{PATH}/{AT}")
        directory.close()

    files.make_directory(f"{PATH}/{AT}")
    directory = opened(files, catalogue)
    assert not directory.offline
    assert pairs_of(directory.logs[AT]) == []
    fill(directory.logs[AT], 1)


def test_a_log_without_records_is_made_again_without_a_word() -> None:
    files, catalogue = MemoryFiles(), MemoryCatalogue()
    directory = opened(files, catalogue)
    directory.create(AT, "id-1", log_settings())
    directory.close()
    remove_by_hand(files, AT)

    directory = opened(files, catalogue)
    assert not directory.lost
    assert directory.create(AT, "id-1", log_settings()).end_offset == 0


def test_after_a_crash_a_log_that_was_empty_at_the_last_checkpoint_is_missed() -> None:
    files, catalogue = MemoryFiles(), MemoryCatalogue()
    directory = opened(files, catalogue)
    directory.create(AT, "id-1", log_settings())
    directory.close()
    files.remove(f"{PATH}/{CLEAN_SHUTDOWN}")
    remove_by_hand(files, AT)

    directory = opened(files, catalogue)
    with pytest.raises(StorageError, match="is gone"):
        directory.create(AT, "id-1", log_settings())


def test_a_new_topic_of_the_same_name_has_nothing_to_miss() -> None:
    files, catalogue = MemoryFiles(), MemoryCatalogue()
    filled(files, catalogue).close()
    remove_by_hand(files, AT)

    directory = opened(files, catalogue)
    assert directory.create(AT, "id-2", log_settings()).end_offset == 0
    assert not directory.offline


def test_a_log_that_was_set_aside_is_not_missed() -> None:
    disk = SimDisk(1)
    directory = filled(disk, MemoryCatalogue())
    run_now(directory.begin_set_aside(AT))

    found = opened(disk.crash("drop_all"))
    assert found.has_checkpoint(AT)
    assert not found.lost


def test_nobody_misses_a_deleted_log_whenever_the_power_fails() -> None:
    """Deleted, forgotten by a checkpoint, made anew as another topic's: the power may fail before any operation."""
    operation = 0
    while True:
        operation += 1
        disk = SimDisk(3)
        directory = filled(disk, MemoryCatalogue())
        disk.faults = DiskFaults(power_loss_at_operation=disk.operations + operation)
        is_over = False
        try:
            run_now(directory.begin_delete(AT))
            run_now(directory.begin_checkpoint())
            directory.create(AT, "id-2", log_settings())
            is_over = True
        except PowerLoss:
            pass
        for mode in ("drop_all", "keep_all", "random"):
            found = opened(disk.crash(mode, variant=operation))
            if AT not in found.logs:
                assert found.create(AT, "id-2", log_settings()).end_offset == 0, f"operation {operation}, {mode}"
            assert not found.offline
        if is_over:
            assert operation > 20
            return
