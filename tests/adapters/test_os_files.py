"""What only the real operating system can show: signals, limits, full and read-only disks, other processes."""

from __future__ import annotations

import errno
import mmap
import os
import shutil
import subprocess
import sys
import textwrap
import threading
import weakref
from pathlib import Path
from typing import cast

import pytest

import qanat
from qanat.adapters.os_errors import storage_error
from qanat.adapters.os_files import OsFiles
from qanat.model.errors import DirectoryLockedError, DiskFullError, ReadOnlyError, StorageError

SOURCES = str(Path(qanat.__file__).parents[1])


def run(script: str, *arguments: str, prefix: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Run a script in a process of its own, where a signal or a mount does no harm."""
    command = [*prefix, sys.executable, "-c", textwrap.dedent(script), *arguments]
    environment = {**os.environ, "PYTHONPATH": SOURCES}
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=False)


def run_on_mount(options: str, folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Run a script with a small file system mounted on `folder`, in a mount namespace of its own."""
    mount = f'mount -t tmpfs -o {options} tmpfs "$0" && exec "$@"'
    if shutil.which("unshare") is None or os.geteuid() != 0:
        pytest.skip("mounting needs root and unshare")
    prefix = ("unshare", "--mount", "sh", "-c", mount, str(folder))
    if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this machine does not let us mount")
    return run(script, str(folder), prefix=prefix)


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_no_view_is_hurt_by_what_happens_to_its_file(tmp_path: Path) -> None:
    """In a process of its own, because the failure would be a SIGBUS."""
    result = run(
        """
        import sys
        from qanat.adapters.os_files import OsFiles
        files, folder = OsFiles(max_open=4), sys.argv[1]
        views = []
        for number in range(50):
            path = f"{folder}/{number % 5}"
            file = files.open(path, create=True)
            file.write([bytes([number]) * 100_000], 0)
            file.sync()
            views.append(file.view(100_000))
            short = files.open(path + ".tmp", create=True)
            short.write([b"short"], 0)
            short.rename(path)
            assert bytes(short.view(5)) == b"short"
            if number % 2:
                files.remove(path)
            file.close()
            short.close()
        for number, view in enumerate(views):
            assert bytes(view) == bytes([number]) * 100_000
        print("unhurt")
        """,
        str(tmp_path),
    )

    assert (result.returncode, result.stdout) == (0, "unhurt\n"), result.stderr


def test_a_file_cut_from_outside_is_a_fault_and_no_signal(tmp_path: Path) -> None:
    file = OsFiles().open(str(tmp_path / "file"), create=True)
    file.write([b"x" * 10_000], 0)
    os.truncate(file.path, 100)
    with pytest.raises(StorageError, match="has 100 bytes where 10000"):
        file.view(10_000)


def test_descriptors_stay_bounded_over_many_files(tmp_path: Path) -> None:
    files = OsFiles(max_open=8)
    before = open_descriptors()
    handles = [files.open(str(tmp_path / f"{number:03d}"), create=True) for number in range(100)]
    for step in range(3):
        for number, file in enumerate(handles):
            file.write([b"%03d" % number], 3 * step)
            file.sync()
            assert bytes(file.view(3)) == b"%03d" % number
            assert open_descriptors() - before <= 9

    assert all(file.read(0, 100) == b"%03d" % number * 3 for number, file in enumerate(handles))
    for file in handles:
        file.close()
    assert open_descriptors() == before


def test_a_descriptor_with_unsynced_bytes_is_kept(tmp_path: Path) -> None:
    files = OsFiles(max_open=8)
    before = open_descriptors()
    handles = [files.open(str(tmp_path / str(number)), create=True) for number in range(30)]
    for file in handles:
        file.write([b"x"], 0)
    assert open_descriptors() - before == 30
    for file in handles:
        file.sync()
    files.open(str(tmp_path / "one more"), create=True)

    assert open_descriptors() - before <= 8


def test_a_file_that_lost_its_name_is_kept_however_scarce_descriptors_are(tmp_path: Path) -> None:
    files = OsFiles(max_open=2)
    names = ["removed", "replaced", "created again"]
    handles = [files.open(str(tmp_path / name), create=True) for name in names]
    for name, file in zip(names, handles, strict=True):
        file.write([name.encode()], 0)
        file.sync()
    files.remove(str(tmp_path / "removed"))
    files.open(str(tmp_path / "new"), create=True).rename(str(tmp_path / "replaced"))
    files.open(str(tmp_path / "created again"), create=True)
    for number in range(10):
        files.open(str(tmp_path / str(number)), create=True)

    assert [file.read(0, 100).decode() for file in handles] == names


def test_a_map_lives_as_long_as_its_views_and_no_longer(tmp_path: Path) -> None:
    file = OsFiles().open(str(tmp_path / "file"), create=True)
    before = open_descriptors()
    file.write([b"x" * 100], 0)
    view = file.view(100)[50:]
    file.write([b"y" * 100], 100)
    grown = weakref.ref(cast(mmap.mmap, file.view(200).obj))
    assert open_descriptors() - before == 1, "the first map's; one of a growing file needs none"
    del view
    assert open_descriptors() == before
    assert grown() is not None
    file.close()
    assert grown() is None
    assert open_descriptors() == before - 1


def test_a_view_is_taken_from_one_map_while_it_is_long_enough(tmp_path: Path) -> None:
    file = OsFiles().open(str(tmp_path / "file"), create=True)
    file.write([b"x" * 100], 0)

    assert file.view(100).obj is file.view(50).obj


def test_a_file_that_grows_is_mapped_ahead_and_no_further_read_than_it_is_long(tmp_path: Path) -> None:
    files = OsFiles(16)
    file = files.open(str(tmp_path / "a"), create=True)
    file.write([b"one"], 0)
    first = file.view(3)
    file.write([b"two"], 3)
    second = file.view(6)
    for number in range(1, 3000):
        file.write([b"%06d" % number], 6 * number)
    third = file.view(6 * 3000)

    assert (bytes(first), bytes(second)) == (b"one", b"onetwo")
    assert bytes(third[-12:]) == b"002998002999"
    assert second.obj is third.obj, "one map for all that was appended since"
    with pytest.raises(StorageError, match="truncated from outside"):
        file.view(6 * 3001)


def test_many_threads_share_few_descriptors(tmp_path: Path) -> None:
    files = OsFiles(max_open=4)
    failures: list[BaseException] = []

    def work(worker: int) -> None:
        try:
            handles = [files.open(str(tmp_path / f"{worker}-{number}"), create=True) for number in range(5)]
            for step in range(100):
                for number, file in enumerate(handles):
                    file.write([b"%d-%d-%04d" % (worker, number, step)], 8 * step)
                    if step % 3 == 0:
                        file.sync()
                    assert file.read(8 * step, 8) == b"%d-%d-%04d" % (worker, number, step)
                    assert bytes(file.view(3)) == b"%d-%d" % (worker, number)
        except BaseException as failure:  # noqa: BLE001 - told by the assertion below
            failures.append(failure)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(worker,)) for worker in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)

    assert failures == []


