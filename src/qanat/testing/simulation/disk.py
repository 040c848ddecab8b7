"""The seeded disk: the port `log.files` on a disk that can lose power, lie, fill up and rot.

The process sees its writes and names at once. `crash` makes the disk that a
restarted machine would find: unsynced changes may be lost, torn or
reordered. Every change is numbered, so that a test can cut the power at each.

Rule 1: one seed and one sequence of calls give one history and one image; reports
        name the seed and the operation.
Rule 2: after `PowerLoss` nothing changes any more, whatever unwinding code tries.

`disk_nodes` holds bytes and names, `crash_image` makes the images,
`disk_faults` holds the faults.
"""

from __future__ import annotations

import builtins
import hashlib
import posixpath
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from random import Random

from qanat.log.files import Buffer
from qanat.model.errors import DirectoryLockedError, DiskFullError, ReadOnlyError, StorageError
from qanat.testing.simulation.crash_image import CrashMode, crash_image
from qanat.testing.simulation.disk_faults import Act, DiskFaults, PowerLoss
from qanat.testing.simulation.disk_nodes import Folder, Inode, NameJournal, Node

_TRACE_LENGTH = 10_000


class SimDisk:
    """A file system on a simulated disk. `/` exists from the start and is the working directory."""

    def __init__(self, seed: int | str = 0, faults: DiskFaults | None = None, *, is_traced: bool = True) -> None:
        self.seed = seed
        self._is_traced = is_traced
        """Whether every change is traced; a caller with a trace of its own avoids the cost."""
        self.faults = faults or DiskFaults()
        self.operations = 0
        self.is_off = False
        self.before_change: Callable[[Act], None] = _ignore
        """Called before every change of the disk, in the state that a power loss at this point would meet."""
        self.trace: deque[str] = deque(maxlen=_TRACE_LENGTH)
        self._trace_hash = hashlib.sha256()
        self._random = Random(f"disk {seed}")
        self._failures: list[tuple[Act, str]] = []
        self._root = Folder(name="/")
        self.journal = NameJournal()
        """Changes of names that are not durable yet."""
        self._locks: dict[str, SimLock] = {}

    def __repr__(self) -> str:
        last = f", last: {self.trace[-1]}" if self.trace else ""
        return f"<SimDisk seed={self.seed!r} operations={self.operations}{' OFF' if self.is_off else ''}{last}>"

    def open(self, path: str, *, create: bool = False) -> SimFile:
        path = _absolute(path)
        if create:
            self.remove(path)
            folder = self.folder(posixpath.dirname(path))
            self._change("create", path)
            self.journal.change((folder, posixpath.basename(path), Inode()))
        node = self._find(path)
        if not isinstance(node, Inode):
            raise StorageError(f"cannot open {path}: there is no file of that name")
        return SimFile(self, node)

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def list(self, path: str) -> builtins.list[str]:
        return sorted(self.folder(path).entries)

    def make_directory(self, path: str) -> None:
        path = _absolute(path)
        if isinstance(self._find(path), Folder):
            return
        parent = posixpath.dirname(path)
        self.make_directory(parent)
        folder = self.folder(parent)
        if posixpath.basename(path) in folder.entries:
            raise StorageError(f"cannot create folder {path}: it is a file")
        self._change("mkdir", path)
        self.journal.change((folder, posixpath.basename(path), Folder()))
        self.sync_directory(parent)

    def remove_directory(self, path: str) -> None:
        node = self._find(path)
        if node is None:
            return
        if not isinstance(node, Folder) or node.parent is None or node.entries:
            raise StorageError(f"cannot remove folder {path}: it is not empty, or no folder")
        self._change("rmdir", node.path)
        self.journal.change((node.parent, node.name, None))

    def rename(self, old: str, new: str) -> None:
        node = self._find(old)
        if node is None or node.parent is None:
            raise StorageError(f"cannot rename {old} to {new}: there is nothing of that name")
        new = _absolute(new)
        folder = self.folder(posixpath.dirname(new))
        replaced = self._find(new)
        if replaced is node:
            return
        if not _may_replace(node, replaced):
            raise StorageError(f"cannot rename {old} to {new}: the new name is taken by something of another kind")
        self._change("rename", node.path, f"to {new}")
        self.journal.change((folder, posixpath.basename(new), node), (node.parent, node.name, None))

    def remove(self, path: str) -> None:
        node = self._find(path)
        if node is None:
            return
        if not isinstance(node, Inode) or node.parent is None:
            raise StorageError(f"cannot remove {path}: it is a folder")
        self._change("remove", node.path)
        self.journal.change((node.parent, node.name, None))

    def sync_directory(self, path: str) -> None:
        folder = self.folder(path)
        self._change("sync_directory", folder.path)
        self.journal.sync(folder)

    def lock(self, path: str) -> SimLock:
        path = _absolute(path)
        if path in self._locks:
            raise DirectoryLockedError(f"{posixpath.dirname(path)} is in use by this process; choose another directory")
        self._locks[path] = lock = SimLock(path, self._locks)
        return lock

    def crash(self, mode: CrashMode = "random", *, variant: int = 0, faults: DiskFaults | None = None) -> SimDisk:
        """The disk as the next process may find it. This one does not change: call again with another `variant`
        for another of the possible images. `faults` are those of the new disk; locks are gone."""
        disk = SimDisk(f"{self.seed}/{mode}-{self.operations}-{variant}", faults, is_traced=self._is_traced)
        disk._root, disk.journal = crash_image(
            self._root, self.journal, mode, disk._random, keeps_name_order=self.faults.keeps_name_order
        )
        return disk

    def power_off(self) -> None:
        """Stop here: every change from now on raises `PowerLoss`."""
        self.is_off = True

    def fail_next(self, act: Act, path_ending: str = "") -> None:
        """Make the next such act on such a path fail with an I/O error, once."""
        self._failures.append((act, path_ending))

    def rot(self, path: str, bit: int | None = None) -> int:
        """Flip one durable bit of a file, a random one by default; return its number."""
        node = self._find(path)
        assert isinstance(node, Inode), f"{path} is no file"
        assert node.durable, f"{path} has no durable bytes to rot"
        if bit is None:
            bit = self._random.randrange(8 * len(node.durable))
        node.flip(bit)
        self._note(f"rot bit {bit} of {node.path}")
        return bit

    def durable_bytes(self, path: str) -> bytes:
        """The durable bytes of a file, whether its name is durable or not."""
        node = self._find(path)
        assert isinstance(node, Inode), f"{path} is no file"
        return bytes(node.durable)

    def trace_hash(self) -> str:
        """A digest of all operations so far, their data included."""
        return self._trace_hash.hexdigest()

    def _change(self, act: Act, path: str, detail: str = "") -> None:
        """Admit one more change of the disk, or raise its fault."""
        if self._strikes(act, path, detail):
            raise self._io_error(act, path)

    def _strikes(self, act: Act, path: str, detail: str = "") -> bool:
        """Number a change; raise if power is out, return whether an I/O error is due."""
        self._require_power()
        self.before_change(act)
        self.operations += 1
        if self._is_traced:
            self._note(f"{self.operations} {act} {path}{detail and ' ' + detail}")
        if self.faults.power_loss_at_operation == self.operations:
            self.is_off = True
            if act != "write" or not self.faults.tears_write:
                self._require_power()
        elif self.faults.is_read_only:
            raise ReadOnlyError(f"cannot {act} {path}: read-only file system")
        return self.operations in self.faults.fail_at_operations or self._is_failing(act, path)

    def _write(self, inode: Inode, data: bytes, position: int) -> None:
        path = inode.path
        detail = f"{len(data)} bytes at {position}, crc {zlib.crc32(data):08x}" if self._is_traced else ""
        is_failing = self._strikes("write", path, detail)
        if is_failing or self.is_off:
            torn = self._random.randrange(len(data)) if data and self.faults.tears_write else 0
            inode.write(data[:torn], position)
            self._require_power()
            raise self._io_error("write", path)
        room = self._room_bytes(inode, position)
        inode.write(data[:room], position)
        if room < len(data):
            raise DiskFullError(f"cannot write {path}: no space left on the device; free some space")

    def _sync(self, inode: Inode) -> None:
        path = inode.path
        if self._strikes("sync", path):
            inode.fail_sync()
            raise self._io_error("sync", path)
        inode.sync()

    def _read(self, inode: Inode, position: int, length: int) -> bytearray:
        if self._is_failing("read", inode.path):
            raise self._io_error("read", inode.path)
        return inode.buffer[position : min(position + length, inode.size)]

    def _is_cold(self) -> bool:
        return self._random.random() < self.faults.cold_chance

    def _require_power(self) -> None:
        if self.is_off:
            raise PowerLoss(f"power went out at operation {self.operations}, seed {self.seed!r}")

    def _is_failing(self, act: Act, path: str) -> bool:
        for failure in self._failures:
            if failure[0] == act and path.endswith(failure[1]):
                self._failures.remove(failure)
                return True
        return False

    def _io_error(self, act: Act, path: str) -> StorageError:
        self._note(f"I/O error at {act} {path}")
        return StorageError(f"cannot {act} {path}: input/output error (simulated, operation {self.operations})")

    def _note(self, line: str) -> None:
        self.trace.append(line)
        self._trace_hash.update(line.encode() + b"\n")

    def _room_bytes(self, inode: Inode, position: int) -> int:
        """How many bytes can be written to a file from `position` on."""
        if self.faults.capacity_bytes is None:
            return 1 << 62
        return max(0, self.faults.capacity_bytes - self.content_bytes + inode.size - position)

    @property
    def content_bytes(self) -> int:
        """The bytes of all files together, which `DiskFaults.capacity_bytes` bounds."""
        return _content_bytes(self._root)

    def _find(self, path: str) -> Node | None:
        node: Node | None = self._root
        for name in _absolute(path).split("/"):
            if name:
                node = node.entries.get(name) if isinstance(node, Folder) else None
        return node

    def folder(self, path: str) -> Folder:
        """The folder of that path, as the process sees it."""
        node = self._find(path)
        if not isinstance(node, Folder):
            raise StorageError(f"there is no folder {path}; create it first")
        return node


