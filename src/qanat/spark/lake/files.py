"""A folder with atomic writes, on a local disk or in any of Arrow's file systems.

On a local disk a file is written under a hidden name, synced and renamed; object stores show a file when it is closed.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyarrow import fs  # type: ignore[import-untyped]

from qanat.model.errors import QanatError

HIDDEN = "_"
"""Spark and Arrow ignore names that begin with it."""


class FolderError(QanatError):
    """A folder that cannot be used."""


class Folder:
    """A folder. It holds only its address, so that it can be sent to executors."""

    def __init__(self, location: str) -> None:
        self.location = location.rstrip("/") or "/"

    def __str__(self) -> str:
        return self.location

    @property
    def local(self) -> Path | None:
        """Its path, if it is on a disk of this machine."""
        if self.location.startswith("file:"):
            return Path("/" + self.location.removeprefix("file:").lstrip("/"))
        return None if "://" in self.location else Path(self.location).absolute()

    def address(self, name: str = "") -> str:
        """The address of a file for Spark."""
        place = self.location if self.local is None else f"file://{self.local}"
        return f"{place}/{name}" if name else place

    def read(self, name: str) -> bytes:
        """A file's content; raises `FileNotFoundError`."""
        with self.opened(name) as source:
            return bytes(source.read())

    @contextlib.contextmanager
    def opened(self, name: str) -> Iterator[Any]:
        """A seekable file for reading; raises `FileNotFoundError`."""
        if self.local is not None:
            with (self.local / name).open("rb") as source:
                yield source
            return
        system, root = self._remote()
        with system.open_input_file(f"{root}/{name}") as source:
            yield source

    @contextlib.contextmanager
    def writing(self, name: str) -> Iterator[Any]:
        """A file for writing; it appears, or replaces an existing one, when this ends without an error."""
        if self.local is None:
            system, root = self._remote()
            system.create_dir(f"{root}/{name}".rpartition("/")[0], recursive=True)
            with system.open_output_stream(f"{root}/{name}") as sink:
                yield sink
            return
        path = self.local / name
        with self._hidden(path) as (hidden, sink):
            yield sink
            _sync(sink.fileno(), sink)
            hidden.replace(path)
        _sync_folder(path.parent)

    def write_new(self, name: str, content: bytes) -> bool:
        """Write a file that must not exist yet; False if it does. On a local disk only one of several writers wins."""
        if self.local is None:
            system, root = self._remote()
            if system.get_file_info(f"{root}/{name}").type != fs.FileType.NotFound:
                return False
            with self.writing(name) as sink:
                sink.write(content)
            return True
        path = self.local / name
        with self._hidden(path) as (hidden, sink):
            sink.write(content)
            _sync(sink.fileno(), sink)
            try:
                os.link(hidden, path)
            except FileExistsError:
                return False
        _sync_folder(path.parent)
        return True

    def names(self, under: str = "") -> list[str]:
        """All files in a folder and below, by their relative names, sorted; none if the folder does not exist."""
        if self.local is not None:
            top = self.local / under
            found = (path for path in top.rglob("*") if path.is_file())
            return sorted(path.relative_to(self.local).as_posix() for path in found)
        system, root = self._remote()
        wanted = fs.FileSelector(f"{root}/{under}".rstrip("/"), allow_not_found=True, recursive=True)
        files = (one.path for one in system.get_file_info(wanted) if one.type == fs.FileType.File)
        return sorted(path.removeprefix(root).lstrip("/") for path in files)

    def is_empty(self) -> bool:
        """Whether the folder is empty or does not exist."""
        if self.local is not None:
            if self.local.exists() and not self.local.is_dir():
                raise FolderError(f"{self} is a file: a folder is needed")
            return not self.local.exists() or not any(self.local.iterdir())
        return not self.names()

    def delete(self, name: str) -> None:
        """Delete a file, if it exists."""
        if self.local is not None:
            (self.local / name).unlink(missing_ok=True)
            return
        system, root = self._remote()
        with contextlib.suppress(FileNotFoundError):
            system.delete_file(f"{root}/{name}")

    def _remote(self) -> tuple[fs.FileSystem, str]:
        try:
            system, root = fs.FileSystem.from_uri(self.location)
        except (OSError, ValueError) as fault:
            raise FolderError(f"{self} cannot be used: {fault}") from None
        return system, root.rstrip("/")

    @contextlib.contextmanager
    def _hidden(self, path: Path) -> Iterator[tuple[Path, Any]]:
        """A temporary file beside the final one, deleted at the end if it was not renamed."""
        hidden = path.with_name(f"{HIDDEN}{uuid4().hex}.unfinished")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            sink = hidden.open("wb")
        except OSError as fault:
            raise FolderError(f"{self} cannot be written: {fault.strerror or fault}") from None
        try:
            with sink:
                yield hidden, sink
        finally:
            hidden.unlink(missing_ok=True)


def _sync(descriptor: int, sink: Any) -> None:
    sink.flush()
    os.fsync(descriptor)


def _sync_folder(path: Path) -> None:
    """Sync a folder, so that new names in it are durable, where the system supports it."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
