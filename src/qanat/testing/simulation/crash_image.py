"""Crash images: what a power loss leaves of the simulated disk, one of the images that a real disk could show.

Modes: `keep_all` is a killed process on a running machine: everything is there, but
what was not durable still is not. `drop_all` is the worst that fsync allows.
`random` draws, file by file and folder by folder, something in between.

Rule 1: synced data is in every image.
Rule 2: a sector of 512 bytes is old or new, never mixed. A newer version of a sector
        contains the older writes to it; different sectors are independent.
Rule 3: an image is a function of the disk and of the generator passed in. Nodes are
        visited by sorted name.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Literal, assert_never

from qanat.testing.simulation.disk_nodes import (
    Folder,
    Inode,
    NameJournal,
    Node,
    PendingTruncation,
    PendingWrite,
    copied,
    extend,
)

CrashMode = Literal["keep_all", "drop_all", "random"]

SECTOR_BYTES = 512


def crash_image(
    root: Folder, journal: NameJournal, mode: CrashMode, random: Random, *, keeps_name_order: bool
) -> tuple[Folder, NameJournal]:
    """A disk after the crash of this one, which does not change."""
    root, journal = copied(root, journal)
    match mode:
        case "keep_all":
            for inode in _files(root):
                inode.shown_end = 0
            return root, journal
        case "drop_all":
            _settle(root, None)
        case "random":
            _draw_names(journal, random, keeps_name_order)
            _settle(root, random)
        case _:
            assert_never(mode)
    return root, NameJournal()


def _files(folder: Folder) -> Iterator[Inode]:
    for _, node in sorted(folder.entries.items()):
        if isinstance(node, Folder):
            yield from _files(node)
        elif isinstance(node, Inode):
            yield node


def _draw_names(journal: NameJournal, random: Random, keeps_name_order: bool) -> None:
    """Make some pending changes durable: a change is lost with any before it on the same folder (or name)."""
    loss = random.choice((0.0, 0.1, 0.5, 1.0))
    lost: list[tuple[Folder, str]] = []
    for change in journal.pending:
        keys = [(folder, "" if keeps_name_order else name) for folder, name, _ in change.steps]
        if any(key in lost for key in keys) or random.random() < loss:
            lost += keys
        else:
            change.make_durable()


def _settle(folder: Folder, random: Random | None) -> None:
    """Make the durable state of a folder and all below it the one that the next process sees."""
    folder.entries = dict(folder.durable)
    for name, node in sorted(folder.entries.items()):
        node.parent, node.name = folder, name
        _settle_node(node, random)


def _settle_node(node: Node, random: Random | None) -> None:
    if isinstance(node, Folder):
        _settle(node, random)
    elif isinstance(node, Inode):
        if random is not None:
            _draw_content(node, random)
        node.pending.clear()
        node.buffer = bytearray(node.durable)
        node.size = len(node.buffer)
        node.shown_end = 0


def _draw_content(inode: Inode, random: Random) -> None:
    """Make some sectors of the pending writes durable."""
    style = random.choice(("all", "none", "ordered", "any"))
    newest: dict[int, int] = {}
    size = 0
    cut = random.randrange(len(inode.pending) + 1)
    for number, write in enumerate(inode.pending):
        if isinstance(write, PendingTruncation):
            if style == "all" or (style != "none" and random.random() < 0.5):
                del inode.durable[write.length :]
                newest = {sector: last for sector, last in newest.items() if sector * SECTOR_BYTES < write.length}
                size = min(size, write.length)
            continue
        if style == "ordered":
            fate = "kept" if number < cut else "torn" if number == cut else "dropped"
        elif style == "any":
            fate = random.choice(("kept", "dropped", "torn", "scattered", "grown"))
        else:
            fate = "kept" if style == "all" else "dropped"
        for sector in _surviving_sectors(write, fate, random):
            newest[sector] = number
        if fate == "grown":
            size = max(size, write.end)
    _apply_sectors(inode, newest)
    extend(inode.durable, size)


def _surviving_sectors(write: PendingWrite, fate: str, random: Random) -> range | list[int]:
    sectors = range(write.position // SECTOR_BYTES, -(-write.end // SECTOR_BYTES))
    match fate:
        case "kept":
            return sectors
        case "torn":
            return sectors[: random.randrange(len(sectors) + 1)]
        case "scattered":
            return [sector for sector in sectors if random.random() < 0.5]
        case _:
            return []


def _apply_sectors(inode: Inode, newest: dict[int, int]) -> None:
    """Bring each sector to its version after the write of that number, and to none later."""
    for number, write in enumerate(inode.pending):
        if isinstance(write, PendingTruncation):
            continue
        start = write.position
        while start < write.end:
            sector = start // SECTOR_BYTES
            end = min(write.end, (sector + 1) * SECTOR_BYTES)
            if newest.get(sector, -1) >= number:
                extend(inode.durable, start)
                inode.durable[start:end] = write.data[start - write.position : end - write.position]
            start = end