class SimFile:
    """A handle on a simulated file."""

    def __init__(self, disk: SimDisk, inode: Inode) -> None:
        self._disk = disk
        self.inode = inode
        self._is_closed = False

    def __repr__(self) -> str:
        return f"<SimFile {self.path} {self.inode.size} bytes, {len(self.inode.pending)} unsynced writes>"

    @property
    def path(self) -> str:
        return self.inode.path

    @property
    def key_id(self) -> None:
        """Nothing is encrypted here."""
        return

    def size(self) -> int:
        return self._open_inode().size

    def write(self, chunks: Sequence[Buffer], position: int) -> int:
        data = b"".join(chunks)
        self._disk._write(self._open_inode(), data, position)
        return len(data)

    def truncate(self, length: int) -> None:
        self._disk._change("truncate", self.path, f"to {length} bytes")
        self._open_inode().truncate(length)

    def read(self, position: int, length: int) -> bytearray:
        return self._disk._read(self._open_inode(), position, length)

    def view(self, length: int) -> memoryview:
        inode = self._open_inode()
        if length > inode.size:
            raise StorageError(f"{self.path} has {inode.size} bytes where {length} are expected")
        return inode.view(length)

    def is_resident(self, position: int, length: int) -> bool:
        assert position + length <= self._open_inode().size, f"{self.path} ends before {position + length}"
        return not self._disk._is_cold()

    def sync(self) -> None:
        self._disk._sync(self._open_inode())

    def drop_cache(self) -> None:
        self._open_inode().drop_cache()

    def rename(self, path: str) -> None:
        assert self._open_inode().parent is not None, f"{self.path} was removed or replaced: no name is left to change"
        self._disk.rename(self.path, path)

    def close(self) -> None:
        self._is_closed = True

    def _open_inode(self) -> Inode:
        assert not self._is_closed, f"{self.path} is used after close"
        return self.inode


class SimLock:
    """A claim on a path; a crash drops it."""

    def __init__(self, path: str, locks: dict[str, SimLock]) -> None:
        self._path = path
        self._locks = locks

    def release(self) -> None:
        if self._locks.get(self._path) is self:
            del self._locks[self._path]


def _ignore(act: Act) -> None:
    """The default of `before_change`."""


def _absolute(path: str) -> str:
    return posixpath.normpath(posixpath.join("/", path))


def _may_replace(node: Node, replaced: Node | None) -> bool:
    match node, replaced:
        case (_, None) | (Inode(), Inode()):
            return True
        case Folder(), Folder(entries=entries):
            return not entries
        case _:
            return False


def _content_bytes(folder: Folder) -> int:
    return sum(
        _content_bytes(node) if isinstance(node, Folder) else node.size
        for node in folder.entries.values()
        if isinstance(node, Folder | Inode)
    )
