"""The seam for encryption at rest: a log on files that are stored under a key each, with it and without it."""

from __future__ import annotations

import builtins
import itertools
from collections.abc import Sequence

import pytest
from tests.log.batches import (
    FOLDER,
    append,
    batch,
    checkpoint_of,
    compact,
    flush,
    new_log,
    reopened,
    stored,
    truncate,
)

from qanat.adapters.memory_files import MemoryFiles
from qanat.log.atomic_files import read_whole
from qanat.log.files import Buffer, File, Files, Lock
from qanat.log.partition_log import PartitionLog
from qanat.log.segments import file_names
from qanat.log.segments.sidecar import decode_sidecar
from qanat.model.errors import UnreadableSegmentError


class KeyedFiles:
    """Files whose logs are stored under a key of their own. The cipher is for tests: every byte is turned by one."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self.keys: dict[str, str] = {}
        """Which key a path has."""
        self._numbers = itertools.count(1)

    def open(self, path: str, *, create: bool = False) -> File:
        file = self.files.open(path, create=create)
        if create and any(part in path for part in (file_names.LOG, file_names.CLEANED)):
            self.keys[path] = f"key-{next(self._numbers)}"
        return KeyedFile(self, file, self.keys[path]) if path in self.keys else file

    def rename(self, old: str, new: str) -> None:
        self.files.rename(old, new)
        self.move(old, new)

    def move(self, old: str, new: str) -> None:
        if old in self.keys:
            self.keys[new] = self.keys.pop(old)

    def remove(self, path: str) -> None:
        self.files.remove(path)
        self.keys.pop(path, None)

    def exists(self, path: str) -> bool:
        return self.files.exists(path)

    def list(self, path: str) -> builtins.list[str]:
        return self.files.list(path)

    def make_directory(self, path: str) -> None:
        self.files.make_directory(path)

    def remove_directory(self, path: str) -> None:
        self.files.remove_directory(path)

    def sync_directory(self, path: str) -> None:
        self.files.sync_directory(path)

    def lock(self, path: str) -> Lock:
        return self.files.lock(path)


class KeyedFile:
    """A log whose bytes look different on the disk."""

    def __init__(self, files: KeyedFiles, file: File, key_id: str) -> None:
        self._files = files
        self._file = file
        self.key_id = key_id

    @property
    def path(self) -> str:
        return self._file.path

    def size(self) -> int:
        return self._file.size()

    def write(self, chunks: Sequence[Buffer], position: int) -> int:
        return self._file.write([_turned(chunk) for chunk in chunks], position)

    def read(self, position: int, length: int) -> bytearray:
        return bytearray(_turned(self._file.read(position, length)))

    def view(self, length: int) -> memoryview:
        return memoryview(_turned(self._file.view(length)))

    def is_resident(self, position: int, length: int) -> bool:
        return self._file.is_resident(position, length)

    def truncate(self, length: int) -> None:
        self._file.truncate(length)

    def sync(self) -> None:
        self._file.sync()

    def drop_cache(self) -> None:
        self._file.drop_cache()

    def rename(self, path: str) -> None:
        before = self.path
        self._file.rename(path)
        self._files.move(before, path)

    def close(self) -> None:
        self._file.close()


def _turned(content: Buffer) -> bytes:
    return bytes(content).translate(bytes(byte ^ 0x5A for byte in range(256)))


def keyed_log(files: KeyedFiles, **settings: object) -> PartitionLog:
    log = new_log(files, segment_bytes=400, **settings)
    for number in range(30):
        append(log, batch([(b"key-%d" % (number % 3), b"a secret %d" % number)]))
    flush(log)
    assert len(log.segments) > 4
    return log


def sidecar_keys(files: KeyedFiles) -> dict[str, str | None]:
    """The key that each sidecar names, by its log's path."""
    found: dict[str, str | None] = {}
    for name in files.list(FOLDER):
        if (base_offset := file_names.offset_of(name, file_names.SIDECAR)) is not None:
            sidecar = decode_sidecar(read_whole(files, f"{FOLDER}/{name}") or b"", name)
            assert sidecar is not None
            found[file_names.segment_file(FOLDER, base_offset, file_names.LOG)] = sidecar.key_id
    return found


def test_nothing_of_a_record_is_readable_on_the_disk_and_all_of_it_in_the_log() -> None:
    files = KeyedFiles(MemoryFiles())
    log = keyed_log(files)
    raw = b"".join(read_whole(files.files, segment.path(file_names.LOG)) or b"" for segment in log.segments)
    assert b"a secret" not in raw
    assert b"a secret 29" in b"".join(content for _, content in stored(log))
    assert stored(reopened(log)) == stored(log)


def change_nothing(log: PartitionLog) -> None:
    pass


def compact_all(log: PartitionLog) -> None:
    compact(log)


def cut_off(log: PartitionLog) -> None:
    truncate(log, 13)


@pytest.mark.parametrize("change", [change_nothing, compact_all, cut_off])
def test_every_sidecar_names_the_key_of_its_own_file(change: object) -> None:
    files = KeyedFiles(MemoryFiles())
    log = keyed_log(files, cleanup_policy="compact")
    assert callable(change)
    change(log)
    found = sidecar_keys(files)
    assert len(set(found.values())) == len(found) > 0
    assert found == {path: files.keys[path] for path in found}
    again = reopened(log)
    assert stored(again) == stored(log)
    assert sidecar_keys(files) == found


def test_tables_are_rebuilt_with_the_key() -> None:
    files = KeyedFiles(MemoryFiles())
    log = keyed_log(files)
    found = sidecar_keys(files)
    for segment in log.segments[:-1]:
        files.remove(segment.path(file_names.OFFSET_INDEX))
    again = reopened(log)
    assert stored(again) == stored(log)
    assert sidecar_keys(files) == found


@pytest.mark.parametrize("is_another", [False, True])
def test_without_its_key_a_log_is_refused_and_left_as_it_is(is_another: bool) -> None:
    files = KeyedFiles(MemoryFiles())
    log = keyed_log(files)
    first = log.segments[0].path(file_names.LOG)
    before = {name: read_whole(files.files, f"{FOLDER}/{name}") for name in files.list(FOLDER)}
    if is_another:
        files.keys[first] = "key-99"
    else:
        del files.keys[first]
    with pytest.raises(UnreadableSegmentError, match=r"key 'key-1', which is not available: provide the key"):
        reopened(log, checkpoint=checkpoint_of(log))
    assert {name: read_whole(files.files, f"{FOLDER}/{name}") for name in files.list(FOLDER)} == before


def test_plain_segments_and_encrypted_ones_live_side_by_side() -> None:
    plain = MemoryFiles()
    log = new_log(plain, segment_bytes=400)
    for number in range(10):
        append(log, batch([(b"k", b"plain %d" % number)]))
    log.roll()
    flush(log)
    files = KeyedFiles(plain)
    log = reopened(log, files)
    log.roll()
    for number in range(10):
        append(log, batch([(b"k", b"a secret %d" % number)]))
    flush(log)
    assert {key is None for key in sidecar_keys(files).values()} == {False, True}
    assert len(stored(reopened(log))) == 20
