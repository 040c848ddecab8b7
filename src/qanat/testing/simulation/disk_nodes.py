"""Files and folders of the simulated disk, each twice: as the process sees them and as they are durable.

A file is its durable bytes and the writes since the last sync, in order. A
folder is its durable names; changes of names wait in one `NameJournal`, because
a rename across folders is one change of both.
`crash_image` decides what survives a power loss.
"""

from __future__ import annotations

from dataclasses import dataclass, field

_FIRST_BUFFER_BYTES = 4096


@dataclass(slots=True, eq=False)
class Node:
    """A file or folder. `parent` is None for the root and for nodes without a name."""

    parent: Folder | None = None
    name: str = ""

    @property
    def path(self) -> str:
        if self.parent is None:
            return self.name
        folder = self.parent.path
        return f"{folder}{self.name}" if folder.endswith("/") else f"{folder}/{self.name}"

    def lose_name(self) -> None:
        """Remember the last path for reports; it no longer leads here."""
        self.name, self.parent = self.path, None


@dataclass(slots=True, eq=False)
class Folder(Node):
    """Names and their nodes: now (`entries`) and after a power loss at worst (`durable`)."""

    entries: dict[str, Node] = field(default_factory=dict)
    durable: dict[str, Node] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PendingWrite:
    """Bytes that the process has written and that may not be durable."""

    position: int
    data: bytes

    @property
    def end(self) -> int:
        return self.position + len(self.data)


@dataclass(frozen=True, slots=True)
class PendingTruncation:
    """A truncation that may not be durable."""

    length: int


