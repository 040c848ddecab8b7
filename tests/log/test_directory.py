"""A data directory is opened, recovered, closed, never shared, and never half there."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.log.batches import Writer, append, batch, fill, flush, log_settings, pairs_of, replicate, truncate
from tests.log.directories import AT, IDENTITY, PATH, TOPIC_ID, WatchedFiles, opened

from qanat.adapters.memory_catalogue import MemoryCatalogue
from qanat.adapters.memory_files import MemoryFiles
from qanat.adapters.os_files import OsFiles
from qanat.adapters.sqlite_catalogue import SqliteCatalogue
from qanat.log.atomic_files import read_whole, replace, write_volatile
from qanat.log.background_jobs import run_now
from qanat.log.directories import checkpoints
from qanat.log.directories.checkpoints import decode_offsets
from qanat.log.directories.directory import LogDirectory
from qanat.log.directories.identity import DirectoryIdentity
from qanat.log.files import Files
from qanat.log.page_warmup import CheckJob
from qanat.log.segments import file_names
from qanat.log.segments.sidecar import Sidecar, encode_sidecar
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import (
    DirectoryLockedError,
    DiskFullError,
    PartitionDeletedError,
    ReadOnlyError,
    StorageError,
    UnreadableSegmentError,
)
from qanat.model.ids import TopicPartition
from qanat.testing.simulation.crash_image import CrashMode
from qanat.testing.simulation.disk import SimDisk
from qanat.testing.simulation.disk_faults import DiskFaults, PowerLoss

MARKER = f"{PATH}/.kafka_cleanshutdown"
PARTITIONS = [TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)]
FIRST = PARTITIONS[0]


def filled(files: Files, catalogue: MemoryCatalogue | SqliteCatalogue, path: str = PATH) -> LogDirectory:
    """Three partitions, each with sealed segments and an open one."""
    directory = opened(files, catalogue, path=path)
    for at in PARTITIONS:
        log = directory.create(at, f"id-of-{at.topic}", log_settings(segment_bytes=600))
        fill(log, 12, 2)
        replicate(log)
    return directory


def content_of(directory: LogDirectory) -> dict[TopicPartition, Any]:
    return {
        at: (pairs_of(log), log.log_start_offset, log.high_watermark, log.epochs.entries, directory.topic_ids[at])
        for at, log in directory.logs.items()
    }


# One process at a time


def test_c68_a_second_process_is_refused_by_name_and_pid(tmp_path: Path) -> None:
    program = """
import sys
from qanat.app.node.compose import open_log_directory
from qanat.model.errors import DirectoryLockedError
try:
    open_log_directory(sys.argv[1]).close()
except DirectoryLockedError as error:
    print(error)
else:
    print("opened")
