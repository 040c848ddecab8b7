"""A lake: opened, read, committed to.

    _qanat/lake.json                 its identity: format, its own id, the cluster's
    _qanat/commits/0000000007.json   one commit
    _qanat/sums/0000000064.json      the sum of all commits up to here, so that few have to be read
    _qanat/unfinished                an archive is writing or died: there may be files that no commit names
    topic=T/date=D/hour=H/…          the records

Commits are atomic; a commit makes its files part of the lake.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TypeVar
from uuid import uuid4

import msgspec

from qanat.model.errors import QanatError
from qanat.spark.lake.commits import (
    FORMAT,
    VERSION,
    Cause,
    Commit,
    Contents,
    Head,
    LakeFile,
    Positions,
    TopicState,
    encode,
)
from qanat.spark.lake.files import HIDDEN, Folder

Step = TypeVar("Step", Commit, Contents)

OWN = "_qanat"
_HEAD = f"{OWN}/lake.json"
_COMMITS = f"{OWN}/commits"
_SUMS = f"{OWN}/sums"
_UNFINISHED = f"{OWN}/unfinished"
SUM_EVERY = 64


class LakeError(QanatError):
    """A folder that is not a lake, the lake of another cluster, or a damaged lake."""


class Lake:
    """The lake in a folder. `open_existing` requires one, `open_or_create` creates one in an empty folder."""

    def __init__(self, folder: Folder, head: Head) -> None:
        self.folder = folder
        self.head = head
        self.contents = Contents()

    @staticmethod
    def open_existing(location: str) -> Lake:
        """The lake in a folder; raises `LakeError` where there is none."""
        folder = Folder(location)
        head = _head(folder)
        if head is None:
            hint = "it is empty" if folder.is_empty() else f"it has no {_HEAD}"
            raise LakeError(f"{folder} is not a lake: {hint}. `qanat pipeline run archive` creates one")
        lake = Lake(folder, head)
        lake.refresh()
        return lake

    @staticmethod
    def open_or_create(location: str, cluster: str) -> Lake:
        """The lake in a folder, for the topics of this cluster; creates it in an empty folder."""
        folder = Folder(location)
        head = _head(folder)
        if head is None:
            if not folder.is_empty():
                raise LakeError(f"{folder} is not empty and not a lake: give the archive a folder of its own")
            head = Head(uuid4().hex, cluster, _now_ms())
            folder.write_new(_HEAD, encode(head))
            head = _head(folder) or head
        if head.cluster != cluster:
            raise LakeError(
                f"{folder} is the lake of cluster {head.cluster}, and this is cluster {cluster}: their offsets are "
                "unrelated. Give this one a lake of its own"
            )
        lake = Lake(folder, head)
        lake.refresh()
        return lake

    def refresh(self) -> None:
        """Apply the commits since the last refresh."""
        commits = {_number(name): name for name in self.folder.names(_COMMITS)}
        if self.contents.number < 0:
            for name in reversed(self.folder.names(_SUMS)):
                self.contents = self._decoded(name, Contents)
                break
        for number in sorted(one for one in commits if one > self.contents.number):
            if number != self.contents.number + 1:
                raise LakeError(
                    f"{self.folder} is damaged: commit {self.contents.number + 1} is not in {_COMMITS}, but {number} is"
                )
            self.contents.apply(self._decoded(commits[number], Commit))

    def commit(self, commit: Commit) -> None:
        """Write the next commit; raises `LakeError` if another archive has written that number."""
        if not self.folder.write_new(_commit_name(commit.number), encode(commit)):
            raise LakeError(
                f"another archive writes into {self.folder} as well: stop one of the two, or give it another lake"
            )
        self.contents.apply(commit)
        if commit.number % SUM_EVERY == SUM_EVERY - 1:
            older = self.folder.names(_SUMS)
            self.folder.write_new(f"{_SUMS}/{commit.number:010}.json", encode(self.contents))
            for name in older[:-1]:
                self.folder.delete(name)

    def next_commit(
        self,
        cause: Cause,
        topics: dict[str, TopicState] | None = None,
        groups: dict[str, Positions] | None = None,
        add: Iterable[LakeFile] = (),
        remove: Iterable[str] = (),
        start: Positions | None = None,
    ) -> Commit:
        """The next commit; parts that are not passed stay unchanged."""
        return Commit(
            number=self.contents.number + 1,
            cause=cause,
            taken_at=_now_ms() if topics is not None else self.contents.taken_at,
            start=start or {},
            add=list(add),
            remove=list(remove),
            topics=self.contents.topics if topics is None else topics,
            groups=self.contents.groups if groups is None else groups,
        )

    def state_at(self, timestamp: int | None) -> Commit | None:
        """The last commit at or before a timestamp, or the first one; None in an empty lake."""
        low, high = 0, self.contents.number
        if high < 0:
            return None
        if timestamp is None:
            return self._decoded(_commit_name(high), Commit)
        while low < high:
            middle = (low + high + 1) // 2
            if self._decoded(_commit_name(middle), Commit).taken_at <= timestamp:
                low = middle
            else:
                high = middle - 1
        return self._decoded(_commit_name(low), Commit)

    # Recovery after a crash

    def begin_writing(self) -> None:
        """Mark the lake as being written; delete files of an interrupted writer that no commit names."""
        if not self.folder.write_new(_UNFINISHED, b"An archive is running, or was interrupted.\n"):
            for name in self.folder.names():
                is_own = name.startswith(f"{OWN}/")
                is_hidden = name.rpartition("/")[2].startswith(HIDDEN)
                if (not is_own and name not in self.contents.files) or (is_own and is_hidden):
                    self.folder.delete(name)

    def end_writing(self) -> None:
        self.folder.delete(_UNFINISHED)

    def _decoded(self, name: str, kind: type[Step]) -> Step:
        try:
            return msgspec.json.decode(self.folder.read(name), type=kind)
        except (FileNotFoundError, msgspec.DecodeError) as fault:
            raise LakeError(f"{self.folder} is damaged: {name} cannot be read: {fault}") from None


def _head(folder: Folder) -> Head | None:
    try:
        content = folder.read(_HEAD)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        head = msgspec.json.decode(content, type=Head)
    except msgspec.DecodeError as fault:
        raise LakeError(f"{folder} is not a lake: {_HEAD} cannot be read: {fault}") from None
    if head.format != FORMAT or head.version != VERSION:
        raise LakeError(
            f"{folder} is a lake of format {head.format} {head.version}; this version of Qanat reads {FORMAT} {VERSION}"
        )
    return head


def _commit_name(number: int) -> str:
    return f"{_COMMITS}/{number:010}.json"


def _number(name: str) -> int:
    stem = name.rpartition("/")[2].removesuffix(".json")
    return int(stem) if stem.isdigit() else -1


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