@dataclass(slots=True, eq=False)
class Inode(Node):
    """A file's bytes. `buffer` is replaced when it is full, so that views of the old one do not change."""

    buffer: bytearray = field(default_factory=bytearray)
    size: int = 0
    shown_end: int = 0
    durable: bytearray = field(default_factory=bytearray)
    pending: list[PendingWrite | PendingTruncation] = field(default_factory=list)

    def write(self, data: bytes, position: int) -> None:
        if not data:
            return
        assert position >= self.shown_end, (
            f"{self.path}: writing at {position}, but views have shown the first {self.shown_end} bytes"
        )
        end = position + len(data)
        if end > len(self.buffer):
            self._replace_buffer(max(end, 2 * len(self.buffer), _FIRST_BUFFER_BYTES))
        memoryview(self.buffer)[position:end] = data
        self.size = max(self.size, end)
        self.pending.append(PendingWrite(position, data))

    def truncate(self, length: int) -> None:
        assert length >= self.shown_end, f"{self.path}: truncate to {length}, but views have shown {self.shown_end}"
        if length < self.size:
            self._replace_buffer(len(self.buffer), keep=length)
            self.size = length
            self.pending.append(PendingTruncation(length))

    def view(self, length: int) -> memoryview:
        self.shown_end = max(self.shown_end, length)
        return memoryview(self.buffer).toreadonly()[:length]

    def sync(self) -> None:
        self.settle(len(self.pending))
        # Where an earlier sync failed and dropped bytes, only the size is still written.
        extend(self.durable, self.size)

    def settle(self, count: int) -> None:
        """Make the oldest pending changes durable: those before the beginning of a sync that has now ended."""
        for change in self.pending[:count]:
            if isinstance(change, PendingTruncation):
                del self.durable[change.length :]
                continue
            extend(self.durable, change.position)
            self.durable[change.position : change.end] = change.data
        del self.pending[:count]

    def fail_sync(self) -> None:
        """As kernels do: the error is reported once and the pages count as clean from then on."""
        self.pending.clear()

    def drop_cache(self) -> None:
        """Bytes that a failed sync dropped disappear; pending writes stay."""
        waiting = list(self.pending)
        self._replace_buffer(len(self.buffer), keep=0)
        self.size = len(self.durable)
        memoryview(self.buffer)[: self.size] = self.durable
        self.pending.clear()
        for change in waiting:
            if isinstance(change, PendingTruncation):
                self.truncate(change.length)
            else:
                self.write(change.data, change.position)

    def flip(self, bit: int) -> None:
        """Flip one bit, in the durable bytes and for later reads."""
        mask = 1 << (bit % 8)
        self.durable[bit // 8] ^= mask
        self._replace_buffer(len(self.buffer))
        self.buffer[bit // 8] ^= mask

    def _replace_buffer(self, length: int, keep: int | None = None) -> None:
        buffer = bytearray(length)
        kept = self.size if keep is None else keep
        buffer[:kept] = memoryview(self.buffer)[:kept]
        self.buffer = buffer


@dataclass(frozen=True, slots=True, eq=False)
class NameChange:
    """Names that change together: (folder, name, its new node or None)."""

    steps: tuple[tuple[Folder, str, Node | None], ...]

    def make_durable(self) -> None:
        for folder, name, node in self.steps:
            if node is None:
                folder.durable.pop(name, None)
            else:
                folder.durable[name] = node


@dataclass(slots=True, eq=False)
class NameJournal:
    """Changes of names that no `sync_directory` has covered yet, oldest first."""

    pending: list[NameChange] = field(default_factory=list)

    def change(self, *steps: tuple[Folder, str, Node | None]) -> None:
        """Change names for the process, at once, and record it for the disk."""
        for folder, name, node in steps:
            before = folder.entries.pop(name, None)
            if before is not None and before.parent is folder and before.name == name:
                before.lose_name()
            if node is not None:
                folder.entries[name] = node
                node.parent, node.name = folder, name
        self.pending.append(NameChange(steps))

    def sync(self, folder: Folder, count: int | None = None) -> None:
        """Make a folder's changes durable, and with them any earlier change of the same folders.

        `count` is how many were pending when the sync began; later ones are not covered.
        """
        folders = [folder]
        covered: list[NameChange] = []
        count = len(self.pending) if count is None else count
        left: list[NameChange] = self.pending[count:][::-1]
        for change in reversed(self.pending[:count]):
            touched = [step[0] for step in change.steps]
            if any(one is other for one in touched for other in folders):
                folders += touched
                covered.append(change)
            else:
                left.append(change)
        for change in reversed(covered):
            change.make_durable()
        self.pending = left[::-1]


def copied(root: Folder, journal: NameJournal) -> tuple[Folder, NameJournal]:
    """A copy of the tree, to be changed on its own; only what never changes (pending writes) is shared."""
    copies: dict[Node, Node] = {}
    new_root = _copied_folder(root, copies)
    changes = [
        NameChange(
            tuple(
                (_copied_folder(folder, copies), name, None if node is None else _copied(node, copies))
                for folder, name, node in change.steps
            )
        )
        for change in journal.pending
    ]
    for node, copy in list(copies.items()):
        if node.parent is not None:
            copy.parent = _copied_folder(node.parent, copies)
    return new_root, NameJournal(changes)


def _copied(node: Node, copies: dict[Node, Node]) -> Node:
    if isinstance(node, Folder):
        return _copied_folder(node, copies)
    assert isinstance(node, Inode), "a node is a file or a folder"
    copy = copies.get(node)
    if copy is None:
        buffer, durable = bytearray(node.buffer), bytearray(node.durable)
        copy = copies[node] = Inode(None, node.name, buffer, node.size, node.shown_end, durable, list(node.pending))
    return copy


def _copied_folder(folder: Folder, copies: dict[Node, Node]) -> Folder:
    copy = copies.get(folder)
    if copy is None:
        copy = copies[folder] = made = Folder(None, folder.name)
        made.entries = {name: _copied(node, copies) for name, node in folder.entries.items()}
        made.durable = {name: _copied(node, copies) for name, node in folder.durable.items()}
    assert isinstance(copy, Folder)
    return copy


def extend(content: bytearray, length: int) -> None:
    """Fill up with zeros to `length`; longer content stays as it is."""
    if length > len(content):
        content.extend(bytes(length - len(content)))