"""
    path = str(tmp_path / "data")

    def other_process() -> str:
        done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    directory = opened(OsFiles(), path=path, identity=IDENTITY)
    assert other_process().startswith(f"{path} is in use by process {os.getpid()}; stop that one")
    with pytest.raises(DirectoryLockedError, match="this process"):
        opened(OsFiles(), path=path)
    directory.close()
    # Now it is free, and belongs to another broker.
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=False)
    assert "belongs to cluster.id 'cluster', this broker has 'qanat-local'" in done.stderr
    opened(OsFiles(), path=path).close()


@pytest.mark.parametrize("ending", ["close", "failed close", "failed open"])
def test_the_lock_is_free_again_after(ending: str) -> None:
    files = WatchedFiles(MemoryFiles())
    directory = opened(files)
    if ending == "close":
        directory.close()
    else:

        def refuse(path: str) -> None:
            raise StorageError(f"cannot sync {path}")

        files.before_sync_directory = refuse
        if ending == "failed open":
            files.before_sync_directory = lambda _: None
            directory.close()
            files.before_sync_directory = refuse
            with pytest.raises(StorageError):
                opened(files)
        else:
            with pytest.raises(StorageError):
                directory.close()
    files.before_sync_directory = lambda _: None

    opened(files).close()


def test_a_read_only_file_system_is_told_in_one_sentence() -> None:
    disk = SimDisk(1)
    opened(disk).close()
    disk.faults = DiskFaults(is_read_only=True)

    with pytest.raises(ReadOnlyError, match=r"^cannot \w+ /data[^\n]*: read-only file system$"):
        opened(disk)
    disk.faults = DiskFaults()
    opened(disk).close()


# Clean and unclean


def test_a_clean_start_reads_no_batches_and_finds_everything() -> None:
    files, catalogue = WatchedFiles(MemoryFiles()), MemoryCatalogue()
    directory = filled(files, catalogue)
    content = content_of(directory)
    directory.close()
    assert not directory.logs
    files.acts.clear()

    directory = opened(files, catalogue)

    assert directory.was_clean
    assert files.count("read", file_names.LOG) == 0
    assert files.count("read", file_names.SIDECAR) == 0
    assert content_of(directory) == content


def test_c67_the_marker_is_written_last_and_removed_first() -> None:
    files, catalogue = WatchedFiles(MemoryFiles()), MemoryCatalogue()
    filled(files, catalogue).close()
    changes = [(act, path) for act, path in files.acts if act in ("create", "sync", "rename", "remove")]

    assert changes[-1] == ("rename", MARKER)

    files.acts.clear()
    opened(files, catalogue)
    changes = [(act, path) for act, path in files.acts if act not in ("open", "read", "close")]

    assert changes[:2] == [("remove", MARKER), ("sync_directory", PATH)]
    assert not files.exists(MARKER)


def test_c13_a_crash_is_known_until_the_cluster_was_told_of_it_and_from_when_on_after_that() -> None:
    files, catalogue, other = MemoryFiles(), MemoryCatalogue(), DirectoryIdentity("cluster", 1, "made anew each time")
    crashed = opened(files, catalogue)
    assert crashed.sound_since == 0
    crashed._lock.release()
    after_crash = opened(files, catalogue, identity=other)
    assert after_crash.sound_since is None
    after_crash.reports_crashes = True
    after_crash.close()

    untold = opened(files, catalogue, identity=other)
    assert (untold.was_clean, untold.sound_since) == (False, None), "it stopped well, and nobody had heard of the crash"
    untold.reports_crashes, untold.sound_since = True, 31
    untold.close()

    told = opened(files, catalogue, identity=other)
    assert (told.was_clean, told.sound_since) == (True, 31)


@pytest.mark.parametrize(
    "damage", ["missing", "empty", "garbage", "flipped", "old generation", "other schema", "a folder", "no marker"]
)
def test_without_its_catalogue_a_directory_is_recovered_with_the_same_content(tmp_path: Path, damage: str) -> None:
    path = str(tmp_path / "data")
    file = tmp_path / "data" / "catalogue.db"
    catalogue = SqliteCatalogue(str(file))
    filled(OsFiles(), catalogue, path).close()
    old = file.read_bytes()
    directory = opened(OsFiles(), catalogue, path=path)
    content = content_of(directory)
    fill(directory.logs[PARTITIONS[0]], 1)
    replicate(directory.logs[PARTITIONS[0]])
    content = content_of(directory)
    directory.close()
    saved = bytearray(file.read_bytes())
    match damage:
        case "missing":
            file.unlink()
        case "empty":
            file.write_bytes(b"")
        case "garbage":
            file.write_bytes(b"garbage" * 1000)
        case "flipped":
            for position in range(saved.index(b"id-of-a"), len(saved), 97):
                saved[position] ^= 0x10
            file.write_bytes(saved)
        case "old generation":
            file.write_bytes(old)
        case "other schema":
            file.unlink()
            with sqlite3.connect(file) as database:
                database.execute("CREATE TABLE generation (number INTEGER)")
            database.close()
        case "a folder":
            file.unlink()
            file.mkdir()
        case _:
            (tmp_path / "data" / ".kafka_cleanshutdown").unlink()

    files = WatchedFiles(OsFiles())
    directory = opened(files, catalogue, path=path)

    assert files.count("read", file_names.LOG) > 0
    assert content_of(directory) == content


@pytest.mark.parametrize("change", ["longer", "shorter", "gone", "sealed shorter", "index", "snapshot"])
def test_a_partition_whose_files_tell_another_story_is_recovered_alone(change: str) -> None:
    files, catalogue = WatchedFiles(MemoryFiles()), MemoryCatalogue()
    directory = filled(files, catalogue)
    log = directory.logs[PARTITIONS[1]]
    append(log, batch(1, writer=Writer(9)))
    replicate(log)
    expected = pairs_of(log)
    active, sealed = log.active.path(file_names.LOG), log.segments[0].path(file_names.LOG)
    index = log.active.path(file_names.TIME_INDEX)
    snapshot = file_names.segment_file(log.directory, log.end_offset, file_names.SNAPSHOT)
    directory.close()
    content = {path: read_whole(files, path) or b"" for path in (active, sealed)}
    match change:
        case "longer":
            write_volatile(files, active, content[active] + b"torn")
        case "shorter":
            write_volatile(files, active, content[active][:-1])
        case "gone":
            files.remove(active)
        case "sealed shorter":
            write_volatile(files, sealed, content[sealed][:-1])
        case "index":
            write_volatile(files, index, b"x" * 12)
        case _:
            write_volatile(files, snapshot, b"x" * 12)
    files.acts.clear()
    directory = opened(files, catalogue)
    log = directory.logs[PARTITIONS[1]]

    scanned = {path for act, path in files.acts if act == "read" and path.endswith(file_names.LOG)}
    assert scanned <= {f"{log.directory}/{name}" for name in files.list(log.directory)}
    match change:
        case "longer" | "index" | "snapshot":
            assert pairs_of(log) == expected
            assert 9 in log.producers.states
        case "sealed shorter":
            assert [one.next_offset for one in log.damage] == [log.segments[1].base_offset]
        case _:
            assert log.end_offset < len(expected) or log.damage
    assert directory.logs[PARTITIONS[0]].end_offset == 24


@pytest.mark.parametrize("index", [0, -1])
def test_damage_that_was_noted_is_still_known_after_a_clean_start(index: int) -> None:
    files, catalogue = MemoryFiles(), MemoryCatalogue()
    directory = filled(files, catalogue)
    segment = directory.logs[PARTITIONS[0]].segments[index]
    held = bytearray(segment.view())
    held[150] ^= 1
    write_volatile(files, segment.path(file_names.LOG), bytes(held))
    directory.close()
    directory = opened(files, catalogue)
    segment = directory.logs[PARTITIONS[0]].segments[index]
    run_now(CheckJob(segment, 1 << 20))
    damage = directory.logs[PARTITIONS[0]].damage
    assert len(damage) == 1
    directory.close()

    directory = opened(files, catalogue)

    assert directory.was_clean
    assert directory.logs[PARTITIONS[0]].damage == damage


def test_a_sealed_segment_that_lost_its_end_stays_readable_through_a_clean_start() -> None:
    files, catalogue = MemoryFiles(), MemoryCatalogue()
    directory = filled(files, catalogue)
    path = directory.logs[PARTITIONS[0]].segments[0].path(file_names.LOG)
    directory.close()
    write_volatile(files, path, (read_whole(files, path) or b"")[:-10])
    directory = opened(files, catalogue)
    damage = directory.logs[PARTITIONS[0]].damage
    size = directory.logs[PARTITIONS[0]].segments[0].size
    assert damage
    directory.close()

    log = opened(files, catalogue).logs[PARTITIONS[0]]

    assert log.damage == damage
    assert log.segments[0].size == size
    assert log.read(0, 10_000).size > 0


@pytest.mark.parametrize("mode", ["drop_all", "random"])
def test_c67_a_crash_at_any_point_of_closing_loses_nothing(mode: CrashMode) -> None:
    operation = 0
    while True:
        disk, catalogue = SimDisk(5), MemoryCatalogue()
        directory = filled(disk, catalogue)
        expected = content_of(directory)
        unpromised = directory.logs[PARTITIONS[2]]
        append(unpromised, batch(1))
        operation += 1
        disk.faults = DiskFaults(power_loss_at_operation=disk.operations + operation)
        try:
            directory.close()
        except PowerLoss:
            pass
        else:
            assert operation > 20, "close does more than that"
            return
        image = disk.crash(mode, variant=operation)
        found = opened(image, catalogue)
        for at in PARTITIONS[:2]:
            assert pairs_of(found.logs[at]) == expected[at][0], f"operation {operation}"
        assert pairs_of(found.logs[PARTITIONS[2]])[:24] == expected[PARTITIONS[2]][0]
        content = content_of(found)
        found.close()
        assert content_of(opened(image, catalogue)) == content


def test_c67_a_crash_at_any_point_of_opening_loses_nothing() -> None:
    for operation in range(1, 30):
        disk, catalogue = SimDisk(6), MemoryCatalogue()
        directory = filled(disk, catalogue)
        expected = content_of(directory)
        directory.close()
        disk.faults = DiskFaults(power_loss_at_operation=disk.operations + operation)
        try:
            log = opened(disk, catalogue).logs[PARTITIONS[0]]
            append(log, batch(1))  # Written after the marker is gone, never flushed.
        except PowerLoss:
            pass
        found = opened(disk.crash("random", variant=operation), catalogue)

        for at in PARTITIONS:
            assert pairs_of(found.logs[at])[:24] == expected[at][0], f"operation {operation}"


# Offline and foreign


def encrypted(sidecar: Sidecar) -> bytes:
    return encode_sidecar(msgspec.structs.replace(sidecar, key_id="key-7"))


def later(sidecar: Sidecar) -> bytes:
    return encode_sidecar(msgspec.structs.replace(sidecar, format=2))


@pytest.mark.parametrize(("change", "reason"), [(encrypted, "key 'key-7'"), (later, "format 2")])
def test_a_log_that_cannot_be_opened_is_offline_and_holds_up_nobody(
    change: Callable[[Sidecar], bytes], reason: str
) -> None:
    files, catalogue = MemoryFiles(), MemoryCatalogue()
    directory = filled(files, catalogue)
    directory.logs[PARTITIONS[1]].advance_log_start(7)
    sidecar = directory.logs[PARTITIONS[1]].segments[0]
    path, known = sidecar.path(file_names.SIDECAR), sidecar.sidecar
    assert known is not None
    directory.close()
    files.remove(MARKER)
    replace(files, path, change(known))

    directory = opened(files, catalogue)

    assert list(directory.offline) == [PARTITIONS[1]]
    assert isinstance(directory.offline[PARTITIONS[1]], UnreadableSegmentError)
    assert reason in str(directory.offline[PARTITIONS[1]])
    assert sorted(directory.logs) == [PARTITIONS[0], PARTITIONS[2]]
    fill(directory.logs[PARTITIONS[0]], 1)
    with pytest.raises(StorageError, match="cannot be opened"):
        directory.create(PARTITIONS[1], "another", log_settings())

    # What is known of it is not forgotten while it is away.
    directory.close()
    replace(files, path, encode_sidecar(known))
    log = opened(files, catalogue).logs[PARTITIONS[1]]
    assert (log.log_start_offset, log.high_watermark, log.end_offset) == (7, 24, 24)


# Partitions come and go


@pytest.mark.parametrize("topic", ["a-b", "a-b-0", "a.b", "..a", "0-1", "-", "a_b.c-d", "x-delete"])
def test_topics_with_dashes_and_dots_keep_their_partitions(topic: str) -> None:
    files, catalogue = MemoryFiles(), MemoryCatalogue()
    directory = opened(files, catalogue)
    for partition in (0, 12):
        fill(directory.create(TopicPartition(topic, partition), f"id-{topic}", log_settings()), 1 + partition)
    directory.close()

    for _ in range(2):
        directory = opened(files, catalogue)
        found = {at: (log.end_offset, directory.topic_ids[at]) for at, log in directory.logs.items()}

        assert found == {
            TopicPartition(topic, 0): (1, f"id-{topic}"),
            TopicPartition(topic, 12): (13, f"id-{topic}"),
        }
        directory.close()
        files.remove(MARKER)  # And once more, recovered.


def test_what_is_no_partition_is_left_alone() -> None:
    files = MemoryFiles()
    others = ["lost+found", "notes", "a-", "-1", "a-01", "a-٣", "photos-delete", "a-0.5-future", "a-x.5-delete"]
    for name in others:
        files.make_directory(f"{PATH}/{name}")
        write_volatile(files, f"{PATH}/{name}/kept", b"mine")

    directory = opened(files)

    assert not directory.logs
    assert not directory.offline
    assert [name for name in others if not files.exists(f"{PATH}/{name}/kept")] == []


def test_c63_a_deleted_partition_is_gone_for_good_whenever_the_power_fails() -> None:
    operation = 0
    while True:
        operation += 1
        disk = SimDisk(7)
        directory = filled(disk, MemoryCatalogue())
        at = PARTITIONS[1]
        flush(directory.logs[at])
        job = directory.begin_delete(at)
        disk.faults = DiskFaults(power_loss_at_operation=disk.operations + operation)
        try:
            run_now(job)
        except PowerLoss:
            pass
        else:
            assert operation > 5
            assert sorted(opened(disk.crash("drop_all")).logs) == [PARTITIONS[0], PARTITIONS[2]]
            return
        found = opened(disk.crash("random", variant=operation))

        # All of it, or nothing: a doomed folder is removed with the next start.
        assert at not in found.logs or len(pairs_of(found.logs[at])) == 24
        assert not found.offline
        run_now(found.begin_checkpoint())
        assert [name for name in found.files.list(PATH) if name.endswith("-delete")] == []


def test_a_partition_created_after_its_namesake_was_deleted_starts_empty() -> None:
    files, catalogue = MemoryFiles(), MemoryCatalogue()
    directory = filled(files, catalogue)
    at = PARTITIONS[0]
    directory.logs[at].advance_log_start(5)
    run_now(directory.begin_checkpoint())
    run_now(directory.begin_delete(at))
    log = directory.create(at, "second-id", log_settings())
    fill(log, 10)
    replicate(log)
    log.high_watermark = 0

    # The process dies before the next checkpoint: that of the first must not hide records of the second.
    found = opened(_copy(files), catalogue)

    assert found.topic_ids[at] == "second-id"
    assert (found.logs[at].log_start_offset, found.logs[at].end_offset) == (0, 10)
    assert len(pairs_of(found.logs[at])) == 10


def test_checkpoints_of_a_partition_that_died_with_the_process_do_not_reach_its_namesake() -> None:
    files, catalogue = MemoryFiles(), MemoryCatalogue()
    directory = filled(files, catalogue)
    at = PARTITIONS[0]
    directory.logs[at].advance_log_start(5)
    run_now(directory.begin_checkpoint())
    run_now(directory.begin_delete(at))
    directory = opened(_copy(files), catalogue)
    fill(directory.create(at, "second-id", log_settings()), 10)

    found = opened(_copy(directory.files), catalogue)

    assert (found.logs[at].log_start_offset, found.logs[at].end_offset) == (0, 10)


def _copy(files: Files) -> MemoryFiles:
    """What another process would find after this one was killed."""
    copied = MemoryFiles()
    for folder in [PATH, *(f"{PATH}/{name}" for name in files.list(PATH))]:
        try:
            inside = files.list(folder)
        except StorageError:
            continue
        copied.make_directory(folder)
        for name in inside:
            try:
                write_volatile(copied, f"{folder}/{name}", read_whole(files, f"{folder}/{name}") or b"")
            except StorageError:
                continue
    return copied


def test_a_log_that_was_let_go_refuses_appends() -> None:
    directory = filled(MemoryFiles(), MemoryCatalogue())
    log = directory.logs[FIRST]
    append(log, batch(1))
    directory.detach(FIRST)

    with pytest.raises(PartitionDeletedError, match="a-0 was deleted") as refused:
        append(log, batch(1))
    assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert directory.state.unflushed_bytes == 0
    assert directory.state.failure is None


def test_a_failed_sync_while_creating_fails_the_directory() -> None:
    files = WatchedFiles(MemoryFiles())
    directory = opened(files)

    def refuse(path: str) -> None:
        raise StorageError(f"cannot sync {path}: input/output error")

    files.before_sync = refuse
    with pytest.raises(StorageError):
        directory.create(AT, TOPIC_ID, log_settings())
    assert directory.state.failure is not None


def test_a_full_disk_while_creating_does_not() -> None:
    files = WatchedFiles(MemoryFiles())
    directory = opened(files)

    def refuse(path: str) -> None:
        raise DiskFullError(f"cannot write {path}: full")

    files.before_write = refuse
    with pytest.raises(DiskFullError):
        directory.create(AT, TOPIC_ID, log_settings())
    files.before_write = lambda _: None
    assert directory.create(AT, TOPIC_ID, log_settings()).end_offset == 0
    directory.close()
    assert files.exists(MARKER)


# Checkpoints


def test_checkpoints_say_what_recovery_may_rely_on() -> None:
    files = MemoryFiles()
    directory = filled(files, MemoryCatalogue())
    log = directory.logs[FIRST]
    append(log, batch(3))
    log.advance_log_start(4)
    run_now(directory.begin_checkpoint())

    def said(name: str) -> int:
        return decode_offsets(read_whole(files, f"{PATH}/{name}"))[FIRST]

    assert (said(checkpoints.LOG_START), said(checkpoints.RECOVERY_POINT)) == (4, 24)
    assert (said(checkpoints.HIGH_WATERMARK), said(checkpoints.CLEANED)) == (24, 0)
    found = opened(_copy(files)).logs[FIRST]
    assert (found.log_start_offset, found.high_watermark, found.end_offset) == (4, 24, 27)


def test_while_a_log_is_being_cut_checkpoints_promise_no_more_than_will_be_left() -> None:
    files = MemoryFiles()
    directory = filled(files, MemoryCatalogue())
    log = directory.logs[FIRST]
    directory.truncating[FIRST] = 10
    run_now(directory.begin_checkpoint())
    truncate(log, 10)

    assert decode_offsets(read_whole(files, f"{PATH}/{checkpoints.RECOVERY_POINT}"))[FIRST] == 10
    assert decode_offsets(read_whole(files, f"{PATH}/{checkpoints.RECOVERY_POINT}"))[PARTITIONS[1]] == 24


@pytest.mark.parametrize("name", checkpoints.FILES)
@pytest.mark.parametrize(
    "content", [b"", b"0\n", b"0\n1\na 0 999999\n", b"1\n1\na 0 3\n", b"0\n1\na 0 -5\n", b"\xff\xfe"]
)
def test_c62_a_checkpoint_is_never_believed_over_the_log(name: str, content: bytes) -> None:
    files = MemoryFiles()
    filled(files, MemoryCatalogue())
    write_volatile(files, f"{PATH}/{name}", content)

    log = opened(_copy(files)).logs[FIRST]

    assert (log.log_start_offset, log.end_offset) == (0, 24)
    assert len(pairs_of(log)) == 24
    assert 0 <= log.high_watermark <= 24
    assert log.cleaned_offset <= 24


def test_directories_introduce_themselves() -> None:
    directory = filled(MemoryFiles(), MemoryCatalogue())

    assert re.fullmatch(r"<LogDirectory /data 3 logs, 0 offline>", repr(directory))