def test_bytes_dropped_from_the_page_cache_are_not_resident(tmp_path: Path) -> None:
    file = OsFiles().open(str(tmp_path / "file"), create=True)
    file.write([b"x" * (1 << 20)], 0)
    file.sync()
    assert file.is_resident(0, 1 << 20)
    with open(file.path, "rb") as other:
        os.posix_fadvise(other.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        try:
            os.preadv(other.fileno(), [bytearray(1)], 1 << 19, os.RWF_NOWAIT)
            pytest.skip("this file system keeps its pages (tmpfs does)")
        except BlockingIOError:
            assert not file.is_resident(0, 1 << 20)
    file.read(0, 4096)
    assert file.is_resident(10, 100)


def test_c66_a_short_write_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pwritev = os.pwritev

    def write_a_little(fd: int, chunks: list[bytes], position: int) -> int:
        return pwritev(fd, [b"".join(chunks)[:7]], position)

    monkeypatch.setattr(os, "pwritev", write_a_little)
    file = OsFiles().open(str(tmp_path / "file"), create=True)
    data = bytes(range(256))

    assert file.write([data[:3], b"", data[3:100], data[100:]], 5) == 256
    assert file.read(5, 300) == data


def test_a_failed_sync_is_told_and_keeps_the_descriptor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    file = OsFiles().open(str(tmp_path / "file"), create=True)
    file.write([b"x"], 0)
    monkeypatch.setattr(os, "fdatasync", fail)
    with pytest.raises(StorageError, match=r"cannot sync .*/file: Input/output error; the device is failing"):
        file.sync()
    assert "unsynced" in repr(file)


def test_c65_a_failed_close_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    file = OsFiles().open(str(tmp_path / "file"), create=True)
    with monkeypatch.context() as patch:
        patch.setattr(os, "close", fail)
        with pytest.raises(StorageError, match="cannot close"):
            file.close()


def test_using_a_closed_file_is_a_bug(tmp_path: Path) -> None:
    file = OsFiles().open(str(tmp_path / "file"), create=True)
    file.write([b"x"], 0)
    file.close()
    for use in (file.size, file.sync, lambda: file.view(1), lambda: file.read(0, 1), lambda: file.write([b"x"], 0)):
        with pytest.raises(AssertionError, match="used after close"):
            use()


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    result = run_on_mount(
        "size=64k",
        tmp_path,
        """
        import sys
        from qanat.adapters.os_files import OsFiles
        from qanat.model.errors import DiskFullError
        files = OsFiles()
        file = files.open(sys.argv[1] + "/file", create=True)
        file.write([b"x" * 40_000], 0)
        try:
            file.write([b"y" * 10_000] * 10, 40_000)
        except DiskFullError as error:
            print(error)
        assert bytes(file.view(40_000)) == b"x" * 40_000
        """,
    )

    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith(f"cannot write {tmp_path}/file: No space left on device; free some space")


def test_a_read_only_file_system_is_named(tmp_path: Path) -> None:
    result = run_on_mount(
        "size=64k",
        tmp_path,
        """
        import subprocess, sys
        from qanat.adapters.os_files import OsFiles
        from qanat.model.errors import ReadOnlyError
        files, folder = OsFiles(), sys.argv[1]
        files.open(folder + "/file", create=True).close()
        subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
        file = files.open(folder + "/file")
        acts = [
            lambda: files.open(folder + "/new", create=True),
            lambda: files.open(folder + "/file", create=True),
            lambda: files.make_directory(folder + "/folder"),
            lambda: files.remove(folder + "/file"),
            lambda: files.rename(folder + "/file", folder + "/other"),
            lambda: files.lock(folder + "/.lock"),
            lambda: files.remove_directory(folder + "/file"),
        ]
        for act in acts:
            try:
                act()
            except ReadOnlyError as error:
                print("refused" if folder in str(error) else error)
            except Exception as error:
                print(repr(error))
        """,
    )

    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[:6] == ["refused"] * 6


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENOSPC, DiskFullError),
        (errno.EDQUOT, DiskFullError),
        (errno.EROFS, ReadOnlyError),
        (errno.EACCES, ReadOnlyError),
        (errno.EPERM, ReadOnlyError),
        (errno.EIO, StorageError),
        (errno.EMFILE, StorageError),
        (errno.ENOENT, StorageError),
    ],
)
def test_each_refusal_has_its_fault(number: int, kind: type[StorageError]) -> None:
    error = storage_error("write", "/data/file", OSError(number, os.strerror(number)))

    assert type(error) is kind
    assert str(error).startswith(f"cannot write /data/file: {os.strerror(number)}")


