"""What every adapter of the port `log.files` owes its users, rule by rule."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qanat.adapters.memory_files import MemoryFiles
from qanat.adapters.os_files import OsFiles
from qanat.log.files import File, Files
from qanat.model.errors import DirectoryLockedError, StorageError
from qanat.testing.simulation.disk import SimDisk

ADAPTERS: dict[str, Callable[[], Files]] = {
    "os": OsFiles,
    "os with few descriptors": lambda: OsFiles(max_open=2),
    "memory": MemoryFiles,
    "sim": SimDisk,
}


@pytest.fixture(params=list(ADAPTERS))
def files(request: pytest.FixtureRequest) -> Files:
    return ADAPTERS[request.param]()


@pytest.fixture
def folder(files: Files, tmp_path: Path) -> str:
    path = str(tmp_path / "folder")
    files.make_directory(path)
    return path


@pytest.fixture
def file(files: Files, folder: str) -> File:
    return files.open(f"{folder}/file", create=True)


def filled(files: Files, path: str, content: bytes) -> File:
    file = files.open(path, create=True)
    file.write([content], 0)
    return file


def content(file: File) -> bytes:
    return bytes(file.read(0, file.size()))


def test_a_new_file_is_empty_and_knows_its_path(file: File, folder: str) -> None:
    assert (file.path, file.size(), content(file)) == (f"{folder}/file", 0, b"")


def test_a_write_puts_all_chunks_one_after_another(file: File) -> None:
    assert file.write([b"ab", bytearray(b"cd"), memoryview(b"xefx")[1:3]], 0) == 6
    assert content(file) == b"abcdef"


def test_a_write_of_nothing_changes_nothing(file: File) -> None:
    assert file.write([], 0) == 0
    assert file.write([b"", b""], 0) == 0
    assert file.size() == 0


def test_a_write_takes_more_chunks_than_the_system_does_at_once(file: File) -> None:
    chunks = [b"%05d" % number for number in range(5000)]

    assert file.write(chunks, 3) == 25_000
    assert content(file) == b"\0\0\0" + b"".join(chunks)


def test_a_gap_before_a_write_reads_as_zeros(file: File) -> None:
    file.write([b"a"], 0)
    file.write([b"b"], 5000)

    assert content(file) == b"a" + bytes(4999) + b"b"


def test_bytes_that_no_view_has_shown_can_be_written_again(file: File) -> None:
    file.write([b"good garbage"], 0)
    assert bytes(file.view(4)) == b"good"
    file.write([b" news"], 4)

    assert file.read(0, 9) == b"good news"


def test_a_read_is_shorter_only_at_the_end(file: File) -> None:
    file.write([b"0123456789"], 0)

    assert file.read(2, 3) == b"234"
    assert file.read(8, 100) == b"89"
    assert file.read(10, 1) == b""
    assert file.read(50, 1) == b""


def test_a_damaged_length_does_not_allocate_gigabytes(file: File) -> None:
    file.write([b"x"], 0)

    assert file.read(0, 1 << 50) == b"x"


def test_what_was_read_belongs_to_the_reader(file: File) -> None:
    file.write([b"abc"], 0)
    copy = file.read(0, 3)
    copy[0:1] = b"XYZ"

    assert content(file) == b"abc"


def test_a_view_shows_the_beginning_of_the_file(file: File) -> None:
    file.write([b"hello world"], 0)

    assert bytes(file.view(5)) == b"hello"
    assert bytes(file.view(11)[6:]) == b"world"
    assert bytes(file.view(0)) == b""


def test_a_view_is_read_only(file: File) -> None:
    file.write([b"abc"], 0)
    with pytest.raises(TypeError):
        file.view(3)[0] = 0


def test_a_view_of_an_empty_file_is_empty(file: File) -> None:
    assert len(file.view(0)) == 0


def test_a_view_longer_than_the_file_is_refused(file: File) -> None:
    file.write([b"abc"], 0)
    with pytest.raises(StorageError, match="has 3 bytes where 4"):
        file.view(4)


def test_a_view_follows_growth_when_taken_again(file: File) -> None:
    views = []
    for number in range(200):
        file.write([bytes([number]) * 1000], number * 1000)
        views.append(file.view((number + 1) * 1000))

    assert all(view == views[-1][: len(view)] for view in views)
    assert views[-1] == content(file)


def test_a_view_outlives_the_handle_the_name_and_the_replacement(files: Files, folder: str) -> None:
    """Rule 1: nothing done to names reaches a view."""
    path = f"{folder}/segment"
    file = filled(files, path, b"old" * 5000)
    closed, removed, replaced = file.view(15_000), file.view(15_000), file.view(9)
    file.close()
    filled(files, f"{folder}/shorter", b"new").rename(path)
    again = files.open(path)
    assert (content(again), bytes(again.view(3))) == (b"new", b"new")
    files.open(path, create=True).write([b"third"], 0)
    files.remove(path)

    assert closed == removed == b"old" * 5000
    assert replaced == b"old" * 3


def test_bytes_just_written_are_resident(file: File) -> None:
    file.write([b"x" * 100_000], 0)

    assert file.is_resident(0, 100_000)
    assert file.is_resident(99_999, 1)
    assert file.is_resident(5_000, 0)


def test_sync_may_run_beside_writes(file: File) -> None:
    stop = threading.Event()
    failures: list[BaseException] = []

    def sync_until_stopped() -> None:
        try:
            while not stop.is_set():
                file.sync()
                file.read(0, 1000)
        except BaseException as failure:  # noqa: BLE001 - told by the assertion below
            failures.append(failure)

    worker = threading.Thread(target=sync_until_stopped)
    worker.start()
    for number in range(300):
        file.write([b"x" * 100], number * 100)
    stop.set()
    worker.join()

    assert failures == []
    assert content(file) == b"x" * 30_000


def test_closing_twice_is_fine(file: File) -> None:
    file.close()
    file.close()


def test_a_missing_file_cannot_be_opened(files: Files, folder: str) -> None:
    with pytest.raises(StorageError, match="missing"):
        files.open(f"{folder}/missing")
    with pytest.raises(StorageError):
        files.open(f"{folder}/missing/file", create=True)


def test_a_folder_is_no_file(files: Files, folder: str) -> None:
    with pytest.raises(StorageError):
        files.open(folder)
    with pytest.raises(StorageError):
        files.open(folder, create=True)
    with pytest.raises(StorageError):
        files.remove(folder)
    assert files.exists(folder)


def test_a_file_opened_again_shows_what_was_written(files: Files, folder: str, file: File) -> None:
    file.write([b"kept"], 0)
    file.close()

    assert content(files.open(f"{folder}/file")) == b"kept"


def test_two_handles_see_one_file(files: Files, folder: str, file: File) -> None:
    other = files.open(f"{folder}/file")
    file.write([b"shared"], 0)

    assert content(other) == b"shared"


def test_creating_replaces_and_leaves_the_old_file_to_its_handles(files: Files, folder: str, file: File) -> None:
    file.write([b"old"], 0)
    new = files.open(f"{folder}/file", create=True)

    assert (content(new), content(file)) == (b"", b"old")
    file.write([b"er"], 3)
    assert (content(new), content(file)) == (b"", b"older")


def test_a_handle_follows_its_file_through_a_rename(files: Files, folder: str, file: File) -> None:
    file.write([b"one"], 0)
    file.rename(f"{folder}/second")
    assert (file.path, files.list(folder)) == (f"{folder}/second", ["second"])
    files.rename(f"{folder}/second", f"{folder}/third")
    file.write([b" two"], 3)

    assert (file.path, files.list(folder)) == (f"{folder}/third", ["third"])
    assert content(files.open(f"{folder}/third")) == b"one two"


def test_a_rename_replaces_and_leaves_the_old_file_to_its_handles(files: Files, folder: str) -> None:
    old, new = filled(files, f"{folder}/a", b"old"), filled(files, f"{folder}/b", b"new")
    new.rename(f"{folder}/a")

    assert files.list(folder) == ["a"]
    assert (content(old), content(new)) == (b"old", b"new")
    assert content(files.open(f"{folder}/a")) == b"new"


def test_a_handle_that_lost_its_name_cannot_rename(files: Files, folder: str, file: File) -> None:
    files.open(f"{folder}/file", create=True)
    with pytest.raises(AssertionError):
        file.rename(f"{folder}/other")


def test_renaming_to_the_same_name_changes_nothing(files: Files, folder: str, file: File) -> None:
    file.write([b"same"], 0)
    file.rename(f"{folder}/file")

    assert content(files.open(f"{folder}/file")) == b"same"


def test_handles_follow_a_renamed_folder(files: Files, folder: str) -> None:
    files.make_directory(f"{folder}/topic-0/inner")
    file = filled(files, f"{folder}/topic-0/inner/0.log", b"data")
    bystander = filled(files, f"{folder}/topic-01", b"other")
    files.rename(f"{folder}/topic-0", f"{folder}/topic-0.deleted")
    file.write([b"!"], 4)

    assert (file.path, content(file)) == (f"{folder}/topic-0.deleted/inner/0.log", b"data!")
    assert (bystander.path, content(bystander)) == (f"{folder}/topic-01", b"other")
    assert not files.exists(f"{folder}/topic-0")


def test_a_file_moves_to_another_folder(files: Files, folder: str, file: File) -> None:
    files.make_directory(f"{folder}/future")
    file.write([b"moved"], 0)
    file.rename(f"{folder}/future/file")

    assert (files.list(folder), files.list(f"{folder}/future")) == (["future"], ["file"])
    assert content(file) == b"moved"


def test_what_is_missing_or_taken_cannot_be_renamed(files: Files, folder: str, file: File) -> None:
    files.make_directory(f"{folder}/full/inner")
    for old, new in [("missing", "new"), ("file", "full"), ("full", "file"), ("file", "nowhere/file")]:
        with pytest.raises(StorageError):
            files.rename(f"{folder}/{old}", f"{folder}/{new}")
    assert files.list(folder) == ["file", "full"]


def test_a_failed_rename_leaves_its_target_alone(files: Files, folder: str, file: File) -> None:
    with pytest.raises(StorageError):
        files.rename(f"{folder}/missing", f"{folder}/file")
    file.rename(f"{folder}/other")

    assert files.list(folder) == ["other"]


def test_a_removed_file_lives_on_for_its_handles(files: Files, folder: str, file: File) -> None:
    file.write([b"still"], 0)
    files.remove(f"{folder}/file")

    assert not files.exists(f"{folder}/file")
    assert content(file) == b"still"
    file.write([b" here"], 5)
    file.sync()
    assert bytes(file.view(10)) == b"still here"


def test_removing_what_is_missing_is_fine(files: Files, folder: str) -> None:
    files.remove(f"{folder}/missing")
    files.remove_directory(f"{folder}/missing")


def test_a_folder_lists_its_names_in_order(files: Files, folder: str) -> None:
    for name in ["b", "c", "a"]:
        files.open(f"{folder}/{name}", create=True)
    files.make_directory(f"{folder}/bb/deeper")

    assert files.list(folder) == ["a", "b", "bb", "c"]


def test_a_missing_folder_cannot_be_listed_or_synced(files: Files, folder: str) -> None:
    with pytest.raises(StorageError):
        files.list(f"{folder}/missing")
    with pytest.raises(StorageError):
        files.sync_directory(f"{folder}/missing")


def test_making_a_folder_makes_its_parents_and_is_fine_twice(files: Files, folder: str) -> None:
    files.make_directory(f"{folder}/a/b/c")
    files.make_directory(f"{folder}/a/b/c")

    assert files.list(f"{folder}/a/b") == ["c"]


def test_a_folder_cannot_take_the_name_of_a_file(files: Files, folder: str, file: File) -> None:
    for path in [f"{folder}/file", f"{folder}/file/inner"]:
        with pytest.raises(StorageError):
            files.make_directory(path)


def test_only_an_empty_folder_is_removed(files: Files, folder: str, file: File) -> None:
    with pytest.raises(StorageError):
        files.remove_directory(folder)
    with pytest.raises(StorageError):
        files.remove_directory(f"{folder}/file")
    files.remove(f"{folder}/file")
    files.remove_directory(folder)

    assert not files.exists(folder)


def test_a_path_is_claimed_once(files: Files, folder: str) -> None:
    lock = files.lock(f"{folder}/.lock")
    with pytest.raises(DirectoryLockedError, match=f"{folder} is in use by this process"):
        files.lock(f"{folder}/.lock")
    lock.release()
    lock.release()
    again = files.lock(f"{folder}/.lock")
    lock.release()
    with pytest.raises(DirectoryLockedError):
        files.lock(f"{folder}/.lock")
    again.release()


@settings(max_examples=50, deadline=None)
@given(writes=st.lists(st.tuples(st.integers(0, 3000), st.binary(max_size=2000)), max_size=12))
def test_all_adapters_agree_on_any_sequence_of_writes(
    tmp_path_factory: pytest.TempPathFactory, writes: list[tuple[int, bytes]]
) -> None:
    path = str(tmp_path_factory.mktemp("agree") / "file")
    contents = []
    for make in ADAPTERS.values():
        files = make()
        files.make_directory(path.rpartition("/")[0])
        file = files.open(path, create=True)
        for position, data in writes:
            file.write([data[:7], data[7:]], position)
        contents.append(content(file))
        assert file.view(file.size()) == contents[-1]
        file.close()

    assert contents.count(contents[0]) == len(ADAPTERS)


def test_what_was_synced_is_read_again_after_the_cache_was_let_go(file: File) -> None:
    file.write([b"kept"], 0)
    file.sync()

    file.drop_cache()

    assert content(file) == b"kept"
