"""Journals: what clients sent and read, in a file for each client and partition, in rows of fixed size.

A record's value begins with its writer and a unique number: `3/12345 ....`. Journals store the two numbers, and return
the value without its padding.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from verify.clusters.history import Outcome, Poll, Send

_SEND = struct.Struct("<qqqb")
_POLL = struct.Struct("<qIb")
_SEEN = struct.Struct("<qHq")
_OUTCOMES = (Outcome.DONE, Outcome.FAILED, Outcome.UNKNOWN)
_VALUE_BYTES = 100

Seen = tuple[int, int, int]
"""Offset, writer, number."""


def value_of(writer: int, number: int) -> bytes:
    return (b"%d/%d " % (writer, number)).ljust(_VALUE_BYTES, b".")


def identity_of(value: bytes | None) -> tuple[int, int]:
    """The writer of a value, and its number; (0, -1) for a value that no client of ours wrote."""
    try:
        writer, number = (value or b"").split(b" ", 1)[0].split(b"/")
        return int(writer), int(number)
    except ValueError:
        return 0, -1


class Journal:
    """The journal of one client; `close` flushes it."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name
        self._files: dict[tuple[str, str, int], BinaryIO] = {}

    def note_send(
        self, topic: str, partition: int, number: int, outcome: Outcome, offset: int = -1, transaction: int = -1
    ) -> None:
        row = _SEND.pack(number, offset, transaction, _OUTCOMES.index(outcome))
        self._file("sends", topic, partition).write(row)

    def note_poll(self, topic: str, partition: int, position: int, seen: list[Seen], *, is_final: bool = False) -> None:
        file = self._file("polls", topic, partition)
        file.write(_POLL.pack(position, len(seen), is_final))
        file.write(b"".join([_SEEN.pack(*one) for one in seen]))

    def _file(self, what: str, topic: str, partition: int) -> BinaryIO:
        key = (what, topic, partition)
        if key not in self._files:
            self._files[key] = (self._folder / f"{what}.{topic}.{partition}.{self._name}").open("ab", 1 << 20)
        return self._files[key]

    def close(self) -> None:
        for file in self._files.values():
            file.close()


def read_sends(folder: Path, topic: str, partition: int) -> Iterator[Send]:
    """What all clients sent to a partition. A writer's name ends with its number: `librdkafka-1`."""
    for path in sorted(folder.glob(f"sends.{topic}.{partition}.*")):
        client = path.name.split(".", 3)[3]
        writer = int(client.rsplit("-", 1)[1])
        for number, offset, transaction, outcome in _SEND.iter_unpack(_whole(path, _SEND.size)):
            value = b"%d/%d" % (writer, number)
            known = -1 if transaction < 0 else transaction << 16 | writer
            yield Send(client, partition, value, number, _OUTCOMES[outcome], offset, known)


def read_polls(folder: Path, topic: str, partition: int) -> Iterator[Poll]:
    """What all clients read from a partition."""
    for path in sorted(folder.glob(f"polls.{topic}.{partition}.*")):
        client = path.name.split(".", 3)[3]
        content, at = path.read_bytes(), 0
        while at < len(content):
            position, count, is_final = _POLL.unpack_from(content, at)
            at += _POLL.size
            rows: Iterable[Seen] = _SEEN.iter_unpack(content[at : at + count * _SEEN.size])
            seen = [(offset, b"%d/%d" % (writer, number)) for offset, writer, number in rows]
            at += count * _SEEN.size
            yield Poll(client, partition, position, seen, bool(is_final))


def _whole(path: Path, row_bytes: int) -> bytes:
    content = path.read_bytes()
    assert len(content) % row_bytes == 0, f"{path} ends within a row: its client did not close it"
    return content