def test_c66_too_few_descriptors_are_named(tmp_path: Path) -> None:
    result = run(
        """
        import resource, sys
        from qanat.adapters.os_files import OsFiles
        resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
        files = OsFiles()
        try:
            for number in range(100):
                files.open(f"{sys.argv[1]}/{number}", create=True)
        except Exception as error:
            print(type(error).__name__, "ulimit" in str(error))
        """,
        str(tmp_path),
    )

    assert result.stdout == "StorageError True\n", result.stderr


def test_a_second_process_is_told_who_holds_the_lock(tmp_path: Path) -> None:
    script = """
        import sys
        from qanat.adapters.os_files import OsFiles
        try:
            OsFiles().lock(sys.argv[1] + "/.lock")
            print("locked")
        except Exception as error:
            print(type(error).__name__, error)
        """
    lock = OsFiles().lock(str(tmp_path / ".lock"))
    refused = run(script, str(tmp_path))
    lock.release()
    granted = run(script, str(tmp_path))

    assert refused.stdout.startswith(f"DirectoryLockedError {tmp_path} is in use by process {os.getpid()}; stop that")
    assert granted.stdout == "locked\n"


def test_a_lock_dies_with_its_process(tmp_path: Path) -> None:
    script = """
        import os, signal, sys
        from qanat.adapters.os_files import OsFiles
        lock = OsFiles().lock(sys.argv[1] + "/.lock")
        os.kill(os.getpid(), signal.SIGKILL)
        """
    assert run(script, str(tmp_path)).returncode == -9
    OsFiles().lock(str(tmp_path / ".lock")).release()


def test_two_adapters_of_one_process_exclude_each_other(tmp_path: Path) -> None:
    lock = OsFiles().lock(str(tmp_path / ".lock"))
    with pytest.raises(DirectoryLockedError, match="this process"):
        OsFiles().lock(str(tmp_path / ".lock"))
    lock.release()


def test_c64_new_folders_are_made_durable_from_the_top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = OsFiles()
    acts: list[str] = []
    mkdir, sync_directory = os.mkdir, OsFiles.sync_directory

    def noted_mkdir(path: str) -> None:
        acts.append(f"mkdir {Path(path).name}")
        mkdir(path)

    def noted_sync(self: OsFiles, path: str) -> None:
        acts.append(f"sync {Path(path).name}")
        sync_directory(self, path)

    (tmp_path / "top").mkdir()
    monkeypatch.setattr(os, "mkdir", noted_mkdir)
    monkeypatch.setattr(OsFiles, "sync_directory", noted_sync)
    files.make_directory(str(tmp_path / "top" / "a" / "b"))

    assert acts == ["mkdir a", "sync top", "mkdir b", "sync a"]
